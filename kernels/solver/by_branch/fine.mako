<%page args="spec"/>\
<%
    local = spec.capacity > 0
    fence = "CLK_LOCAL_MEM_FENCE" if local else "CLK_GLOBAL_MEM_FENCE"
    ahead = max(1, spec.ahead // spec.rhs)

    # Numbers of a level: literals if all blocks agree. `level` is None in a loop over all levels.
    def number(level):
        return "level" if level is None else str(level)

    def first_branch(level):
        above, equal = 0, level is not None
        for k in range(level or 0):
            equal = equal and spec.levels[k].width > 0
            above = above + spec.levels[k].width
        if equal:
            return f"level_branches[top] + {above}"
        read = f"level_branches[top + {number(level)}]"
        if level is None or spec.levels[level].everywhere:
            return read
        return f"levels > {level} ? {read} : 0"

    def width_of(level):
        if level is None:
            return "level_branches[top + level + 1] - first"
        if spec.levels[level].width:
            return str(spec.levels[level].width)
        read = f"level_branches[top + {level + 1}] - first"
        return read if spec.levels[level].everywhere else f"levels > {level} ? {read} : 0"

    def offset_of(level):
        if level is not None and spec.levels[level].offset >= 0:
            return str(spec.levels[level].offset)
        return f"level_offset[top + {number(level)}]"

    def length_of(level):
        if level is not None and spec.levels[level].length:
            return str(spec.levels[level].length)
        return "branch_length[branch]"

    def branches(level):   # several branches per work-item only if some block has so many
        if level is None or spec.levels[level].passes:
            return "for (int k = lane; k < width; k += WORK_GROUP)"
        return "const int k = lane; if (k < width)"

    def inner(level, node, value):   # 0 at the root, which has no parent
        if level is None:
            return f"level + {node} ? {value} : (real)0"
        return value if level else f"{node} ? {value} : (real)0"
%>\
<%def name="eliminate(level)">\
        const int first = ${first_branch(level)}, width = ${width_of(level)};
        ${branches(level)} {
            const int branch = first + k, length = ${length_of(level)};
            const int root = start + ${offset_of(level)} + k;   // end nearest the root
            real sum_d = 0, sum_b[RHS];
% if not spec.symmetric:
            real change = 0;   // sum of magnitudes that are subtracted from the diagonal
            int grown = 0;     // 1 + node whose diagonal may have lost digits
% endif
            for (int r = 0; r < RHS; ++r) sum_b[r] = 0;
% if level is None or level + 1 < len(spec.levels):
            for (int c = branch_children[branch]; c < branch_children[branch + 1]; ++c) {
                const int child = start + child_first[c];
                const real coupling = u[child];
                sum_d += coupling * FACTOR(child);
% if not spec.symmetric:
                change += fabs(coupling * FACTOR(child));
% endif
                for (int r = 0; r < RHS; ++r) sum_b[r] += coupling * SOLUTION(child, r);
            }
% endif
            int bad = 0;
            for (int j = length - 1; j >= 0; j -= AHEAD) {
${part("solver/common/branch_rows", 16)}\
                __attribute__((opencl_unroll_hint))
                for (int s = 0; s < AHEAD; ++s) {
                    if (j - s < 0) continue;
                    const int place = root + (j - s) * width;
                    const real pivot = row_d[s] - sum_d;
                    const real coupling = ${inner(level, "j - s", "row_u[s]")};
% if not spec.symmetric:
                    const real below = ${inner(level, "j - s", "row_l[s]")};
% endif
                    const real inverse = (real)1 / pivot;
                    const real f = ${"coupling" if spec.symmetric else "below"} * inverse;
                    FACTOR(place) = f;
                    sum_d = coupling * f;
                    for (int r = 0; r < RHS; ++r) {
                        const real g = (row_b[RHS * s + r] - sum_b[r]) * inverse;
                        SOLUTION(place, r) = g;
                        sum_b[r] = coupling * g;
                    }
                    if (!(pivot > (real)SMALLEST && pivot < (real)LARGEST) && bad == 0)
                        bad = j - s + 1;
% if not spec.symmetric:
                    if (change > GROWTH * fabs(row_d[s])) grown = j - s + 1;
                    change = fabs(sum_d);
% endif
                }
            }
            if (bad)   // the maximum is the deepest bad node, whatever the work-items' order
                atomic_max(status + cell_number[block_cells[block] + branch_slot[branch]],
                           BAD | (branch_rank[branch] + bad));
% if not spec.symmetric:
            else if (grown)
                atomic_max(status + cell_number[block_cells[block] + branch_slot[branch]],
                           branch_rank[branch] + grown);
% endif
        }
</%def>\
<%def name="substitute(level)">\
        const int first = ${first_branch(level)}, width = ${width_of(level)};
        ${branches(level)} {
            const int branch = first + k, length = ${length_of(level)};
            const int root = start + ${offset_of(level)} + k;
% if level != 0:
            const int parent = branch_parent[branch];
% endif
            for (int r = 0; r < RHS; ++r) {
% if level == 0:
                real above = 0;
% elif level is None:
                real above = parent < 0 ? (real)0 : SOLUTION(start + parent, r);
% else:
                real above = SOLUTION(start + parent, r);
% endif
                for (int j = 0; j < length; j += AHEAD) {
                    real row_f[AHEAD], row_g[AHEAD];
                    __attribute__((opencl_unroll_hint))
                    for (int s = 0; s < AHEAD; ++s)
                        if (j + s < length) {
                            row_f[s] = FACTOR(root + (j + s) * width);
                            row_g[s] = SOLUTION(root + (j + s) * width, r);
                        }
                    __attribute__((opencl_unroll_hint))
                    for (int s = 0; s < AHEAD; ++s)
                        if (j + s < length) {
                            const int place = root + (j + s) * width;
                            above = row_g[s] - row_f[s] * above;
                            SOLUTION(place, r) = above;
% if local:
                            x[place + (long)r * num_values] = above;
% endif
                        }
                }
            }
        }
</%def>\
// Fine-grained Hines solver (Huber 2018): a work-group per block (some cells), a work-item per
// branch, a barrier after each level.
// spec: ${spec}
// layout: level-strided; node j in branch k on a level with w branches is at
//         block_start + level_offset + j * w + k, longest branches first.
//
% if local:
// Factors and the intermediate solution stay in local memory between the sweeps.
//
% endif
// A branch adds its children's contributions in child list order, so there are no atomics,
// and every run rounds in the same way.
//
// Arguments; arrays of values are in device order and have num_values values per row. A launch has
// num_blocks work-groups, and solves RHS right-hand sides from row first_row on:
${part("solver/common/arguments")}\
//   factor           scratch: each node's l / pivot, between the sweeps
//   block_template   each block's template: blocks with one template have the same trees
//   block_start      where each block has its first value
//   block_cells      each block's first entry in cell_number, and the end
//   cell_number      cells, block after block
//   template_levels  each template's first level, and the end
//   level_branches   each level's first branch, and the end
//   level_offset     where each level has its first value, counted in its block
//   branch_length    nodes in each branch
//   branch_parent    the branch's parent node, as an index in the block; -1 at roots
//   branch_children  each branch's first entry in child_first, and the end
//   child_first      each child branch's first node, as an index in the block
//   branch_slot      the branch's cell, as a number in the block
//   branch_rank      the branch's first node, as a position in its cell, see status
${part("solver/common/precision")}\

#define RHS ${spec.rhs}
${part("solver/common/bad_pivots", growth=not spec.symmetric)}\
#define WORK_GROUP ${spec.work_group}
#define AHEAD ${ahead}   // nodes that are read together along a branch
% if local:
#define CAPACITY ${spec.capacity}   // values in the largest block
#define FACTOR(place) kept[(place) - start]
#define SOLUTION(place, r) solution[(r) * CAPACITY + (place) - start]
% else:
#define FACTOR(place) factor[place]
#define SOLUTION(place, r) x[(place) + (long)(r) * num_values]
% endif

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void solve(${signature(spec)})
{
% if local:
    __local real kept[CAPACITY], solution[RHS * CAPACITY];
% endif
    b += (long)first_row * num_values;   // right-hand sides from first_row on
    x += (long)first_row * num_values;
    const int block = get_group_id(0);
    const int lane = get_local_id(0);
    const int start = block_start[block];
    const int top = template_levels[block_template[block]];
    const int levels = template_levels[block_template[block] + 1] - top;

    const int cells_end = block_cells[block + 1];
    for (int c = block_cells[block] + lane; c < cells_end; c += WORK_GROUP)
        status[cell_number[c]] = 0;
    barrier(CLK_GLOBAL_MEM_FENCE);

% if spec.levels:
    // backward sweep: from the tips to the root, deepest level first
% for level in reversed(range(len(spec.levels))):
    {   // level ${level}
${eliminate(level)}\
    }
% if level:
    barrier(${fence});
% endif
% endfor
    // no barrier: a work-item goes on with the root branches that it has eliminated itself

    // forward sweep: from the root to the tips
% for level in range(len(spec.levels)):
    {   // level ${level}
${substitute(level)}\
    }
% if level + 1 < len(spec.levels):
    barrier(${fence});
% endif
% endfor
% else:
    // backward sweep: from the tips to the root, deepest level first
    int level = levels;
    do {   // at least once: PoCL takes far longer to build loops that may not reach a barrier
        --level;
${eliminate(None)}\
        barrier(${fence});
    } while (level > 0);

    // forward sweep: from the root to the tips
    do {
${substitute(None)}\
        barrier(${fence});
    } while (++level < levels);
% endif
}
