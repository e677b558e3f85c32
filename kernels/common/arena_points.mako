<%page args="spec"/>\
## Instances of point processes of which nodes have several, a lane each: the end of the step before, events,
## and current and conductance, which go to slots of theirs. Then the lane of a node adds up the slots there.
<%
    W, e = spec.warp, spec.arena
    old = {"v": "v", "dt": "dt", "t begin": "old_begin", "t now": "old_end", "t end": "old_end"}
    new = {"v": "v", "dt": "dt", "t begin": "t_begin", "t now": "t_mid", "t end": "t_end"}
    given = [kind for kind in spec.loop.apart if kind.has("current")]
%>\
        ${"if (num_mem) " if spec.ptx else ""}MEET_ALL();   // nodes have written their rows, and read the slots
% for kind in spec.loop.apart:
<%
    k = kind.number
    end = kind.call("advance", old, 16) if kind.has("advance") else ""
    own = {**new, "noise": f"normal(seed, (ulong)(number_{k} + j), (ulong)step)"}
    current = kind.call("current", own, 12) if kind.has("current") else ""
    events = "t_begin t_mid" if kind.has_net else ""
%>\
        for (int j = begin_${k} + lane; j < end_${k}; j += LANES) {
            const int place = ints[place_in_cell_${k} + j];
            const real v = V(place);
% if end:
            if (step > first_step && !num_mem) {
                ${spec.loop.times(end)}
${end}\
            }
% endif
            ${spec.loop.times(events + current)}
% if e.grid and kind.summed:
            take_sum_${k}(j, -1, t_mid, v, dt, incoming + (long)(step % slots) * num_targets, scale_of_events,
                       &V(place), mem, clock, ints, regions);
% endif
% if kind.has_net:
% if not kind.watches:
            const instant due = looks && step == first_step ? look_ahead_${k}(j, clock, ints, regions) : clock[next_due + target_${k} + j];
            if (due <= ${e.soon})
% endif
            events_of_${k}(j, -1, t_begin, t_mid, dt, capacity, &V(place), spike_count, spike_source, spike_time,
                     mem, clock, ints, regions);
% endif
% if current:
${current}\
            mem[slot_i_${k} + j] = i_i;
            mem[slot_g_${k} + j] = g_g;
% endif
        }
% endfor
% if given:
        MEET_ALL();
        for (int q = home.s2 + warp; q < home.s3; q += ${spec.lanes // W}) {
            const int place = node_places[q * ${W} + in_warp], word = node_active[q * ${W} + in_warp];
            if (place < 0 || word < 0) continue;
            const int a = home.s5 + (word & ${hex(spec.special - 1)});
            real all_i = 0, all_g = 0;
% for k in [kind.number for kind in given]:
            for (int j = ints[first_${k} + a]; j < ints[first_${k} + a + 1]; j++) {
                all_i += mem[slot_i_${k} + j];
                all_g += mem[slot_g_${k} + j];
            }
% endfor
            W(place) += all_g;
            A(place) -= all_i;
        }
% endif
