<%page args="spec"/>\
<%
    e = spec.arena
    from clhines.simulator.state.sources import WATCH_MARGIN as margin
    from clhines.simulator.kinds.layouts import LATE
%>\
typedef ${e.instant} instant;   // ms
% if e.calls:
static __attribute__((noinline)) real called_exp(const real x) { return exp(x); }
#undef exp  // a macro in some compilers' headers
#define exp called_exp

% endif
% if e.noise:
${e.noise}
% endif
% for kind in e.kinds:
// ---- kind ${kind.number}: ${kind.name}

${e.functions(kind)}
% endfor
// where regions begin, and counts
% if e.by_cell:
typedef struct { int ${", ".join(e.regions)}; } regions_;
% endif
% for number, name in enumerate(e.regions):
#define ${name} ${f"regions.{name}" if e.by_cell else f"at[{number}]"}
% endfor

% for ion in e.ions:
// the reversal potential of ${ion} at active node a becomes Nernst's
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
% if e.played:
// The value of what is played, p, at time t when its entries up to `low` have come.
${e.static} instant played_value(const int p, const int low, const instant t,
    __global const instant *clock, __global const int *ints, ${e.at})
{
    const int start = ints[played_first + p], last = ints[played_first + p + 1] - 1;
    const int time = played_time, value = played_y;
    if (!ints[played_continuous + p] || last == start) return clock[value + low];
    const int k = min(low, last - 1);   // after the last one it extrapolates
    const instant t0 = clock[time + k], t1 = clock[time + k + 1];
    if (t <= clock[time + start] && t < t1) return clock[value + start];
    const instant share = t0 == t1 ? 0.5 : (t - t0) / (t1 - t0);
    return (1 - share) * clock[value + k] + share * clock[value + k + 1];
}

// The value that a parameter of an instance takes at time t, in the middle or at the end of a step;
// one of those that are played. Entries after the middle do not count yet.
${e.static} void play(const int p, const instant middle, const instant t, __global real *mem,
    __global const instant *clock, __global ${"" if e.plays_into_events else "const "}int *ints, ${e.at})
{
    int low = ints[played_first + p], high = ints[played_first + p + 1] - 1;
    const int time = played_time;
    // the last entry at or before the middle; low stays there where there is none
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

// What is played into instance j until a time, and before an event that is due, and was sent, then.
// An entry was put into NEURON's queue when the one before it came.
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

% if e.wide:

// The targets of a source look for its events in the next step, see `next_event`.
${e.static} void mark_targets(const int source, __global int *ints, ${e.at})
{
    for (int k = ints[first_fan + source]; k < ints[first_fan + source + 1]; k++)
        ints[stale + ints[fan + k]] = 1;
}
% endif
% for kind in e.summed_kinds:
<% k = kind.number %>\

// The events of a step that come to instance j as the sum of their weights.
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
<% values = {"v": "v_now", "dt": "dt", "t begin": "t_begin", "t now": "t", "t end": "t_end", "flag": "flag", "pointer": "v[{}]", "sum": "sum"} %>\
${kind.call("receive", values, 4)}\
}
% endfor
% if e.net_kinds and e.bins:
// An event in the bin of a step: its connection, its number among those of the source, how many are
// left with it, and what orders it in time: crossings of thresholds are sent ${repr(1e-10)} ms late,
// other events are not. `due` is when the first one after the bin is due, as far as is known, infinite if there
// is none, and `shorts` whether an event has come by a connection shorter than half a step.
typedef struct { int connection, number, left, shorts; instant key, due; } binned_;

// How many events the source of a connection has sent, as far as its target may know.
${e.static} int sent_to(const int c, __global const int *ints, ${e.at})
{
    const int counts = ${e.counts("ints[connection_short + c]")};
    return ints[counts + ints[connection_source + c]];
}

// Whether event n of a connection's source is in the bin of the step from t_begin on. NEURON counts
// bins from the step of the sending; its clock has been rounded in each step since.
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
    if (!all && clock[delay + c] < 0.5 * step && *key > t_begin + 1e-10) return 0;  // sent after it
% endif
    const instant end = (t_mid - 1e-10 * step) - drift * rint((t_mid - then) / step);
    return *due < end;
}

