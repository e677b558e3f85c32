<%page args="spec"/>\
## Part of the heads of steps.mako, blocks.mako, artificial.mako and epoch_title.mako: run arguments; error codes.
//   mem, clock, ints  arenas: reals, times and integers, arrays with named regions. The regions' offsets are
//                     in `at` or in the struct `regions`, and are printed as macros with the regions' names.
//   step_begin        times at which the steps begin, ms; dt: a step's length; half_dt: half of it
//   failed            for each cell 0; or 1 + the first step after which the soma's v is not finite, or
//                     -1 - the first step after which it is 1e6 mV or more
//   spike_count       event count in the lists spike_source and spike_time; it also counts events for which
//                     these lists, of `capacity` entries, have no space
//   grid_count        the same for spikes in whole steps: lists grid_source, grid_step
//   incoming          sums of pending events' weights, integers in units of scale_of_events: row s % slots has the sums
//                     for step s, one for each target
//   mem_first         each active node's first recorded value: values are sorted by node; artificial cells' values and
//                     sums by POINTERs come last. Value k, mem[mem_index[k]], goes to column mem_column[k] of mem_rows
//   ints[error]       0, or the largest error code: 1: a source sent more events than its ring holds.
//                     For mechanism k: 2 + 4k: the self event queue is full; 3 + 4k: net_move without an
//                     event; 4 + 4k: an event before the present time, or NaN; 5 + 4k: net_event before an earlier
//                     one; 2^20 + k: an event at or before the time at which a POINTER sets its weight.
