<%page args="spec"/>\
<% space = "local" if spec.capacity else "global" %>\
<%def name="wait()">\
% if spec.lanes > 1:
        barrier(CLK_${space.upper()}_MEM_FENCE);   // once a step of the longest cell: all pass here
% endif
</%def>\
// Dendritic hierarchical scheduling (Zhang et al. 2023): ${spec.lanes} work-items a cell, in every
// step the deepest nodes whose children are done, a barrier a step.
// spec: ${spec}
// layout: cell after cell, a cell's nodes in the order of their elimination: lane k of a step takes
//         the value at cell_start + step_first + k.
//
// Nodes of one step may have one parent; it collects from its children, in the order of the child
// list, when its own step comes: no atomics, and the same rounding in every run.
% if spec.capacity:
// What nodes exchange is in local memory, for all cells of the work-group.
% endif
% if spec.real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;

#define RHS ${spec.rhs}
${part("solver/common/pivot_bounds")}\
#define BAD (${spec.status.write(bad="1")})   // in the status: a bad pivot, see STATUS in kernel_spec.py
% if not spec.symmetric:
#define GROWTH ${spec.growth}   // see there
% endif
#define WORK_GROUP ${spec.work_group}
#define LANES ${spec.lanes}
% if spec.capacity:
#define CAPACITY ${spec.capacity}   // nodes that a work-group may have
% endif

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void solve(${signature(spec)})   // a cell: 0, or 1 + its first bad node in elimination order
{
% if spec.lanes > 1:
    __local int worst[WORK_GROUP];
% endif
% if spec.capacity:
    __local real kept[(1 + RHS) * CAPACITY];
% endif
    const int me = get_local_id(0);
    const int cell = get_global_id(0) / LANES;   // idle ones, after the last, have no steps
    const int lane = me % LANES;
    const int steps = cell_steps[cell];
    const int most_steps = group_steps[get_group_id(0)];
    const int start = cell_start[cell];
    const long rows_start = (long)first_row * num_values + start;   // of the right-hand sides
    d += start;
    u += start;
% if not spec.symmetric:
    l += start;
% endif
    b += rows_start;
    x += rows_start;
    // factors, and of each right-hand side, a row apart, first b over the pivot and then x
% if spec.capacity:
    __local real *f = kept + (start - cell_start[get_group_id(0) * (WORK_GROUP / LANES)]);
    __local real *g = f + CAPACITY;
    const int row = CAPACITY;
% else:
    __global real *f = factor + start, *g = x;
    const long row = num_values;
% endif
    step_first += cell_step[cell];
    node_parent += cell_node[cell];
    node_order += cell_node[cell];
    node_children += cell_node[cell];

    // backward sweep: from the tips to the root
    int bad = 0, step = 0;
    do {   // at least once: PoCL takes far longer to build loops that may not reach a barrier
        const int place = step < steps ? step_first[step] + lane : 0;
        const int end = step < steps ? step_first[step + 1] : 0;
        if (place < end) {
            real sum_d = 0, sum_b[RHS];
% if not spec.symmetric:
            real change = 0;   // of the diagonal: the sum of magnitudes
% endif
            for (int r = 0; r < RHS; ++r) sum_b[r] = 0;
            for (int c = node_children[place]; c < node_children[place + 1]; ++c) {
                const int child = node_child[c];
                const real coupling = u[child];
                sum_d += coupling * f[child];
% if not spec.symmetric:
                change += fabs(coupling * f[child]);
% endif
                for (int r = 0; r < RHS; ++r) sum_b[r] += coupling * g[child + r * row];
            }
            const real pivot = d[place] - sum_d;
            const real inverse = (real)1 / pivot;
            const int inner = node_parent[place] >= 0;
            f[place] = (inner ? ${"u" if spec.symmetric else "l"}[place] : (real)0) * inverse;
            for (int r = 0; r < RHS; ++r)
                g[place + r * row] = (b[place + (long)r * num_values] - sum_b[r]) * inverse;
            if (!(pivot > (real)SMALLEST && pivot < (real)LARGEST))
                bad = max(bad, BAD | (node_order[place] + 1));
% if not spec.symmetric:
            if (change > GROWTH * fabs(d[place])) bad = max(bad, node_order[place] + 1);
% endif
        }
${wait()}\
    } while (++step < most_steps);

    // forward sweep: from the root to the tips
    do {
        --step;
        const int place = step < steps ? step_first[step] + lane : 0;
        const int end = step < steps ? step_first[step + 1] : 0;
        if (place < end) {
            const int parent = node_parent[place];
            for (int r = 0; r < RHS; ++r) {
                real value = g[place + r * row];
                if (parent >= 0) value -= f[place] * g[parent + r * row];
                g[place + r * row] = value;
% if spec.capacity:
                x[place + (long)r * num_values] = value;
% endif
            }
        }
${wait()}\
    } while (step > 0);

% if spec.lanes > 1:
    // the deepest bad node of a cell wins, whoever found it
    worst[me] = bad;
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
    if (lane == 0 && cell_number[cell] >= 0) {
% if spec.lanes > 1:
        for (int k = 1; k < LANES; ++k) bad = max(bad, worst[me + k]);
% endif
        status[cell_number[cell]] = bad;
    }
}