// Whether one event of a bin is delivered before another: what was sent last is. At the same time
// events of a source go by their number, others by the rank of their connection.
${e.static} int is_before(const binned_ one, const binned_ other, __global const int *ints, ${e.at})
{
    if (one.key != other.key) return one.key > other.key;
    const int source = ints[connection_source + one.connection];
    const int same = source == ints[connection_source + other.connection];
    if (same && one.number != other.number) return one.number > other.number;
    return ints[connection_rank + one.connection] > ints[connection_rank + other.connection];
}

// The first event of a bin after ${"`last`"}, or the very first one where that is of connection -1; of
// connection -1 where none is left.
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

// Count all events of a bin as taken.
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
% endif
% if e.net_kinds:
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
% for kind in e.net_kinds:
<% k = kind.number %>\
% if kind.queue:

// Take self event `slot` of instance j out of its queue.
${e.static} void remove_${k}(const int slot, const int j, __global real *mem, __global instant *clock,
                        __global int *ints, ${e.at})
{
    const int size = --ints[queue_size_${k} + j], last = ints[queue_last_${k} + j];
    for (int q = slot; q < size; q++) {
        const int to = q * count_${k} + j, from = to + count_${k};
        clock[queue_time_${k} + to] = clock[queue_time_${k} + from];
        clock[queue_sent_${k} + to] = clock[queue_sent_${k} + from];
        mem[queue_flag_${k} + to] = mem[queue_flag_${k} + from];
        ints[queue_connection_${k} + to] = ints[queue_connection_${k} + from];
    }
    if (last == slot) ints[queue_last_${k} + j] = -1;
    else if (last > slot) ints[queue_last_${k} + j] = last - 1;
}
% endif
% if kind.watches:

// Values of the WATCH conditions of instance j, as bits: above 0; when one `arms` them nearly so.
${e.static} uint above_${k}(const int j, const int a, const int arms, const instant t, const real dt,
                       const real v_now, ${e.v_type}v, __global real *mem,
                       __global int *ints, ${e.at})
{
    const instant t_begin = t, t_end = t + dt;
    const real flag = 0;
    const int weight_at = -1;
<% values = {"v": "v_now", "dt": "dt", "t begin": "t_begin", "t now": "t", "t end": "t_end", "flag": "flag", "pointer": "v[{}]"} %>\
${kind.call("watch", values, 4)}\
    uint found = 0;
% for w in range(kind.watches):
    if (arms ? watch_${w} >= (real)${-margin} : watch_${w} > 0) found |= ${1 << w}u;
% endfor
    return found;
}
% endif

