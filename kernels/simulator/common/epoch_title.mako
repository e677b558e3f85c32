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
