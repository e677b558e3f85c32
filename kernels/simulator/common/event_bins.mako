<%page args="spec"/>\
## Part of arena_functions.mako: functions for the events in a bin, as NEURON calls the events within one step, in
## NEURON's order.
<% e = spec.arena %>\
// An event in a step's bin: its connection, its number among the source's events, the number of
// events left including this one, and the order's `key`: the time when it was sent, plus ${repr(1e-10)} ms, which
// the stored times of threshold crossings already include. `due` is when the first event after the bin is due,
// infinite if there is none; `shorts`: some event came by a connection shorter than half a step.
typedef struct { int connection, number, left, shorts; instant key, due; } binned_;

// Return how many of its source's events a connection's target may read.
${e.static} int sent_to(const int c, __global const int *ints, ${e.at})
{
    const int counts = ${e.counts("ints[connection_short + c]")};
    return ints[counts + ints[connection_source + c]];
}

// Return whether a connection's source's event n is in the bin of the step that begins at t_begin. NEURON
// counts bins from the step in which the event was sent; its clock has been rounded in each step since then.
${e.static} int in_bin(const int c, const int n, const instant t_begin, const int all,
    __global const instant *clock, __global const int *ints, ${e.at}, instant *key, instant *due)
{
    const int source = ints[connection_source + c], crossed = ${e.sending.read("crossed", "ints[connection_short + c]")};
    const instant then = clock[ring + ints[ring_first + source] + n % ints[ring_size + source]];
    const instant step = clock[bin_dt], t_mid = t_begin + 0.5 * step;
    const instant drift = ((t_mid + 0.5 * step) - t_begin) - step;
    *key = crossed ? then : then + 1e-10;
    *due = then + clock[delay + c];
% if e.bins > 1:
    if (!all && clock[delay + c] < 0.5 * step && *key > t_begin + 1e-10) return 0;  // sent after t_begin
% endif
    const instant end = (t_mid - 1e-10 * step) - drift * rint((t_mid - then) / step);
    return *due < end;
}

// Return whether one event in a bin is delivered before another: the event that was sent last comes first. At
// equal times it is a source's last event, or the event on the connection with the higher rank.
${e.static} int is_before(const binned_ one, const binned_ other, __global const int *ints, ${e.at})
{
    if (one.key != other.key) return one.key > other.key;
    const int source = ints[connection_source + one.connection];
    const int same = source == ints[connection_source + other.connection];
    if (same && one.number != other.number) return one.number > other.number;
    return ints[connection_rank + one.connection] > ints[connection_rank + other.connection];
}

// Return a bin's next event after ${"`last`"}, or the first one if ${"`last`"} has connection -1. The
// result has connection -1 if there is none.
${e.static} binned_ next_in_bin(const binned_ last, const int first, const int end,
    const instant t_begin, const int all, __global const instant *clock, __global int *ints,
    ${e.at})
{
    binned_ found = {-1, 0, 0, 0, 0, INFINITY};
    int left = 0, shorts = 0;
    instant later = INFINITY;
    for (int c = first; c < end; c++) {
        const int count = sent_to(c, ints, ${e.regions_name}), taken = ints[cursor + c];
        if (count - taken > ints[ring_size + ints[connection_source + c]]) atomic_max(&ints[error], 1);
        if (taken < count && clock[delay + c] < 0.5 * clock[bin_dt]) shorts = 1;
        for (int n = taken; n < count; n++) {
            binned_ one = {c, n, 0, 0, 0, 0};
            if (!in_bin(c, n, t_begin, all, clock, ints, ${e.regions_name}, &one.key, &one.due)) {
                later = fmin(later, one.due);
                break;
            }
            if (last.connection >= 0 && !is_before(last, one, ints, ${e.regions_name})) continue;
            left++;
            if (found.connection < 0 || is_before(one, found, ints, ${e.regions_name})) found = one;
        }
    }
    found.left = left;
    found.shorts = shorts;
    found.due = later;
    return found;
}

// Mark all events in a bin as delivered.
${e.static} void end_bin(const int first, const int end, const instant t_begin, const int all,
    __global const instant *clock, __global int *ints, ${e.at})
{
    for (int c = first; c < end; c++) {
        const int count = sent_to(c, ints, ${e.regions_name});
        instant key = 0, due = 0;
        int n = ints[cursor + c];
        while (n < count && in_bin(c, n, t_begin, all, clock, ints, ${e.regions_name}, &key, &due)) n++;
        ints[cursor + c] = n;
    }
}