// One event of instance j: NET_RECEIVE, and what it asks for.
${e.static} void receive_${k}(
    const int j, const int a, const instant t, const real flag, const int connection,
    ${"const int late, " if e.bins else ""}const real dt, const int capacity, ${e.v_type}v, __global int *spike_count,
    __global int *spike_source, __global instant *spike_time, __global real *mem,
    __global instant *clock, __global int *ints, ${e.at})
{
    const instant t_begin = t, t_end = t + dt;
    const int weight_at = connection < 0 ? -1 : weight + ints[first_weight + connection];
    const real v_now = ${"0" if kind.kind == "artificial" else e.own_v};
% if "move" in kind.sends:
    if (flag == 1) ints[queue_last_${k} + j] = -1;
% endif
% if e.steers:
    if (connection >= 0 && t <= clock[set_at + connection]) atomic_max(&ints[error], ${LATE + k});
% endif
<% values = {"v": "v_now", "dt": "dt", "t begin": "t_begin", "t now": "t", "t end": "t_end", "flag": "flag", "pointer": "v[{}]"} %>\
% for n in range(kind.for_netcons):
    {
        const int target = target_${k} + j;
        for (int c = ints[first_connection + target]; c < ints[first_connection + target + 1]; c++) {
            const int other_at = weight + ints[first_weight + c];
${kind.call(f"for_netcons{n}", values, 12)}\
        }
    }
% endfor
% if kind.has("receive"):
${kind.call("receive", values, 4)}\
% if kind.asks("receive", "set_v"):
    ${e.own_v} = set_v_v;
% endif
% endif
% for number in [name.split(".")[0] for name in kind.asks("receive", "send") if name.endswith(".time")]:
    if (!(send_${number}_time >= (real)t)) atomic_max(&ints[error], ${4 + 4 * k});  // NaN, too
    else if (isfinite(send_${number}_time)) {
% if kind.sends[int(number)] == "event":
% if kind.emits:
        const int source = ints[emitted_${k} + j];
        if (source >= 0) {
            const int n = ints[event_live + source]++;
% if e.blocks:
            // other blocks may still need the event whose entry of the ring this one takes
            const int entry = ring + ints[ring_first + source] + n % ints[ring_size + source];
            if (n >= ints[ring_size + source]
                && clock[entry] + clock[longest + source] + dt > clock[launch_begin])
                atomic_max(&ints[error], 1);
% endif
% if e.wide:
            mark_targets(source, ints, at);  // of connections shorter than a step
% endif
            const int last = ring + ints[ring_first + source] + (n - 1) % ints[ring_size + source];
            if (n > 0 && send_${number}_time < nextafter((real)clock[last], -(real)INFINITY))
                atomic_max(&ints[error], ${5 + 4 * k});  // those of a source are delivered in turn
% if e.bins:  # before the crossings of thresholds at that time
            const instant sent = late ? send_${number}_time : nextafter((instant)send_${number}_time, -(instant)INFINITY);
            clock[ring + ints[ring_first + source] + n % ints[ring_size + source]] = sent;
% else:
            clock[ring + ints[ring_first + source] + n % ints[ring_size + source]] = send_${number}_time;
% endif
            const int place = atomic_inc(spike_count);
            if (place < capacity) {
                spike_source[place] = source;
                spike_time[place] = send_${number}_time;
            }
        }
% endif
% elif kind.sends[int(number)] == "self":
        const int slot = ints[queue_size_${k} + j];
        if (slot >= ${kind.queue}) atomic_max(&ints[error], ${2 + 4 * k});
        else {
            const int q = slot * count_${k} + j;
            clock[queue_time_${k} + q] = send_${number}_time;
            clock[queue_sent_${k} + q] = t;
            mem[queue_flag_${k} + q] = ${f"send_{number}_flag" if f"{number}.flag" in kind.asks("receive", "send") else "0"};
            ints[queue_connection_${k} + q] = connection;
% if f"{number}.flag" in kind.asks("receive", "send"):
            if (send_${number}_flag == 1) ints[queue_last_${k} + j] = slot;  // net_move moves it
% endif
            ints[queue_size_${k} + j] = slot + 1;
        }
% else:
        const int slot = ints[queue_last_${k} + j];
        if (slot < 0) atomic_max(&ints[error], ${3 + 4 * k});
        else {
            clock[queue_time_${k} + slot * count_${k} + j] = send_${number}_time;
            clock[queue_sent_${k} + slot * count_${k} + j] = t;
        }
% endif
    }
% endfor
% if kind.watches:
    uint asked = 0;
% for name in [n for n in kind.asks("receive", "arm") if "." not in n]:
    if (arm_${name} != 0) asked |= ${1 << int(name)}u;
% endfor
    if (asked) {
        ints[armed_${k} + j] = (int)asked;
        ints[above_flags_${k} + j] = (int)above_${k}(j, a, 1, t, dt, v_now, v, mem, ints, ${e.regions_name});
    }
% endif
}

