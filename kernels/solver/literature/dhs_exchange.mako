<%page args="spec"/>\
<%
    word = spec.node
%>\
<%def name="wait()">\
% if spec.lanes > 1:
        barrier(CLK_LOCAL_MEM_FENCE);   // once a step of the longest cell: all pass here
% endif
</%def>\
<%def name="ahead(step, values)">\
        // values of a step, read before the one before it is computed: memory answers meanwhile
        next = -1;
        if (${step} < steps) {
            const int first = step_first[own + ${step}];
            if (lane < step_first[own + ${step} + 1] - first) {
                next = first + lane;
                next_code = node_code[next];
                next_place = start + step_first[shared + ${step}] * CELLS + me;
% for line in values:
                ${line}
% endfor
            }
        }
</%def>\
// Dendritic hierarchical scheduling (Zhang et al. 2023): ${spec.lanes} work-items a cell, in every
// step the deepest nodes whose children are done, a barrier a step.
// spec: ${spec}
// layout: lane k of all cells of a work-group side by side in every step, so that a step reads
//         consecutive values: step_first * CELLS + k * CELLS + cell after the group's start.
//
// What nodes exchange goes through slots in local memory: a node leaves what its parent collects
// in its slot, and finds its parent's solution there in the forward sweep. It inherits the slot of
// its first child, and has those of further children in a list: no atomics, and the same rounding
// in every run. Factors and solution stay in global memory, where only their own work-item
// touches them.
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
#define CELLS ${spec.cells}   // of a work-group
#define SLOTS ${spec.slots}   // of a cell

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void solve(${signature(spec)})   // a cell: 0, or 1 + its first bad node in elimination order
{
% if spec.lanes > 1:
    __local int worst[WORK_GROUP];
% endif
    __local real exchange[(1 + RHS) * SLOTS * CELLS];
    const int me = get_local_id(0);
    const int group = get_group_id(0);
    const int lane = me / CELLS, column = me - lane * CELLS;
    const int cell = group * CELLS + column;   // idle ones, after the last, have no steps
    const int steps = cell_steps[cell], most_steps = group_steps[group];
    const int own = cell_step[cell], shared = group_step[group], start = group_start[group];
    __local real *lost = exchange + column, *passed = lost + SLOTS * CELLS;
    b += (long)first_row * num_values;   // of the right-hand sides
    x += (long)first_row * num_values;
    node_code += cell_node[cell];
    node_order += cell_node[cell];
    node_joins += cell_node[cell];

    // backward sweep: from the tips to the root
    int bad = 0, step = 0, next, next_code = 0, next_place = 0;
    real next_d = 1, next_u = 0, next_b[RHS];
% if not spec.symmetric:
    real next_l = 0;
% endif
<%
    values = ["next_d = d[next_place];", "next_u = u[next_place];"]
    values += [] if spec.symmetric else ["next_l = l[next_place];"]
    values += ["for (int r = 0; r < RHS; ++r) next_b[r] = b[next_place + (long)r * num_values];"]
%>\
    for (int r = 0; r < RHS; ++r) next_b[r] = 0;
    {
${ahead("0", values)}\
    }
    do {   // at least once: PoCL takes far longer to build loops that may not reach a barrier
        const int node = next, code = next_code, place = next_place;
        const real diagonal = next_d, coupling = step + 1 < steps ? next_u : (real)0;
% if not spec.symmetric:
        const real below = step + 1 < steps ? next_l : (real)0;
% endif
        real sum_d = 0, sum_b[RHS], right[RHS]${"" if spec.symmetric else ", change = 0"};
        for (int r = 0; r < RHS; ++r) {
            right[r] = next_b[r];
            sum_b[r] = 0;
        }
${ahead("step + 1", values)}\
        if (node >= 0) {
            const int slot = (${word.read("slot", "code")}) * CELLS;
            if (${word.read("inherits", "code")}) {
                sum_d = lost[slot];
% if not spec.symmetric:
                change = fabs(sum_d);   // of the diagonal: the sum of magnitudes
% endif
                for (int r = 0; r < RHS; ++r) sum_b[r] = passed[slot + r * SLOTS * CELLS];
            }
            if (${word.read("joins", "code")})
                for (int c = node_joins[node]; c < node_joins[node + 1]; ++c) {
                    const int other = join_slot[c] * CELLS;
                    sum_d += lost[other];
% if not spec.symmetric:
                    change += fabs(lost[other]);
% endif
                    for (int r = 0; r < RHS; ++r) sum_b[r] += passed[other + r * SLOTS * CELLS];
                }
            const real pivot = diagonal - sum_d;
            const real inverse = (real)1 / pivot;
            const real f = ${"coupling" if spec.symmetric else "below"} * inverse;
            factor[place] = f;
            lost[slot] = coupling * f;
            for (int r = 0; r < RHS; ++r) {
                const real g = (right[r] - sum_b[r]) * inverse;
                x[place + (long)r * num_values] = g;
                passed[slot + r * SLOTS * CELLS] = coupling * g;
            }
            if (!(pivot > (real)SMALLEST && pivot < (real)LARGEST))
                bad = max(bad, BAD | (node_order[node] + 1));
% if not spec.symmetric:
            if (change > GROWTH * fabs(diagonal)) bad = max(bad, node_order[node] + 1);
% endif
        }
${wait()}\
    } while (++step < most_steps);

    // forward sweep: from the root to the tips
    real next_f = 0;
<%
    values = ["next_f = factor[next_place];",
              "for (int r = 0; r < RHS; ++r) next_b[r] = x[next_place + (long)r * num_values];"]
%>\
    {
${ahead("step - 1", values)}\
    }
    do {
        --step;
        const int node = next, code = next_code, place = next_place;
        const real f = next_f;
        real value[RHS];
        for (int r = 0; r < RHS; ++r) value[r] = next_b[r];
        if (step > 0) {
${ahead("step - 1", values)}\
        }
        if (node >= 0) {
            const int slot = (${word.read("slot", "code")}) * CELLS;
            if (step + 1 < steps)   // not the root
                for (int r = 0; r < RHS; ++r) value[r] -= f * passed[slot + r * SLOTS * CELLS];
            for (int r = 0; r < RHS; ++r) x[place + (long)r * num_values] = value[r];
            if (${word.read("inherits", "code")})
                for (int r = 0; r < RHS; ++r) passed[slot + r * SLOTS * CELLS] = value[r];
            if (${word.read("joins", "code")})
                for (int c = node_joins[node]; c < node_joins[node + 1]; ++c)
                    for (int r = 0; r < RHS; ++r)
                        passed[join_slot[c] * CELLS + r * SLOTS * CELLS] = value[r];
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
        for (int k = 1; k < LANES; ++k) bad = max(bad, worst[me + k * CELLS]);
% endif
        status[cell_number[cell]] = bad;
    }
}
