<%page args="spec, kind"/>\
## Part of arena_functions.mako: functions that deliver the events for one instance of `kind`, the earliest first; they
## call due_events.mako or event_bins.mako, and receive.mako. With `bins` (NEURON's `CVode.queue_mode(1, 0)`) events from
## connections wait in their step's bin; deliver_k then delivers self events only. A step then has two rounds of events,
## at its begin (`late` and `all` are 0) and at its middle (1). In the first round the bin lacks events that were sent
## after the step began and arrive within half a step; with `all` it has them. `flag` is a self event's, from net_send.
<% e, k = spec.arena, kind.number %>\
% if not e.bins or kind.queue:

// Deliver the ${"self " if e.bins else ""}events that are due to instance j until `limit`, the earliest first.
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

// Deliver the events in a step's bin to instance j.
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
% if e.bins > 1:   # in the second round NEURON's t is the time of the self event that sent the event
        const int source = ints[connection_source + next.connection];
        const int entry = ints[ring_first + source] + next.number % ints[ring_size + source];
        if (all) t = fmax(t_begin, clock[ring + entry]);
% endif
        receive_${k}(j, a, t, 0, next.connection, 1, dt, capacity, v, spike_count,
                     spike_source, spike_time, mem, clock, ints, ${e.regions_name});
        if (!any && next.left == 1) {   // usually there is one event
            ints[cursor + next.connection] = next.number + 1;
            break;
        }
    }
    if (any) end_bin(first, end, t_begin, all, clock, ints, ${e.regions_name});
}
% endif
% if e.looks_ahead and not kind.watches:

// Compute when instance j's next pending event is due.
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