% if not e.bins or kind.queue:
// Deliver ${"the self events that are" if e.bins else "what is"} due to instance j until a time, the earliest first.
${e.static} void deliver_${k}(
    const int j, const int a, const instant limit, ${"const int late, " if e.bins else ""}const real dt, const int capacity,
    ${e.v_type}v, __global int *spike_count, __global int *spike_source,
    __global instant *spike_time, __global real *mem, __global instant *clock, __global int *ints,
    ${e.at})
{
% if not e.bins:
    const int target = target_${k} + j;
    const int first = ints[first_connection + target], end = ints[first_connection + target + 1];
% endif
    for (;;) {
        instant due = 0, sent = 0;
        int connection = ${"-1" if e.bins else f"earliest_event(first, end, limit, clock, ints, {e.regions_name}, &due, &sent)"};
        real flag = 0;
% if kind.queue:
        int slot = -1;
        for (int q = 0; q < ints[queue_size_${k} + j]; q++) {
            const instant time = clock[queue_time_${k} + q * count_${k} + j];
            const instant then = clock[queue_sent_${k} + q * count_${k} + j];
            if (time > limit) continue;
            if (connection < 0 && slot < 0 || time < due || (slot < 0 && time == due && then < sent)) {
                slot = q;
                due = time;
                sent = then;
            }
        }
% endif
% if kind.plays:
        play_before_${k}(j, limit, ${"slot >= 0 || connection >= 0" if kind.queue else "connection >= 0"} ? due : INFINITY, sent, mem, clock, ints, ${e.regions_name});
% endif
% if kind.queue:
        if (slot >= 0) {
            flag = mem[queue_flag_${k} + slot * count_${k} + j];
            connection = ints[queue_connection_${k} + slot * count_${k} + j];
            remove_${k}(slot, j, mem, clock, ints, ${e.regions_name});
        }${"" if e.bins else " else if (connection >= 0)"}
% if e.bins:
        if (slot < 0) break;
% else:
            ints[cursor + connection]++;
        if (slot < 0 && connection < 0) break;
% endif
% else:
        if (connection < 0) break;
        ints[cursor + connection]++;
% endif
        receive_${k}(j, a, due, flag, connection, ${"late, " if e.bins else ""}dt, capacity, v, spike_count, spike_source,
                     spike_time, mem, clock, ints, ${e.regions_name});
    }
}
% endif
% if e.bins:

// Deliver to instance j what is in the bin of a step.
${e.static} void bin_${k}(
    const int j, const int a, const instant t_begin, const int all, const real dt,
    const int capacity, ${e.v_type}v, __global int *spike_count,
    __global int *spike_source, __global instant *spike_time, __global real *mem,
    __global instant *clock, __global int *ints, ${e.at})
{
    const int target = target_${k} + j;
    const int first = ints[first_connection + target], end = ints[first_connection + target + 1];
    binned_ next = {-1, 0, 0, 0, 0, 0};
    int any = 0;
    for (;; any = 1) {
        next = next_in_bin(next, first, end, t_begin, all, clock, ints, ${e.regions_name});
        if (next.connection < 0) break;
        instant t = t_begin;
% if e.bins > 1:   # NEURON's t is then that of the last self event before
        const int source = ints[connection_source + next.connection];
        const int entry = ints[ring_first + source] + next.number % ints[ring_size + source];
        if (all) t = fmax(t_begin, clock[ring + entry]);
% endif
        receive_${k}(j, a, t, 0, next.connection, 1, dt, capacity, v, spike_count,
                     spike_source, spike_time, mem, clock, ints, ${e.regions_name});
        if (!any && next.left == 1) {   // as most often
            ints[cursor + next.connection] = next.number + 1;
            break;
        }
    }
    if (any) end_bin(first, end, t_begin, all, clock, ints, ${e.regions_name});
}
% endif
% if e.looks_ahead and not kind.watches:

// Find when instance j has to be looked after next, as far as is known.
${e.static} void look_ahead_${k}(
    const int j, __global instant *clock, __global const int *ints, ${e.at})
{
    instant due = next_event(ints[first_connection + target_${k} + j],
                            ints[first_connection + target_${k} + j + 1], clock, ints, ${e.regions_name});
% if kind.queue:
    for (int q = 0; q < ints[queue_size_${k} + j]; q++)
        due = fmin(due, clock[queue_time_${k} + q * count_${k} + j]);
% endif
    clock[next_due + target_${k} + j] = due;
}
% endif

