<%page args="spec"/>\
<%
    backward, padded = spec.phase == "backward", spec.computes_padding
%>\
<%def name="forward()">\
    for (int j = 0; j < steps; j += AHEAD) {
        real row_f[AHEAD], row_g[RHS * AHEAD];
        __attribute__((opencl_unroll_hint))
        for (int s = 0; s < AHEAD; ++s) {
            const int place = root + (j + s) * width;
            if (j + s < steps) {
                row_f[s] = factor[place];
                for (int r = 0; r < RHS; ++r) row_g[RHS * s + r] = x[place + (long)r * num_values];
            }
        }
        __attribute__((opencl_unroll_hint))
        for (int s = 0; s < AHEAD; ++s) {
            if (j + s >= steps) continue;
            const int place = root + (j + s) * width;
            for (int r = 0; r < RHS; ++r) {
                above[r] = row_g[RHS * s + r] - row_f[s] * above[r];
                x[place + (long)r * num_values] = above[r];
            }
        }
    }
</%def>\
// Hines solver level by level (Valero-Lara et al. 2018, section 4): a launch per branch level in the
// whole batch; a work-item solves a branch as a tridiagonal system (cuThomasVBatch).
// spec: ${spec}
// layout: level-strided; node j in branch k on a level with w branches is at
//         level_offset + j * w + k, longest branches first.
//
% if backward:
// Backward sweep, deepest level first; at level 0 the forward sweep follows at once. A branch
// adds its children's contributions, and their bad pivots, in child list order, so there
// are no atomics, and every run rounds in the same way.
% if padded:
// Branches are padded to their level's longest one by identity rows, d = 1 and u = b = 0.
% endif
% else:
// Forward sweep on a level; the parents' level has been solved.
% if padded:
// Branches are padded to their level's longest one by zeros.
% endif
% endif
//
// Arguments; arrays of values are in device order and have num_values values per row. A launch
// handles one `level`, for RHS right-hand sides from row first_row on:
${part("solver/common/arguments")}\
//   factor           scratch: each node's l / pivot, from the backward to the forward sweep
//   level_branches   each level's first branch, and the end
//   level_offset     where each level has its first value
//   level_longest    nodes in each level's longest branch
//   level_depth      how many branches are above each level's branches: a long level may be cut into several
//   branch_length    nodes in each branch
% if backward:
//   branch_children  each branch's first entry in child and child_first, and the end
//   child            each child branch;  child_first: its first node's index
//   branch_rank      the branch's first node, as a position in its cell, see status
//   branch_bad       scratch: the status for each branch with the branches below
//   cell_number      each root branch's cell
% else:
//   branch_parent    the branch's parent node, as an index; -1 at roots
% endif
${part("solver/common/precision")}\

#define RHS ${spec.rhs}
#define AHEAD ${max(1, spec.ahead // spec.rhs)}   // nodes that are read together along a branch
% if backward:
${part("solver/common/bad_pivots", growth=not spec.symmetric)}\
% endif

__kernel __attribute__((reqd_work_group_size(${spec.work_group}, 1, 1)))
void solve(${signature(spec)})
{
    const int first = level_branches[level], width = level_branches[level + 1] - first;
    const int k = get_global_id(0);
    if (k >= width) return;   // there are no barriers
    const int branch = first + k;
    const int root = level_offset[level] + k;   // end nearest the root
% if padded:
    const int steps = level_longest[level];
% else:
    const int steps = branch_length[branch];
% endif
    x += (long)first_row * num_values;   // right-hand sides from first_row on
    real above[RHS];
% if backward:
    b += (long)first_row * num_values;
    const bool top = level_depth[level] == 0;
% if padded:
    const int length = branch_length[branch];
% endif

    real sum_d = 0, sum_b[RHS];
    int below = 0, own = 0;   // bad pivots: the children's largest status; 1 + this branch's node
% if not spec.symmetric:
    int grown = 0;
    real change = 0;   // sum of magnitudes that are subtracted from the diagonal
% endif
    for (int r = 0; r < RHS; ++r) sum_b[r] = 0;
    for (int c = branch_children[branch]; c < branch_children[branch + 1]; ++c) {
        const int from = child_first[c];
        const real coupling = u[from];
        sum_d += coupling * factor[from];
% if not spec.symmetric:
        change += fabs(coupling * factor[from]);
% endif
        for (int r = 0; r < RHS; ++r) sum_b[r] += coupling * x[from + (long)r * num_values];
        below = max(below, branch_bad[child[c]]);
    }
    for (int j = steps - 1; j >= 0; j -= AHEAD) {
${part("solver/common/branch_rows", 8)}\
        __attribute__((opencl_unroll_hint))
        for (int s = 0; s < AHEAD; ++s) {
            if (j - s < 0) continue;
            const int place = root + (j - s) * width;
            const bool tied = j - s || !top;   // the node has a parent
% if padded:
            const bool inside = j - s < length;
            const real pivot = inside ? row_d[s] - sum_d : (real)1;
            const real coupling = tied && inside ? row_u[s] : (real)0;
% else:
            const real pivot = row_d[s] - sum_d;
            const real coupling = tied ? row_u[s] : (real)0;
% endif
            const real inverse = (real)1 / pivot;
% if spec.symmetric:
            const real f = coupling * inverse;
% else:
            const real f = (${"tied && inside" if padded else "tied"} ? row_l[s] : (real)0) * inverse;
% endif
            factor[place] = f;
            sum_d = ${"inside ? coupling * f : sum_d" if padded else "coupling * f"};
% if not spec.symmetric:
            if (${"inside && " if padded else ""}change > GROWTH * fabs(row_d[s])) grown = j - s + 1;
            ${"if (inside) " if padded else ""}change = fabs(sum_d);
% endif
            for (int r = 0; r < RHS; ++r) {
                const long shift = (long)r * num_values;
% if padded:
                const real g = inside ? (row_b[RHS * s + r] - sum_b[r]) * inverse : (real)0;
                sum_b[r] = inside ? coupling * g : sum_b[r];
% else:
                const real g = (row_b[RHS * s + r] - sum_b[r]) * inverse;
                sum_b[r] = coupling * g;
% endif
                x[place + shift] = g;
            }
            if (!(pivot > (real)SMALLEST && pivot < (real)LARGEST) && own == 0) own = j - s + 1;
        }
    }
% if spec.symmetric:
    const int mine = own ? BAD | (branch_rank[branch] + own) : 0;
% else:
    const int mine = own ? BAD | (branch_rank[branch] + own) : grown ? branch_rank[branch] + grown : 0;
% endif
    const int bad = max(below, mine);   // the deepest bad node
    branch_bad[branch] = bad;
    if (!top) return;

    status[cell_number[branch]] = bad;
    for (int r = 0; r < RHS; ++r) above[r] = 0;
% else:
    const int parent = branch_parent[branch];
    for (int r = 0; r < RHS; ++r) above[r] = x[parent + (long)r * num_values];
% endif
${forward()}\
}
