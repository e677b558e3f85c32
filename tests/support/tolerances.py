"""How close two solutions of one system must be: the tolerances of all tests of solves.

The tolerances of simulations against NEURON are in docs/reference/simulating.md, with their checks.

*Forward error.* Let ``h`` be the height of a cell in nodes. Elimination and substitution carry a
value along at most ``h`` nodes each way, and each node adds a handful of roundings, each of
relative size eps / 2 at most. In a well-scaled system, as `systems.make_system` makes them,
the diagonal exceeds the rest of its row and of its column by a fixed margin, so that an
error made at one node reaches the next one scaled by a factor below one. Roundings are as often
up as down, so that their sum grows like a random walk::

    max |x - x_ref| <= C * eps(dtype) * sqrt(h) * max |x_ref|     over the nodes of a cell

`C` is 4: five roundings a node and sweep (a division, a product and a difference for the diagonal,
two more for the right-hand side) random-walk to ``sqrt(2 * 5) * eps / 2 = 1.6 eps``, times the
condition of these systems in the maximum norm, 2 to 3. The worst over all shapes, seeds and
methods was measured at 1.0; a kernel that drops one term misses by many orders of magnitude.
Nodes with many children need no larger bound: their terms are small against their diagonal.

*Residual*, the componentwise backward error. Elimination without pivoting on a diagonally dominant
matrix is backward stable row by row: ``|b - A x|_i / (|A| |x| + |b|)_i`` grows neither with the
height nor with the condition, so the bound is ``C * eps(dtype)`` flat, measured at 1.0 as well.
That counts one update of a row, by all its children together. If a row is updated several times,
as by the neighbours that `contraction` eliminates in successive rounds, their roundings
random-walk: a factor ``sqrt(updates)``. It is given only if it is needed, for cells in pieces
(two to three times as many rounds): measured at 2.0, once at 4.8 in 350,000 rows.

Cyclic reduction has no such bound. A row that is left after k steps is made of ``2**k`` rows, and
its roundings are relative to the largest of these, not to the one row in which the residual is
computed; if `b` and `x` happen to be small there, the residual is large. Measured over 200,000
rows of chains of 8 to 200 nodes: 4.4 for `cr`, 10 for `pcr`, however long the chains, while the
forward error stays at 1.2, well within its bound. They are given `REDUCTION_UPDATES`: 32 eps.
"""

import numpy as np

C = 4.0
REDUCTION_UPDATES = 64


def forward_bound(forest, dtype):
    """Return the largest relative error allowed in each cell, (num_cells,) float64."""
    return C * np.finfo(dtype).eps * np.sqrt(forest.heights.astype(np.float64))


def residual_bound(dtype, updates=1):
    """Return the largest componentwise backward error allowed if a row has so many updates."""
    return C * np.finfo(dtype).eps * np.sqrt(updates)


def relative_errors(forest, x, truth):
    """Return each cell's largest error over its largest value, (num_cells,) float64."""
    x, truth = np.atleast_2d(x).astype(np.float64), np.atleast_2d(truth)
    assert x.shape == truth.shape == (len(truth), forest.num_nodes)
    starts = forest.cell_offsets[:-1]
    gap = np.maximum.reduceat(np.abs(x - truth), starts, axis=1)
    scale = np.maximum.reduceat(np.abs(truth), starts, axis=1)
    assert (scale > 0).all()
    return (gap / scale).max(axis=0)


def assert_close(forest, x, truth, dtype):
    """Assert the forward bound in every cell and row; NaN fails."""
    errors, bound = relative_errors(forest, x, truth), forward_bound(forest, dtype)
    wrong = ~(errors <= bound)
    worst = int(np.argmax(np.where(np.isnan(errors), np.inf, errors / bound)))
    assert not wrong.any(), (
        f"cell {worst} of {forest.sizes[worst]} nodes: relative error {errors[worst]:.3g}, "
        f"bound {bound[worst]:.3g}; {wrong.sum()} of {len(wrong)} cells are beyond theirs"
    )