// Events of instance j that are due until the middle of the step.
${e.static} void events_of_${k}(
    const int j, const int a, const instant t_begin, const instant t_mid, const real dt,
    const int capacity, ${e.v_type}v, __global int *spike_count,
    __global int *spike_source, __global instant *spike_time, __global real *mem,
    __global instant *clock, __global int *ints, ${e.at})
{
% if e.wide and not kind.watches:
    ints[stale + target_${k} + j] = 0;
% endif
<%
    rest = f"dt, capacity, v, spike_count, spike_source, spike_time, mem,\n                 clock, ints, {e.regions_name});"
    two = e.bins and not kind.watches   # one text for both turns: a processor keeps few instructions
    quick = two and e.looks_ahead and not kind.emits and kind.kind != "artificial" and not kind.plays
%>\
% if quick:   # what has one event at most is looked through once
    int late = 0;
${"    if (ints[queue_size_%d + j] == 0) {" % k if kind.queue else "    {"}
        const int target = target_${k} + j;
        const binned_ first = {-1, 0, 0, 0, 0, 0};
        const binned_ next = next_in_bin(first, ints[first_connection + target], ints[first_connection + target + 1],
                                         t_begin, 0, clock, ints, ${e.regions_name});
        if (next.left <= 1 && !next.shorts) {
            if (next.connection >= 0) {
                ints[cursor + next.connection] = next.number + 1;
                receive_${k}(j, a, t_begin, 0, next.connection, 1, dt, capacity, v, spike_count,
                             spike_source, spike_time, mem, clock, ints, ${e.regions_name});
            }
            late = ${f"ints[queue_size_{k} + j] ? 1 : 2" if kind.queue else "2"};
            if (late == 2) {
                clock[next_due + target] = next.due;
                return;
            }
        }
    }
    #pragma unroll 1
    for (; late < 2; late++) {
% elif two:
    #pragma unroll 1
    for (int late = 0; late < 2; late++) {
% endif
% if two:
% if kind.queue:
        deliver_${k}(j, a, late ? t_mid : t_begin, late, ${rest}
% elif kind.plays:
        play_before_${k}(j, late ? t_mid : t_begin, INFINITY, INFINITY, mem, clock, ints, ${e.regions_name});
% endif
        ${"" if e.bins > 1 else "if (!late) "}bin_${k}(j, a, t_begin, late, ${rest}
    }
% elif e.bins and kind.queue:
    deliver_${k}(j, a, t_begin, 0, ${rest}
% elif e.bins and kind.plays:
    play_before_${k}(j, t_begin, INFINITY, INFINITY, mem, clock, ints, ${e.regions_name});
% elif kind.watches and not e.bins:
    deliver_${k}(j, a, t_begin, ${rest}
% endif
% if kind.watches:
    const uint armed = (uint)ints[armed_${k} + j];
    uint fire = 0;
    if (armed) {  // an event that arms conditions withdraws what these have sent
        const real v_now = ${"0" if kind.kind == "artificial" else e.own_v};
        const uint above = above_${k}(j, a, 0, t_begin, dt, v_now, v, mem, ints, ${e.regions_name});
        fire = armed & above & ~(uint)ints[above_flags_${k} + j];
        ints[above_flags_${k} + j] = (int)above;
        ints[armed_${k} + j] = -1;
    }
% if e.bins:
    bin_${k}(j, a, t_begin, 0, ${rest}
% endif
    if (armed) {
% for w, flag in enumerate(kind.watch_flags):
        if ((fire & ${1 << w}u) && ints[armed_${k} + j] == -1)
            receive_${k}(j, a, t_begin, (real)${repr(float(flag))}, -1, ${"1, " if e.bins else ""}dt, capacity, v,
                         spike_count, spike_source, spike_time, mem, clock, ints, ${e.regions_name});
% endfor
        if (ints[armed_${k} + j] == -1) ints[armed_${k} + j] = (int)armed;
    }
% endif
% if not e.bins:
    deliver_${k}(j, a, t_mid, ${rest}
% elif not two:
% if kind.queue:
    deliver_${k}(j, a, t_mid, 1, ${rest}
% elif kind.plays:
    play_before_${k}(j, t_mid, INFINITY, INFINITY, mem, clock, ints, ${e.regions_name});
% endif
% if e.bins > 1:
    bin_${k}(j, a, t_begin, 1, ${rest}
% endif
% endif
% if e.looks_ahead and not kind.watches:
    look_ahead_${k}(j, clock, ints, ${e.regions_name});
% endif
}
% endfor
% endif
