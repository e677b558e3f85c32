<%page args="spec"/>\
// A network's step: the kernels events, begin_step, the solver's, finish_step, add_up.
// Active nodes, numbered a, have mechanisms, ions or detectors. A node's place is its index in the
// solver's order.
// spec: ${spec.real}, ${len(spec.kinds)} mechanisms, secondorder ${spec.secondorder}
//
// Arguments:
${part("simulator/common/run_arguments")}\
//   step_state        [0] the step that begins at step_begin[0]; [1] its record row; [2], [3] the present step's index in
//                     step_begin. Kernels before the solve read [2] and set [3]; finish_step reads [3] and sets [2]
//   num_emitters      how many sources are instances that send events
//   active            the active node's number at each place, else -1
//   above, below, beside   places of each node's parent, first child and next sibling, -1: none
//   u                 each node's coupling with its parent, minus the axial conductance, uS
//   constant_g, _b    constant mechanisms' conductance and current at each place
//   d, b              diagonal and right-hand side for the change in v; x: the solution
//   v, v_old, v_new   voltages, mV: as the step begins, and as it ends
//   v_index           recorded voltages' places; the voltages go to rows of v_rows
% if "double" in (spec.real, spec.instant):
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif

typedef ${spec.real} real;
% if spec.width > 1:
typedef ${spec.real}${spec.width} real${spec.width};
% endif

${part("simulator/common/arena_functions")}\
${part("simulator/common/runaway")}\
<%def name="over(kind)">\
        for (int j = ints[first_${kind.number} + a]; j < ints[first_${kind.number} + a + 1]; j++) {\
</%def>\
<%def name="all(block, v, t, pointer)">\
<% values = {"v": v, "dt": "dt", "t begin": "t_begin", "t now": t, "t end": "t_end", "pointer": pointer} %>\
% for kind in spec.kinds:
% if kind.has(block) and kind.kind != "artificial":
${over(kind)}
${kind.call(block, values, 12)}\
        }
% endif
% endfor
</%def>\
% if spec.width == 1:
// Deliver events until the step's middle, then compute currents there: d and b in the system for the
// change in v. A work-item per place, then one per artificial cell.
__kernel void begin_step(${signature(spec, "begin_step")})
{
    const int i = get_global_id(0);
    const int now = step_state[2];
    const instant t_begin = step_begin[now], t_mid = t_begin + half_dt;
    const instant t_end = t_mid + half_dt;
    const ulong step = (ulong)(step_state[0] + now);
    if (i == 0) step_state[3] = now;  // for finish_step
    if (i >= num_places) {
% if spec.loose_kinds and not spec.layered:
        if (i < num_places + num_loose) {
            const int target = ints[loose + i - num_places];
${part("simulator/common/at_target", 12, kinds=spec.loose_kinds)}\
        }
% endif
        return;
    }
    const int a = active[i];
    const real v_now = v[i];
    real right = ${"constant_b[i] - constant_g[i] * v_now" if spec.constant else "0"};
    if (above[i] >= 0) right += u[i] * (v_now - v[above[i]]);  // u is minus the conductance
    for (int c = below[i]; c >= 0; c = beside[c]) right += u[c] * (v_now - v[c]);
    if (a >= 0) {
        // phase 1: events
% for kind in spec.summed_kinds:
${over(kind)}
            take_sum_${kind.number}(j, a, t_mid, v_now, dt, incoming + (long)(step % slots) * num_targets,
                       scale_of_events, v, mem, clock, ints, at);
        }
% endfor
% if not spec.layered:
% for kind in spec.net_kinds:
% if kind.kind != "artificial":
${over(kind)}
            events_of_${kind.number}(j, a, t_begin, t_mid, dt, capacity, v, spike_count, spike_source,
                     spike_time, mem, clock, ints, at);
        }
% endif
% endfor
% endif
        // phase 2: played values
% if spec.played:
        for (int p = ints[first_played + a]; p < ints[first_played + a + 1]; p++)
            play(p, t_mid, t_mid, mem, clock, ints, at);
