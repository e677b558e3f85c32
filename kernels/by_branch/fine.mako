<%page args="spec"/>\
<%
    local = spec.capacity > 0
    fence = "CLK_LOCAL_MEM_FENCE" if local else "CLK_GLOBAL_MEM_FENCE"
%>\
// Fine-grained Hines solver (Huber 2018): one work-group a block of cells, one work-item a
// branch, a barrier a level.
// spec: ${spec}
// layout: level-strided; element j of branch k on a level of w branches is at
//         block_start + level_offset + j * w + k, longest branches first.
//
% if local:
// Factors and intermediate solution stay in local memory between the sweeps.
//
% endif
// A branch collects from its children in the order of the child list: no atomics, and the
// same rounding in every run.
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;

#define RHS ${spec.rhs}
#define SMALLEST (1 / ${"DBL_MAX" if spec.real == "double" else "FLT_MAX"})   // pivot with a finite inverse
#define WORK_GROUP ${spec.work_group}
#define AHEAD ${max(1, spec.ahead // spec.rhs)}   // rows of a branch that are read at once
#define NEIGHBOURS 32
% if local:
#define CAPACITY ${spec.capacity}   // values of the largest block
#define FACTOR(place) kept[(place) - start]
#define SOLUTION(place, r) solution[(r) * CAPACITY + (place) - start]
% else:
#define FACTOR(place) factor[place]
#define SOLUTION(place, r) x[(place) + (long)(r) * num_values]
% endif

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void solve(${signature(spec)})   // a cell: 0, or 1 + its first bad node in elimination order
{
% if local:
    __local real kept[CAPACITY], solution[RHS * CAPACITY];
% endif
    b += (long)first_row * num_values;   // of the right-hand sides, rows first_row onwards
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

    // backward sweep: from the tips to the root, deepest level first
    int level = levels;
    do {   // at least once: PoCL takes far longer to build loops that may not reach a barrier
        --level;
        const int first = level_branches[top + level];
        const int width = level_branches[top + level + 1] - first;
        for (int k = lane; k < width; k += WORK_GROUP) {
            const int branch = first + k;
            const int root = start + level_offset[top + level] + k;   // end nearest the root
            const int length = branch_length[branch];
            real sum_d = 0, sum_b[RHS];
            for (int r = 0; r < RHS; ++r) sum_b[r] = 0;
            for (int c = branch_children[branch]; c < branch_children[branch + 1]; ++c) {
                const int child = start + child_first[c];
                const real coupling = u[child];
                sum_d += coupling * FACTOR(child);
                for (int r = 0; r < RHS; ++r) sum_b[r] += coupling * SOLUTION(child, r);
            }
            int bad = 0;
            // neighbours go through rows together, from that of the longest of them on, so that
            // they read side by side
            for (int j = branch_length[first + ${"k / NEIGHBOURS * NEIGHBOURS" if spec.uniform else "k"}] - 1; j >= 0; j -= AHEAD) {
                real row_d[AHEAD], row_u[AHEAD], row_b[RHS * AHEAD];
% if not spec.symmetric:
                real row_l[AHEAD];
% endif
                __attribute__((opencl_unroll_hint))
                for (int s = 0; s < AHEAD; ++s) {   // memory answers to all of them at once
                    const int place = root + (j - s) * width;
                    if (j - s >= 0 && j - s < length) {
                        row_d[s] = d[place];
                        row_u[s] = u[place];
% if not spec.symmetric:
                        row_l[s] = l[place];
% endif
                        for (int r = 0; r < RHS; ++r)
                            row_b[RHS * s + r] = b[place + (long)r * num_values];
                    }
                }
                __attribute__((opencl_unroll_hint))
                for (int s = 0; s < AHEAD; ++s) {
                    if (j - s < 0 || j - s >= length) continue;
                    const int place = root + (j - s) * width;
                    const real pivot = row_d[s] - sum_d;
                    const real coupling = level + j - s ? row_u[s] : (real)0;
% if not spec.symmetric:
                    const real below = level + j - s ? row_l[s] : (real)0;
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
                    if (!(pivot > (real)SMALLEST && pivot < (real)INFINITY) && bad == 0)
                        bad = j - s + 1;
                }
            }
            if (bad)   // the deepest bad node of the cell wins, whoever finds it first
                atomic_max(status + cell_number[block_cells[block] + branch_slot[branch]],
                           branch_rank[branch] + bad);
        }
        barrier(${fence});
    } while (level > 0);

    // forward sweep: from the root to the tips
    do {
        const int first = level_branches[top + level];
        const int width = level_branches[top + level + 1] - first;
        for (int k = lane; k < width; k += WORK_GROUP) {
            const int branch = first + k;
            const int root = start + level_offset[top + level] + k;
            const int parent = branch_parent[branch];
            const int length = branch_length[branch];
            for (int r = 0; r < RHS; ++r) {
                real above = parent < 0 ? (real)0 : SOLUTION(start + parent, r);
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
        barrier(${fence});
    } while (++level < levels);
}
