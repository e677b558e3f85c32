<%page args="spec"/>\
## The earliest event of a target that is due, and when the next one is.
<% e = spec.arena %>\
% if not e.bins:
// The earliest event of a target's connections that is due; -1 where none is. Instances of one
// launch may send events meanwhile: `event_count` has those of before, `event_live` all; the latter
// is for connections shorter than a step, whose sources are in launches before.
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

// When the next event of a target's connections is due, of those that are known; infinite if none
// is. A target is looked after then, or when a source has sent more${", which makes it stale" if e.wide else ": in the next launch"}.
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
