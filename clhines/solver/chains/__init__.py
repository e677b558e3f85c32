"""Tridiagonal systems as chains of nodes, for `solver.tridiagonal`.

Row i of a system is a node, and its parent is the row before. So its entry `dl` is the node's `l`,
and the entry `du` of the row before is the node's `u`. Rows with a negative `d` are multiplied by
-1.

`shapes`: shapes of users' arrays, and matrices of chains in NumPy. `device`: the same
by kernels. `periodic`: the two more entries of periodic matrices.
"""
