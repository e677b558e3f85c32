<%page args="spec"/>\
## Part of arena_functions.mako: functions that find a target's earliest due event, and when the next one is due.
<% e = spec.arena %>\
% if not e.bins:
// Return a target's connection with the earliest due event; -1 for none. Instances in the same
// launch may send events meanwhile: `event_count` counts the events before the launch, `event_live` all
// events. Connections shorter than a step read `event_live`; their sources belong to earlier launches.
${e.static} int earliest_event(const int first, const int end, const instant limit,
                          __global const instant *clock, __global int *ints,
                          ${e.at}, instant *due, instant *sent)
{
    int found = -1;
    for (int c = first; c < end; c++) {
        const int source = ints[connection_source + c], taken = ints[cursor + c];
        const int counts = ${e.counts("ints[connection_short + c]")};
        const int count = ints[counts + source], size = ints[ring_size + source];
        if (taken >= count) continue;
        if (count - taken > size) atomic_max(&ints[error], 1);
        const instant then = clock[ring + ints[ring_first + source] + taken % size];
        const instant time = then + clock[delay + c];
        if (time > limit) continue;
        if (found < 0 || time < *due || (time == *due && then < *sent)) {
            found = c;
            *due = time;
            *sent = then;
        }
    }
    return found;
}
% endif
% if e.looks_ahead:

// Return when a target's next pending event is due; infinite if there is none. The target is checked at
// this time, or ${"as soon as a source has sent another event" if e.wide else "in the next launch if a source has sent another event"}.
${e.static} instant next_event(const int first, const int end, __global const instant *clock,
                         __global const int *ints, ${e.at})
{
    instant due = INFINITY;
    for (int c = first; c < end; c++) {
        const int source = ints[connection_source + c], taken = ints[cursor + c];
% if e.bins:
        if (taken >= sent_to(c, ints, ${e.regions_name})) continue;
% else:
        const int counts = ${e.counts("ints[connection_short + c]")};
        if (taken >= ints[counts + source]) continue;
% endif
        const int entry = taken % ints[ring_size + source];
        due = fmin(due, clock[ring + ints[ring_first + source] + entry] + clock[delay + c]);
    }
    return due;
}
% endif
