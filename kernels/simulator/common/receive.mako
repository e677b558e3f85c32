<%page args="spec, kind, values"/>\
## Part of arena_functions.mako: functions that deliver one event to an instance of `kind`: its self event queue, its
## WATCH conditions, its NET_RECEIVE block.
<%
    e, k = spec.arena, kind.number
    from clhines.simulator.state.sources import WATCH_MARGIN as margin
    from clhines.simulator.kinds.event_errors import LATE
%>\
% if kind.queue:

// Remove self event `slot` from instance j's queue.
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

// Return instance j's WATCH conditions as bits. A bit is set if the condition's value is above 0, or, with
// `arms`, above a small negative margin.
${e.static} uint above_${k}(const int j, const int a, const int arms, const instant t, const real dt,
                       const real v_now, ${e.v_type}v, __global real *mem,
                       __global int *ints, ${e.at})
{
    const instant t_begin = t, t_end = t + dt;
    const real flag = 0;
    const int weight_at = -1;
${kind.call("watch", values, 4)}\
    uint found = 0;
% for w in range(kind.watches):
    if (arms ? watch_${w} >= (real)${-margin} : watch_${w} > 0) found |= ${1 << w}u;
% endfor
    return found;
}
% endif

// Deliver an event to instance j: run NET_RECEIVE, then send its events and arm its conditions.
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
            // other blocks may still need the event that this one overwrites in the ring
            const int entry = ring + ints[ring_first + source] + n % ints[ring_size + source];
            if (n >= ints[ring_size + source]
                && clock[entry] + clock[longest + source] + dt > clock[launch_begin])
                atomic_max(&ints[error], 1);
% endif
% if e.wide:
            mark_targets(source, ints, at);  // on connections shorter than a step
% endif
            const int last = ring + ints[ring_first + source] + (n - 1) % ints[ring_size + source];
            if (n > 0 && send_${number}_time < nextafter((real)clock[last], -(real)INFINITY))
                atomic_max(&ints[error], ${5 + 4 * k});  // a source must send in time order
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
