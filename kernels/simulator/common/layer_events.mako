<%page args="spec"/>\
## Part of arena_between.mako: phase 1 in a step in which instances send each other events, layer by layer.
<%
    e = spec.arena
    nets = [k for k in spec.loop.in_lists if k.takes_events]
%>\
        // phase 1: events
        // A lane per target in a layer. Within the step, these send events only to targets in later layers, which look
        // for events in each step, after all lanes have met.
        for (int layer = 0; layer < ${spec.layers}; layer++) {
            ${spec.loop.times("t", "mid")}
            const int first = mine.s6 * ${spec.layers} + layer;
            const int end = present ? ints[first_of_cells_layer + first + 1] : 0;
            for (int n = present ? ints[first_of_cells_layer + first] + lane : 0; n < end; n += LANES) {
                const int target = ints[layer_targets + n];
% for kind in nets:
<% k = kind.number %>\
                if (target >= target_${k} && target < target_${k} + count_${k}) {
                    const int j = target - target_${k}, a = ints[active_${k} + j];
                    ${e.v_type}own_v = ${"&V(ints[place_of + a] - mine.s0)" if e.one_v else spec.loop.seen};
% if e.grid and kind.summed:
                    take_sum_${k}(j, a, t_mid, V(ints[place_of + a] - mine.s0), dt,
                           incoming + (long)(step % slots) * num_targets, scale_of_events, own_v, mem, clock, ints,
                           regions);
% endif
% if kind.has_net and not kind.watches:
                    if (layer > 0 || (opens && looks) || clock[next_due + target] <= ${e.soon})
% endif
% if kind.has_net:
                    events_of_${k}(j, a, t_begin, t_mid, dt, capacity, own_v, spike_count, spike_source,
                             spike_time, mem, clock, ints, regions);
% endif
                }
% endfor
            }
            MEET_ALL();
        }