% endif
        // phase 3: currents
        real diagonal = mem[base_d + a];
${all("before_breakpoint", "v_now", "t_mid", "v[{}]")}\
% for ion in spec.ions:
        {
            mem[ion_i${ion} + a] = 0;
            mem[ion_di${ion} + a] = 0;
            if (ints[advances_${ion} + a]) to_nernst_${ion}(mem, at, a);
        }
% endfor
% for kind in spec.kinds:
% if kind.has("current") and kind.kind != "artificial":
${over(kind)}
<% values = {"v": "v_now", "dt": "dt", "t begin": "t_begin", "t now": "t_mid", "t end": "t_end", "pointer": "v[{}]",
             "noise": f"normal(seed, (ulong)(number_{kind.number} + j), step)"} %>\
${kind.call("current", values, 12)}\
% if kind.asks("current", "i"):
<% factor = "mem[area + a] * (real)0.01 * " if kind.kind == "density" else "" %>\
            diagonal += ${factor}g_g;
            right -= ${factor}i_i;
% endif
        }
% endif
% endfor
        d[i] = diagonal;
    }
    b[i] = right;
}
% endif

<% new = "(v_old[{0}] + 2 * x[{0}])" if spec.secondorder else "(v_old[{0}] + x[{0}])" %>\
<%def name="loose(indent)">\
% if spec.played:
${indent}for (int p = ints[first_played + num_active]; p < num_played; p++)
${indent}    play(p, t_mid, ints[played_continuous + p] ? t_end : t_mid, mem, clock, ints, at);
% endif
${indent}for (int r = mem_first[num_active]; r < ${"mem_first[num_active + 1]" if spec.sums else "num_mem"}; r++)
${indent}    mem_rows[row * num_mem + mem_column[r]] = mem[mem_index[r]];
</%def>\
<% W, V = spec.width, f"real{spec.width}" %>\
% if W > 1:

${part("simulator/common/arena_vectors")}\
// One work-item per range of places, active nodes and artificial cells.
__kernel void begin_step(${signature(spec, "begin_step")})
{
    const int i = get_global_id(0), now = step_state[2];
    if (i >= num_items) return;
    const instant t_begin = step_begin[now], t_mid = t_begin + half_dt;
    if (i == 0) step_state[3] = now;  // for finish_step
    const long item = i, next = item + 1;
% if spec.loose_kinds and not spec.layered:
    for (int k = item * num_loose / num_items; k < next * num_loose / num_items; k++) {
        const int target = ints[loose + k];
${part("simulator/common/at_target", 8, kinds=spec.loose_kinds)}\
    }
% endif
    begin_block(item * num_active / num_items, next * num_active / num_items,
                item * num_places / num_items, next * num_places / num_items, t_begin, half_dt,
                (ulong)(step_state[0] + now), seed, dt, capacity, active, above, below, beside, u,
                ${"constant_g, constant_b, " if spec.constant else ""}v, d, b, spike_count, spike_source, spike_time,
                ${"slots, num_targets, scale_of_events, incoming, " if spec.grid else ""}mem, clock, ints, at);
}

// One work-item per range of places and active nodes, and per range of other records and senders.
__kernel void finish_step(${signature(spec, "finish_step")})
{
    const int i = get_global_id(0), now = step_state[3], done = step_state[0] + now;
    if (i >= num_items) return;
    const instant t_begin = step_begin[now], t_mid = t_begin + half_dt;
    const instant t_end = t_mid + half_dt;
    const size_t row = step_state[1] + now;
    const long item = i, next = item + 1;
    for (int e = item * num_emitters / num_items; e < next * num_emitters / num_items; e++) {
        const int source = ints[emitter_source + e];
% if spec.wide:
        if (ints[event_count + source] != ints[event_live + source]) mark_targets(source, ints, at);
% endif
        ints[event_count + source] = ints[event_live + source];
    }
    // phase 9: records
    for (int r = item * num_v / num_items; r < next * num_v / num_items; r++)
        v_rows[row * num_v + r] = ${new.format("v_index[r]")};
    if (i == 0) {
        step_state[2] = now + 1;  // for the next step's kernels
${loose("        ")}\
    }
    finish_block(item * num_active / num_items, next * num_active / num_items,
                 item * num_places / num_items, next * num_places / num_items, t_begin, half_dt,
                 done, row, dt, capacity, num_mem, x, v_old, v_new, failed, spike_count,
                 spike_source, spike_time, ${"grid_count, grid_source, grid_step, " if spec.grid else ""}mem_first, mem_column, mem_index, mem_rows, mem, clock,
                 ints, at);
}
% else:
<%def name="node()">\
    const int a = active[i];
    const real v_now = ${new.format("i")};
