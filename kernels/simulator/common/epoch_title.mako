<%page args="spec"/>\
## Comment at the head of every kernel of an epoch: what the numbers of its text are, and the idea of the
## elimination. A kernel adds lines of its own below it.
// Epochs of whole cells: ${spec.units} a work-group, ${spec.lanes} lanes each, a lane a segment of at most ${spec.segment} nodes.
// spec: ${spec}
//
// A cell stays on chip for all steps of a launch. A step eliminates every segment towards its last
// node, contracts the tree of these nodes in rounds, solves the root (the soma) and goes back.
//     x[v] = b[v] / d[v] - f1 * x[a] - f2 * x[c],  f1 = A[a, v] / d[v], f2 = A[c, v] / d[v]
// where a is the parent that v has when it is eliminated (of a segment's nodes: the segment's
// parent) and c the child, or the next node of the segment.
