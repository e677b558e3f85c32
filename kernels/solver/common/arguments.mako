<%page args="spec"/>\
## Part of the head of every template of a method: the arrays of a system, and the status.
//   d[i]      in: A[i, i], the diagonal; A x = b is solved, and i is a node with parent p
//   u[i]      in: A[p, i]; not used at roots
//   l[i]      in: A[i, p]; symmetric matrices have no l
//   b, x      in, out: right-hand sides and solutions, one row of values for each
//   status    out, per cell: 0 if all pivots are good. Otherwise the low 29 bits are k + 1 for node k,
//             counted from the root, against the elimination order. If the bit BAD is set, this
//             node's pivot is not positive, or has no finite, normal inverse. If it is not set, digits
//             may be lost: the elimination added GROWTH times the diagonal or more to the diagonal.
