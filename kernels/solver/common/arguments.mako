<%page args="spec"/>\
## Part of the head of every template of a method: the arrays of a system, and the status.
//   d[i]      A[i, i] of node i
//   u[i]      A[p, i], where p is the parent of node i; not used at roots
//   l[i]      A[i, p]; symmetric matrices have no l
//   b, x      right-hand sides and solutions, one row of values for each
//   status    for each cell 0, or a report. The low 29 bits of a report are k + 1, for the node at
//             position k of the elimination order read backwards, from the root. With the bit BAD
//             the pivot there is not positive or has no finite, normal inverse. Otherwise
//             digits may be lost: terms of GROWTH times the diagonal or more were added to it.
