<%page args="spec"/>\
## Part of epoch_by_node.mako: point processes with several instances at a node, a lane per instance.
## 1. States advance to the end of the step before (with records, num_mem, arena_points_end.mako has done this).
## 2. Events act, then the lane stores the instance's current in mem[slot_i + j], its conductance in mem[slot_g + j].
## 3. A node's lane adds up the node's slots (arena_slots.mako). An instance that is alone at its node (`sole`) writes
##    the node's right-hand side itself.
## On NVIDIA's GPUs instances with events first enter their mechanism's list, which neighbouring lanes process:
## otherwise a warp would wait for one mechanism's event reads after the other's.
<%
    W, e = spec.warp, spec.arena
    old, new = spec.loop.old, spec.loop.new
    given = [kind for kind in spec.loop.apart if kind.has("current") and not kind.sole]
    waiting = spec.loop.waiting
    sole = {kind.number for kind in spec.loop.apart if kind.sole}
    own_v = "&V(place)" if e.one_v else spec.loop.seen
    def active(k): return "-1" if e.one_v else f"ints[active_{k} + j]"
    def noise(k): return {**new, "noise": f"normal(seed, (ulong)(number_{k} + j), (ulong)step)"}
    def current_of(kind, indent): return kind.call("current", noise(kind.number), indent) if kind.has("current") else ""
%>\
<%def name="to_slots(k, current)">\
% if current:
            // phase 3: currents
${current}\
% if k in sole:
            A(place) = -i_i;
% else:
% for name, number in (("slot_i", "i_i"), ("slot_g", "g_g")):
% if spec.parts > 1:
            ${spec.loop.turned("mem", f"{name}_{k} + {spec.loop.slot(k)}j")} = ${spec.loop.of_turn(number)};
% else:
            mem[${name}_${k} + j] = ${number};
% endif
% endfor
% endif
% endif
</%def>\
% if spec.parts > 1:
        if (num_mem) {   // wait until nodes have recorded values from other work-groups' instances
${part("simulator/common/epoch_meeting", 12)}\
        }
% else:
        ${"if (num_mem) " if spec.ptx else ""}MEET_ALL();   // nodes have recorded values, and read the slots
% endif
% for kind in spec.loop.apart:
<%
    k = kind.number
    end = kind.call("advance", old, 16) if kind.has("advance") else ""
    current = current_of(kind, 12)
%>\
% if sole and loop.index and not spec.ptx:
        // PoCL 3.0 otherwise loses what the loop above writes into A
        MEET();
% endif
        for (int j = begin_${k} + lane; j < end_${k}; j += LANES) {
            const int place = ints[place_in_cell_${k} + j];
            const real v = V(place);
            // phase 7: states, in the step before
% if end:
            if (step > ${spec.loop.opens} && !num_mem) {
${end}\
            }
% endif
% if kind.takes_events:
            ${spec.loop.times("t", "mid")}
% endif
            // phase 1: events
% if e.grid and kind.summed:
            take_sum_${k}(j, ${active(k)}, t_mid, v, dt, incoming + (long)(step % slots) * num_targets, scale_of_events,
                       ${own_v}, mem, clock, ints, regions);
% endif
% if kind in waiting:
            if ((looks && step == first_step) || clock[next_due + target_${k} + j] <= ${e.soon}) {
                ints[waits_${k} + begin_${k} + atomic_inc(&waiting[${waiting.index(kind)}])] = j;
                continue;
            }
% elif kind.has_net:
% if not kind.watches:
            if ((looks && step == first_step) || clock[next_due + target_${k} + j] <= ${e.soon})
% endif
            events_of_${k}(j, ${active(k)}, t_begin, t_mid, dt, capacity, ${own_v}, spike_count, spike_source, spike_time,
                     mem, clock, ints, regions);
% endif
${to_slots(k, current)}\
        }
% endfor
% if waiting:
        MEET_ALL();
% for n, kind in enumerate(waiting):
<% k, current = kind.number, current_of(kind, 12) %>\
        for (int q = (lane + LANES - ${n * W} % LANES) % LANES; present && q < waiting[${n}]; q += LANES) {
            const int j = ints[waits_${k} + begin_${k} + q], place = ints[place_in_cell_${k} + j];
            const real v = V(place);
            ${spec.loop.times("t", "mid")}
            events_of_${k}(j, ${active(k)}, t_begin, t_mid, dt, capacity, ${own_v}, spike_count, spike_source, spike_time,
                     mem, clock, ints, regions);
${to_slots(k, current)}\
        }
% endfor
% endif
% if given or waiting:
        MEET_ALL();
% endif
% if waiting:
        if (present && lane < ${len(waiting)}) waiting[lane] = 0;
% endif
% if given and spec.parts == 1:
${part("simulator/common/arena_slots")}\
% endif
