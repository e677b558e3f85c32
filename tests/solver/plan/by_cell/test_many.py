"""Lanes over many right-hand sides: the order of nodes, and the choice of this method."""

import numpy as np
from systems import dissimilar

from bench.made import chain, star
from clhines import Forest
from clhines.solver.plan.by_cell import many
from clhines.solver.plan.methods import make_plan
from clhines.solver.plan.plan import Limits


def test_steps_have_parents_first():
    forest = Forest.from_parents([*dissimilar(5), chain(1), star(7)] * 2)
    node, parent = many.steps_of(forest)
    assert np.array_equal(np.sort(node), np.arange(forest.num_nodes))
    assert (parent < np.arange(forest.num_nodes)).all()
    above = np.where(parent < 0, -1, node[parent])
    assert np.array_equal(above, forest.parent[node])


def test_few_cells_and_many_right_hand_sides_are_expected_to_be_faster():
    limits, dtype = Limits(compute_units=2, is_cpu=True), np.dtype(np.float64)
    few = make_plan(Forest.from_parents([chain(64)]), "auto", dtype, limits)
    assert many.is_faster(few, limits, dtype, 4096)
    assert not many.is_faster(few, limits, dtype, 4)
    long = make_plan(Forest.from_parents([chain(2_000_000)]), "auto", dtype, limits)
    assert not many.is_faster(long, limits, dtype, 4096)  # a block would fit into no cache
