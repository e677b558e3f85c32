"""Convert tridiagonal systems to chains of nodes, for `solver.tridiagonal`.

Row i of a system is a node whose parent is row i - 1. So the node's `l` is `dl` of row i, and its
`u` is `du` of row i - 1. Rows with a negative `d` are multiplied by -1.

`shapes`: shapes of users' arrays, and conversion in NumPy. `device`: conversion by kernels.
`periodic`: the two additional entries of periodic matrices.
"""
