<%page args="spec"/>\
// Many steps of a network with exact times on a CPU: a work-item has a block of whole cells, and advances
// them by itself until an event of another block may be due.
// spec: ${spec.real}, ${len(spec.kinds)} kinds, secondorder ${spec.secondorder}
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

typedef ${spec.real} real;
typedef ${spec.real}${spec.width} real${spec.width};

${part("common/exact_functions")}\
${part("common/exact_vectors")}\
// Events of the launches before are seen by other blocks. One work-item.
__kernel void publish(${signature(spec, "publish")})
{
    if (get_global_id(0) > 0) return;
    clock[launch_begin] = step_begin[first_time];
    for (int s = 0; s < num_sources; s++) {
        if (ints[event_shown + s] == ints[event_count + s]) continue;
        ints[event_shown + s] = ints[event_count + s];
        mark_targets(s, ints, at);
    }
}

// Events of targets of a block that are due until the middle of the step: those at no node, or all
// where they send each other events within a step.
static void block_events(
    const int block, const double t_begin, const double t_mid, const real dt, const int capacity,
    __global const real *v, __global int *spike_count, __global int *spike_source,
    __global double *spike_time, __global real *mem, __global double *clock, __global int *ints,
    __global const int *at)
{
    for (int k = ints[block_target + block]; k < ints[block_target + block + 1]; k++) {
        const int target = ints[block_targets + k];
% for kind in spec.net_kinds if spec.layered else spec.loose_kinds:
<% k = kind.number %>\
        if (target >= target_${k} && target < target_${k} + count_${k}) {
            const int j = target - target_${k};
% if not kind.watches:
            if (!ints[stale + target] && clock[next_due + target] > t_mid) continue;
% endif
            events_of_${k}(j, ${"-1" if kind.kind == "artificial" else f"ints[active_{k} + j]"}, t_begin, t_mid, dt, capacity, v, spike_count,
                     spike_source, spike_time, mem, clock, ints, at);
        }
% endfor
    }
}

// Solve for places of whole cells, of which parents come first: x is left in b, 1/pivots in d.
static void solve_block(
    const int first, const int end, __global const int *above, __global const real *u,
    __global real *d, __global real *b)
{
    for (int i = end - 1; i >= first; i--) {
        const int p = above[i];
        const real inverse = 1 / d[i];
        d[i] = inverse;
        if (p < 0) continue;
        const real factor = u[i] * inverse;
        d[p] -= factor * u[i];
        b[p] -= factor * b[i];
    }
    for (int i = first; i < end; i++) {
        const int p = above[i];
        b[i] = (p < 0 ? b[i] : b[i] - u[i] * b[p]) * d[i];
    }
}

// One work-item per block of cells.
__kernel void advance(${signature(spec, "advance")})
{
    const int block = get_global_id(0);
    if (block >= num_blocks) return;
    const int from = ints[block_node + block], to = ints[block_node + block + 1];
    const int first_place = ints[block_place + block], end_place = ints[block_place + block + 1];
    __global real *v_old = v, *v_new = v_other;
    __global const real *x = b;
    for (int s = 0; s < num_steps; s++) {
        const double t_begin = step_begin[first_time + s], t_mid = t_begin + half_dt;
        const size_t row = first_row + s;
        block_events(block, t_begin, t_mid, dt, capacity, v_old, spike_count, spike_source,
                     spike_time, mem, clock, ints, at);
        for (int i = first_place; i < end_place; i++) d[i] = base[i];
        begin_block(from, to, first_place, end_place, t_begin, half_dt, (ulong)(first_step + s), seed,
                    dt, capacity, active, above, below, beside, u, ${"constant_g, constant_b, " if spec.constant else ""}v_old, d, b,
                    spike_count, spike_source, spike_time, ${"slots, num_targets, scale_of_events, incoming," if spec.grid else ""}
                    mem, clock, ints, at);
        solve_block(first_place, end_place, above, u, d, b);
        finish_block(from, to, first_place, end_place, t_begin, half_dt, first_step + s, row, dt,
                     capacity, num_mem, x, v_old, v_new, failed, spike_count, spike_source,
                     spike_time, ${"grid_count, grid_source, grid_step, " if spec.grid else ""}mem_first, mem_column, mem_index, mem_rows, mem, clock, ints, at);
        for (int e = ints[block_emitter + block]; e < ints[block_emitter + block + 1]; e++) {
            const int source = ints[block_emitters + e];
            if (ints[event_count + source] == ints[event_live + source]) continue;
            ints[event_count + source] = ints[event_live + source];
            mark_targets(source, ints, at);
        }
        for (int r = v_first[block]; r < v_first[block + 1]; r++)
            v_rows[row * num_v + v_column[r]] = v_new[v_index[v_column[r]]];
        for (int r = mem_first[num_active]; r < num_mem; r++)
            if (mem_block[r - mem_first[num_active]] == block)
                mem_rows[row * num_mem + mem_column[r]] = mem[mem_index[r]];
        __global real *before = v_old;
        v_old = v_new;
        v_new = before;
    }
}

