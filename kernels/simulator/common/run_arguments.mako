<%page args="spec"/>\
## Part of the heads of steps.mako, blocks.mako, artificial.mako and epoch_title.mako: arguments of runs; error codes.
//   mem, clock, ints  arenas: arrays of reals, times and integers with named regions. The regions' offsets are
//                     in `at` or in the struct `regions`, and are printed as macros with the regions' names.
//   step_begin        times at which the steps begin, ms; dt: length of a step; half_dt: half of it
//   failed            for each cell 0; or 1 + the first step after which v of the soma is not finite, or
//                     -1 - the first step after which it is 1e6 mV or more
//   spike_count       number of events, also beyond `capacity`; spike_source, spike_time: list of the first ones
//   grid_count        the same for spikes in whole steps: grid_source, grid_step
//   incoming          ring of sums of integer weights in units of scale_of_events: step s has row s % slots
//   mem_first         first recorded value k of each active node, then of artificial cells, then of sums by
//                     pointers: mem[mem_index[k]] goes to column mem_column[k] of a row of mem_rows
//   ints[error]       0, or the largest code of an error: 1: a source sent more events than its ring holds.
//                     Of mechanism k: 2 + 4k: the queue of self events is full; 3 + 4k: net_move without an
//                     event; 4 + 4k: an event before the present time, or NaN; 5 + 4k: net_event before an earlier
//                     one; 2^20 + k: an event at or before the time at which a POINTER sets its weight.
