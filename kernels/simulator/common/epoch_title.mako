<%page args="spec"/>\
## Part of the epoch_*.mako templates: their head comment, with the sizes and the idea of the elimination.
// Epochs of whole cells: ${spec.units} per work-group, ${spec.lanes} lanes per cell, a lane per segment of at most ${spec.segment} nodes.
// spec: ${spec}
//
// Cells interact only by events, and no event is due before the smallest delay has passed. So a launch
// advances that many steps, an epoch, while the cells stay on the chip. A step eliminates every segment
// towards its last node, contracts the tree of these nodes in rounds, solves the root (the soma),
// and goes back:
//
//     segments   soma  o-o-O---o-o-O---o-o-o      O: last node of an inner segment
//                          |       |
//                          o-o     o-o-o
//     rounds     O---O---O  ->  O-------O  ->  O  ->  x of the root  ->  the same back
//
//     x[v] = b[v] / d[v] - f1 * x[a] - f2 * x[c],  f1 = A[a, v] / d[v], f2 = A[c, v] / d[v]
// where a is the parent of v when it is eliminated (for nodes inside a segment: the parent segment's
// last node) and c its child then, or the next node of the segment.
//
// Arguments; arrays by node are in device order, with segments of a cell side by side:
${part("simulator/common/run_arguments") if spec.advances else ""}\
//   first_step        first of the launch's num_steps steps; first_time: the step of step_begin[0]
//   units             eight numbers per cell (unit): index of its first node, number of values, first lane in
//                     links, numbers of lanes (packed), first entry in rows, rounds, cell, first lane in all_up
//   rows              index in the cell of the first node in each row of inner segments, then of leaf segments
//   links             two words per lane: its segment, and its node at elimination; children: its mailboxes
//   all_d, all_c      diagonal without variable conductances, and C/dt, of each node, uS
//   all_tie, all_up   u between neighbours of a segment, by node; u to the parent segment, by lane
//   all_g, all_k      constant conductance, uS, and current, nA, of each node
//   all_v             voltages of all nodes, mV
//   all_f1, all_f2, all_inverse, tree_factors, tree_inverses   constant factors, see epoch_factors.mako
//   slot_runs         slots of each node's instances, packed, or with constant factors of each cell's
//   M__start          for mechanism M: first entry of each work-group in M__list, pairs (instance, site)
//   soma_detector     number of each cell's soma among detectors
//   record_start      first entry of each cell in record_list, pairs (lane and node, packed; column of record_v)
//   row_of_column     index of each column's row in rows_of_factors, for extracellular layers
% if spec.by_node:
//   homes             eight numbers per cell: first node and first lane of an equal cell (for couplings), first list and
//                     end, first line of states, first active node and end
//   instances         first instance of each mechanism in each cell
//   node_lists        a row per list: bits of density mechanisms; first lines of values, of states (global, local)
//                     and of members; number of instances of each point mechanism
//   node_places       index in the cell of each node of a list; node_active: its active node; node_bits: its mechanisms
//   node_members      index in the cell of each instance; node_scalars, node_values, node_states: numbers of lists
//   looks             1 as an epoch begins: then all targets look for due events. numbers: shared parameters
//   seen_v            voltages that pointers of other cells read; shared: rows of W and A of work-groups of a cell
//   arrived           how many work-groups have reached a barrier; pending: whether this launch ends a step of the last
% endif