</%def>\
<%def name="states()">\
    // phase 6: continuously played values
% if spec.played:
    for (int p = ints[first_played + a]; p < ints[first_played + a + 1]; p++)
        if (ints[played_continuous + p]) play(p, t_mid, t_end, mem, clock, ints, at);
% endif
% if spec.second_order_currents:
% for ion in spec.ions:
    mem[ion_i${ion} + a] += mem[ion_di${ion} + a] * x[i];
% endfor
% endif
    // phase 7: states
${all("advance", "v_now", "t_end", new)}\
</%def>\
// From x, the change in v, end the step: voltages, states, spikes, a record row. One work-item per
// place, per source whose events instances send, per recorded voltage, and one for mechanisms at no node.
__kernel void finish_step(${signature(spec, "finish_step")})
{
    const int i = get_global_id(0), now = step_state[3], done = step_state[0] + now;
    const instant t_begin = step_begin[now], t_mid = t_begin + half_dt;
    const instant t_end = t_mid + half_dt;
    const size_t row = step_state[1] + now;
    if (i == 0) step_state[2] = now + 1;  // for the next step's kernels
    if (i >= num_places) {
        int item = i - num_places;
        if (item < num_emitters) {  // show the events that instances sent in this step
            const int source = ints[emitter_source + item];
            ints[event_count + source] = ints[event_live + source];
            return;
        }
        item -= num_emitters;
        if (item < num_v) {
            v_rows[row * num_v + item] = ${new.format("v_index[item]")};
            return;
        }
        if (item > num_v) return;
${loose("        ")}\
        return;
    }
${node()}\
    // phase 5: voltages
    v_new[i] = v_now;
    if (a < 0) return;
${states()}\
% for block in ("after_solve", "before_step"):
${all(block, "v_now", "t_end", new)}\
% endfor
    const int c = ints[cell + a];
    if (c >= 0 && !(fabs(v_now) < (real)1e6)) failed[c] = runaway(v_now, failed[c], done);
    for (int j = ints[first_detector + a]; j < ints[first_detector + a + 1]; j++) {
${part("simulator/common/detect", 8, v="v_now", number="j", end="t_end", step="done")}\
    }
    // phase 9: records
    for (int r = mem_first[a]; r < mem_first[a + 1]; r++)
        mem_rows[row * num_mem + mem_column[r]] = mem[mem_index[r]];
}
% endif
% if spec.sums:

// Add up the values that instances set and add by pointers in a step, and record the sums. One work-item
// per sum.
__kernel void add_up(${signature(spec, "add_up")})
{
    const int s = get_global_id(0);
    if (s >= num_sums) return;
    const size_t row = step_state[1] + step_state[3];
${part("simulator/common/arena_sums", 4)}\
}
% endif
% if spec.layered:

// Deliver events due until the step's middle to a layer's targets. One work-item per target.
__kernel void events(${signature(spec, "events")})
{
    const int item = get_global_id(0);
    if (item >= num_items) return;
    const int now = step_state[2];
    const instant t_begin = step_begin[now], t_mid = t_begin + half_dt;
    const int target = ints[targets + first_item + item];
${part("simulator/common/at_target", 4, kinds=spec.net_kinds)}\
}
% endif
