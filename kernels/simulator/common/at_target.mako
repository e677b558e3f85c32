<%page args="spec, kinds"/>\
## Part of steps.mako, blocks.mako and artificial.mako: deliver `target`'s events that are due until the middle of
## the step, if it is an instance of one of the `kinds`. t_begin and t_mid are the step's times.
% for kind in kinds:
<%
    k = kind.number
    skips = spec.wide and not kind.watches
    due = f" && (ints[stale + target] || clock[next_due + target] <= {spec.soon})" if skips else ""
    a = "-1" if kind.kind == "artificial" else f"ints[active_{k} + target - target_{k}]"
%>\
if (target >= target_${k} && target < target_${k} + count_${k}${due})
    events_of_${k}(target - target_${k}, ${a}, t_begin, t_mid, dt, capacity, v, spike_count,
              spike_source, spike_time, mem, clock, ints, at);
% endfor
