<%page args="spec, v='', number='', crosses='is_above && !held', source='', sent='event_count', end='', step='step'"/>\
## Part of steps.mako, blocks.mako, arena_vectors.mako, arena_lists.mako, segment_root.mako and epoch_records.mako.
## A step's phase 8, for a soma or a detector: send an event if a voltage is above its threshold and was not before.
## For a soma, `crosses` is this condition. A detector has a `number`; its `held` is not 0 while it is above, or has to
## wait some more steps. With `end`, the time of the step's end, events go to their source's ring buffer; without, they
## go with their `step` to the list of spikes in whole steps.
<%
    def of(name): return f"ints[detector_{name} + {number}]"
    threshold = f"mem[detector_threshold + {number}]"
%>\
// phase 8: thresholds
% if number:
const int is_above = ${v} > ${threshold}, held = ${of("held")};
% endif
if (${crosses}) {
    const int source = ${source or of("source")};
% if end:
    const int count = ints[${sent} + source]++;
    clock[ring + ints[ring_first + source] + count % ints[ring_size + source]] = ${end} + 1e-10;
% if spec.arena.wide:
    mark_targets(source, ints, at);
% endif
    const int spike = atomic_inc(spike_count);
    if (spike < capacity) {
        spike_source[spike] = source;
        spike_time[spike] = ${end};
    }
% endif
% if not end or spec.arena.grid:
    const int on_grid = atomic_inc(grid_count);
    if (on_grid < capacity) {
        grid_source[on_grid] = source;
        grid_step[on_grid] = ${step};
    }
% endif
}
% if number:
${of("held")} = held > 1 ? held - 1 : !is_above ? 0 : held ? 1 : ${of("hold")};
% endif
