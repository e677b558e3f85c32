<%page args="spec"/>\
## Part of steps.mako, blocks.mako, artificial.mako and epoch_functions.mako: functions for mechanisms, played vectors
## and events, for networks whose values are in three arenas, arrays with named regions: mem (reals), clock (times) and
## ints.
<%
    e = spec.arena
    values = {"v": "v_now", "dt": "dt", "t begin": "t_begin", "t now": "t", "t end": "t_end", "flag": "flag", "pointer": "v[{}]"}
%>\
${part("simulator/common/mechanisms")}\
% for ion in e.ions:
// Set the reversal potential of ${ion} at active node a by Nernst's equation
${e.static} void to_nernst_${ion}(__global real *mem, ${e.at}, const int a)
{
    const real inside = mem[ion_${ion}i + a], outside = mem[ion_${ion}o + a];
    const real scale = mem[nernst_${ion}];
    real e = scale * log(outside / inside);
    if (outside <= 0) e = (real)-1e6;
    if (inside <= 0) e = (real)1e6;
    mem[ion_e${ion} + a] = scale == 0 ? 0 : e;
}

% endfor
${part("simulator/common/played")}\

% if e.wide:

// Let a source's targets look for its events in the next step, see `next_event`.
${e.static} void mark_targets(const int source, __global int *ints, ${e.at})
{
    for (int k = ints[first_fan + source]; k < ints[first_fan + source + 1]; k++)
        ints[stale + ints[fan + k]] = 1;
}
% endif
% for kind in e.summed_kinds:
<% k = kind.number %>\

// Deliver a step's events to instance j, as their summed weights.
${e.static} void take_sum_${k}(
    const int j, const int a, const instant t, const real v_now, const real dt,
    __global long *incoming, const real scale_of_events, ${e.v_space} const real *v,
    __global real *mem, __global instant *clock, __global int *ints, ${e.at})
{
    __global long *place = incoming + sum_${k} + j;
    if (*place == 0) return;
    const real sum = (real)*place * scale_of_events;
    *place = 0;
    const instant t_begin = t, t_end = t + dt;
    const real flag = 0;
    const int weight_at = -1;
${kind.call("receive", {**values, "sum": "sum"}, 4)}\
}
% endfor
% if e.net_kinds:
% if e.bins:
${part("simulator/common/event_bins")}\
% endif
${part("simulator/common/due_events")}\
% for kind in e.net_kinds:
${part("simulator/common/receive", kind=kind, values=values)}\
${part("simulator/common/deliver", kind=kind)}\
${part("simulator/common/events_of", kind=kind)}\
% endfor
% endif
