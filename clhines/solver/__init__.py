"""Solve batches of Hines matrices: numbers in, numbers out. Nothing here knows of neurons.

Imports go one way: `forest` (trees of cells) and `reference` (the slow truth in NumPy), then `plan`
(methods, layouts, schedules; without a device), then `device` (OpenCL), then the modules below.

Words: a *solve* takes d, u, (l) and b and gives x; *factors* are a matrix that has been eliminated
once. *Natural order* is the caller's, *device order* the plan's: `Solver.to_device_order` and
`Solver.from_device_order` convert.

Who owns what
    `solver`: `Solver`, the public face; it has one engine and no branch on which. `arguments`
    checks arrays. `tune` plans, times candidates, keeps the winners and makes the engine.
    `engines`: a batch by its plan, and chains in lanes. `factors`: `Factors`, and `Gradients` with
    respect to d, u, l and b. `accuracy` reports lost digits. `known_answers`: the self-test of a
    device. `tridiagonal`: `Tridiagonal` and `solve_tridiagonal`, whose arrays `chains` brings to
    Hines matrices and back. `torch` and `jax`: solves that these libraries differentiate;
    `clhines.torch` and `clhines.jax` have them, and simulations.

>>> import numpy as np
>>> from clhines import Forest, PivotError, Solver
>>> forest = Forest(np.array([-1, 0, 1, 1]))
>>> d, u = np.array([3.0, 4.0, 3.0, 3.0]), np.full(4, -1.0)
>>> solver = Solver(forest, method="flat")
>>> b = np.array([2.0, 1.0, 2.0, 2.0])  # the row sums: x is 1 everywhere
>>> bool(np.allclose(solver.solve(d, u, b), 1.0, rtol=1e-14))
True
>>> factors = solver.factor(d, u)
>>> bool(np.allclose(factors.solve(2 * b), 2.0, rtol=1e-14))
True

A bad pivot is an error, with its cell and node:

>>> try:
...     solver.solve(np.zeros(4), u, b)
... except PivotError as error:
...     print(error.cell, error.node)
0 3

To add a memory space: a module in `engines`, which `tune` chooses. To add a method: see
`solver.plan`; nothing here depends on which method a plan has.
"""
