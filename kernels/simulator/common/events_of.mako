<%page args="spec, kind"/>\
## Part of arena_functions.mako: a function that delivers the events for an instance of `kind` in a step: first the
## events due at its begin, then WATCH conditions, then the events due until its middle.
<% e, k = spec.arena, kind.number %>\

// Deliver events to instance j that are due until the step's middle.
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
    two = e.bins and not kind.watches   # one loop for both, because caches hold few instructions
    quick = two and e.looks_ahead and not kind.emits and kind.kind != "artificial" and not kind.plays
%>\
% if quick:   # usually an instance has at most one event: a single pass
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
    if (armed) {  // -1 until an event arms conditions: then earlier conditions no longer count
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
