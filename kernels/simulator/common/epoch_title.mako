<%page args="spec"/>\
## Part of the epoch_*.mako templates: their head comment, with the sizes and the idea of the elimination.
// Epochs of whole cells: ${spec.units} per work-group, ${spec.lanes} lanes per cell, a lane per segment of at most ${spec.segment} nodes.
// spec: ${spec}
//
// Cells interact only by events, and no event is due before the smallest delay has passed. So a launch
// advances that many steps, an epoch, while the cells stay on the chip. A segment is a chain of nodes; without
// segments beyond its end it is a leaf, else an inner segment. A step eliminates every segment towards its last
// node, contracts the tree of these nodes in rounds, solves the root (the soma), and goes back:
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
//   units             for each cell (unit) eight numbers, `mine`: s0 its first node in arrays by node; s1 number of its
//                     values; s2 its first lane in links; s3 its lanes, packed: ${spec.lane_counts}; s4 its first entry
//                     in rows; s5 rounds; s6 number of the cell; s7 its first lane in all_up
//   rows              row j has node j of all inner segments side by side; after these rows come those of leaf segments.
//                     For each row the index in the cell of its first node
//   links             two packed words per lane: ${spec.link}; and, when its
//                     segment's last node is eliminated, ${spec.at_elimination}. Parents and children are lanes
//   children          local mailboxes for contributions of a lane's child segments: ${spec.family}
//   all_d, all_c      diagonal without variable conductances, and C/dt, of each node, uS
//   all_tie, all_up   u between a node and the next one of its segment; u between a lane's segment and its parent
//   all_g, all_k      constant conductance, uS, and current, nA, of each node
//   all_v             voltages of all nodes, mV
//   all_f1, all_f2, all_inverse, tree_factors, tree_inverses   constant factors, see epoch_factors.mako
% if spec.has_slots:
//   slot_runs         a slot is local memory for the conductance and current of one instance. The slots of each node,
//                     packed: ${spec.slot_run}; with constant factors first slot and end of each cell
//   M__start          for mechanism M: first entry of each work-group in M__list. An entry has the number of an
//                     instance, and its node, cell in the group and slot, packed: ${spec.site}
% endif
% if spec.advances:
//   soma_detector     index of each cell's soma among the nodes that are compared with thresholds (detectors)
//   record_start      first entry of each cell in record_list. An entry has the lane and the node in its segment,
//                     packed: ${spec.recorded}; and the column of record_v that gets its voltage, or ~k for detector k
% endif
% if spec.potentials:
//   row_of_column     a column is a node inside the cell and its nodes in extracellular layers. The index of each
//                     column's row in rows_of_factors, see `ColumnRow` in clhines/simulator/gpu/words.py
% endif
% if spec.by_node:
// A list has up to ${spec.warp} nodes of a cell with the same density mechanisms, which a warp advances, a lane per node.
// A line has a number for each lane. Active nodes have instances, ions or detectors.
//   homes             for each cell numbers, `home`: s0, s1 first node and first lane of the equal cell whose couplings
//                     it uses; s2, s3 its first list, and the end; s4 its first line in node_states; s5, s6 its first
//                     active node, and the end
//   instances         first instance of each mechanism in each cell
//   node_lists        for each list: a bit for each of its density mechanisms; its first lines in node_values, in
//                     node_states (from s4 on), in local states, and in node_members; then, for each point mechanism,
//                     the number of instances at a node
//   node_places, node_active, node_bits   for each lane of a list: the node's index in the cell, -1: none; its number
//                     among the cell's active nodes; its density mechanisms, if nodes of a list differ
//   node_members      index in the cell of each instance, -1: none;  node_scalars: parameters that are equal in a list
//   node_values, node_states   parameters that differ in a list, and constants of nodes; states
//   looks             1 as an epoch begins: then all targets look for due events
//   numbers           parameters that all instances share, and constant ion variables
//   seen_v            voltages that POINTERs of other cells read
//   shared            d and b of nodes before the elimination, exchanged by the work-groups of a cell
//   arrived           how many work-groups have reached a barrier;  pending: 1 if the launch before left the end of its
//                     last step to this one
% endif
