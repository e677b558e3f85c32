<%page args="spec"/>\
## Part of arena_functions.mako: functions that play vectors into parameters, as NEURON's Vector.play: at a time of a
## step, or, for mechanisms with events, before each event.
<% e = spec.arena %>\
% if e.played:
// Return played vector p's value at time t: entry `low`, or, if p is continuous, on the line from this
// entry to the next.
${e.static} instant played_value(const int p, const int low, const instant t,
    __global const instant *clock, __global const int *ints, ${e.at})
{
    const int start = ints[played_first + p], last = ints[played_first + p + 1] - 1;
    const int time = played_time, value = played_y;
    if (!ints[played_continuous + p] || last == start) return clock[value + low];
    const int k = min(low, last - 1);   // extrapolate after the last entry
    const instant t0 = clock[time + k], t1 = clock[time + k + 1];
    if (t <= clock[time + start] && t < t1) return clock[value + start];
    const instant share = t0 == t1 ? 0.5 : (t - t0) / (t1 - t0);
    return (1 - share) * clock[value + k] + share * clock[value + k + 1];
}

// Set a parameter to played vector p's value at time t, the middle or the end of a step. The last entry at
// or before the middle is used, and the next one if p is continuous.
${e.static} void play(const int p, const instant middle, const instant t, __global real *mem,
    __global const instant *clock, __global ${"" if e.plays_into_events else "const "}int *ints, ${e.at})
{
    int low = ints[played_first + p], high = ints[played_first + p + 1] - 1;
    const int time = played_time;
    // find the last entry at or before the middle; low stays the first entry if there is none
    while (low < high) {
        const int between = (low + high + 1) / 2;
        if (clock[time + between] <= middle) low = between;
        else high = between - 1;
    }
    const int any = clock[time + low] <= middle;
% if e.plays_into_events:
    ints[played_next + p] = low + any;
% endif
    if (any) mem[ints[played_place + p]] = (real)played_value(p, low, t, clock, ints, ${e.regions_name});
    else if (ints[played_continuous + p]) mem[ints[played_place + p]] = (real)clock[played_y + low];
}
% endif
% for kind in e.net_kinds:
% if kind.plays:
<% k = kind.number %>\

// Play all entries until `limit` that come before an event to instance j, which was sent at `sent` and is due
// at `due`. NEURON queues an entry at the previous entry's time; at equal times, what was queued earlier
// comes first.
${e.static} void play_before_${k}(const int j, const instant limit, const instant due,
    const instant sent, __global real *mem, __global const instant *clock, __global int *ints, ${e.at})
{
    for (int r = ints[first_plays_${k} + j]; r < ints[first_plays_${k} + j + 1]; r++) {
        const int p = ints[plays_${k} + r], start = ints[played_first + p];
        for (int n = ints[played_next + p]; n < ints[played_first + p + 1]; n++) {
            const instant time = clock[played_time + n];
            const instant then = n > start ? clock[played_time + n - 1] : -INFINITY;
            if (time > limit || time > due || (time == due && then > sent)) break;
            ints[played_next + p] = n + 1;
            mem[ints[played_place + p]] = (real)played_value(p, n, time, clock, ints, ${e.regions_name});
        }
    }
}
% endif
% endfor
