<%page args="spec"/>\
## Part of the epoch_*.mako templates: their head comment, with the sizes and the elimination's idea.
// Epochs for whole cells: ${spec.units} per work-group, ${spec.lanes} lanes per cell, a lane per segment with at most ${spec.segment} nodes.
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
// where a is v's parent when v is eliminated (for nodes inside a segment: the parent segment's
// last node) and c its child then, or the segment's next node.
//
// Arguments; arrays by node are in device order, with a cell's segments side by side:
${part("simulator/common/run_arguments") if spec.advances else ""}\
% if spec.advances:
//   launch            first_step: first of the launch's num_steps steps; first_time: the step that begins at step_begin[0];
//                     record_row: first_step's record row
% endif
% if spec.joined:
//   tables            units and all other integer tables, which begin at `begins`
% endif
//   units             for each cell (unit) eight numbers, `mine`: s0 its first node in arrays by node; s1 count of its
//                     values; s2 its first lane in links; s3 its lanes, packed: ${spec.lane_counts}; s4 its first entry
//                     in rows; s5 rounds; s6 the cell's number; s7 its first lane in all_up
//   rows              row j has all inner segments' node j side by side; after these rows come the leaf segments' rows.
//                     For each row its first node's index in the cell
//   links             two packed words per lane: ${spec.link}; and, when its
//                     segment's last node is eliminated, ${spec.at_elimination}. Parents and children are lanes
//   children          local mailboxes for contributions from a lane's child segments: ${spec.family}
//   all_d, all_c      each node's diagonal without variable conductances, and C/dt, uS
//   all_tie, all_up   u between a node and its segment's next one; u between a lane's segment and its parent
//   all_g, all_k      each node's constant conductance, uS, and current, nA
//   all_v             all nodes' voltages, mV
//   all_f1, all_f2, all_inverse, tree_factors, tree_inverses   constant factors, see epoch_factors.mako
% if spec.has_slots:
//   slot_runs         a slot is local memory for one instance's conductance and current. Each node's slots,
//                     packed: ${spec.slot_run}; with constant factors each cell's first slot and end
//   M__start          for mechanism M: each work-group's first entry in M__list. An entry has an
//                     instance, and its node, cell in the group and slot, packed: ${spec.site}
% endif
% if spec.advances:
//   soma_detector     each cell's soma as an index among the nodes that are compared with thresholds (detectors)
//   record_start      each cell's first entry in record_list. An entry has the lane and the node in its segment,
//                     packed: ${spec.recorded}; and the column in record_v that gets its voltage, or ~k for detector k
% endif
% if spec.potentials:
//   row_of_column     a column is a node inside the cell and its nodes in extracellular layers. The index of each
//                     column's row in rows_of_factors, see `ColumnRow` in clhines/simulator/gpu/words.py
% endif
% if spec.by_node:
// A list has up to ${spec.warp} of a cell's nodes with the same density mechanisms, which a warp advances, a lane per node.
// A line has a number for each lane. Active nodes have instances, ions or detectors.
//   homes             for each cell numbers, `home`: s0, s1 first node and first lane in the equal cell whose couplings
//                     it uses; s2, s3 its first list, and the end; s4 its first line in node_states; s5, s6 its first
//                     active node, and the end
//   instances         each mechanism's first instance in each cell
//   node_lists        for each list: a bit for each of its density mechanisms; its first lines in node_values, in
//                     node_states (from s4 on), in local states, and in node_members; then, for each point mechanism,
//                     the instance count at a node
//   node_places, node_active, node_bits   for each lane of a list: the node's index in the cell, -1: none; its number
//                     among the cell's active nodes; its density mechanisms, if a list's nodes differ
//   node_members      each instance's index in the cell, -1: none;  node_scalars: parameters that are equal in a list
//   node_values, node_states   parameters that differ in a list, and node constants; states
//   looks             in `launch`: 1 as an epoch begins: then all targets look for due events
//   numbers           parameters that all instances share, and constant ion variables
//   seen_v            voltages that other cells' POINTERs read
//   shared            nodes' d and b before the elimination, exchanged by a cell's work-groups
//   arrived           how many work-groups have reached a barrier;  pending, in `launch`: 1 if the
//                     launch before left its last step's end to this one
% endif
