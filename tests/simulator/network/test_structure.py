"""Networks that repeat a cycle of cells: planning one cycle gives the bits of planning all."""

import numpy as np
import pytest

from bench.ring import ring_cables
from clhines import Network
from clhines.simulator.model import compile
from clhines.simulator.network.structure import NodeValues
from clhines.solver.forest import Forest

pytestmark = pytest.mark.core

CABLES = ring_cables(3, levels=2)
COLUMNS = "u", "capacitance", "area", "constant_d", "constant_b", "v_init"


def given_by_words(num_cells):
    net = Network(CABLES, num_cells)
    net.insert("hh", "soma")
    net.insert("pas", "dendrites", g=2e-4, e=-70.0)
    return net


def given_by_nodes(num_cells):
    """Return the same network, listed cell by cell and node by node, without a known cycle."""
    net = Network([CABLES[c % 3] for c in range(num_cells)])
    area = np.concatenate([CABLES[c % 3].area for c in range(num_cells)])
    in_soma = np.concatenate([CABLES[c % 3].in_soma for c in range(num_cells)])
    net.insert("hh", np.flatnonzero(in_soma))
    net.insert("pas", (area > 0) & ~in_soma, g=2e-4, e=-70.0)
    return net


@pytest.mark.parametrize("num_cells", [1, 2, 3, 6, 8])
def test_cells_in_turn_have_the_bits_of_cells_listed(num_cells):
    models = [compile(make(num_cells), 0.025) for make in (given_by_words, given_by_nodes)]
    for name in COLUMNS:
        ours, listed = (getattr(m, name) for m in models)
        assert ours.dtype == listed.dtype
        np.testing.assert_array_equal(ours, listed)
        nodes = np.arange(len(listed))[::-3]
        fresh = compile(given_by_words(num_cells), 0.025).of_nodes  # no array is expanded
        np.testing.assert_array_equal(fresh.at(name, nodes), listed[nodes])
        assert fresh.any(name) == listed.any()
        np.testing.assert_array_equal(fresh.part(5, 17).whole(name), listed[5:17])
    for ours, listed in zip(*(m.kinds for m in models), strict=True):
        np.testing.assert_array_equal(ours.node, listed.node)
        np.testing.assert_array_equal(ours.factor, listed.factor)
    assert models[0].forest.num_nodes == len(models[1].forest.parent)


def test_a_parameter_of_each_instance_ends_what_repeats():
    nets = [make(7) for make in (given_by_words, given_by_nodes)]
    rng = np.random.default_rng(5)
    leak = rng.uniform(1e-4, 1e-3, len(nets[0].groups[1]))
    for net in nets:
        net.groups[1].parameters["g"] = leak
    ours, listed = (compile(net, 0.025) for net in nets)
    np.testing.assert_array_equal(ours.constant_d, listed.constant_d)
    np.testing.assert_array_equal(ours.constant_b, listed.constant_b)


@pytest.mark.parametrize("num_cells", [1, 2, 3, 4, 9, 4000])
def test_a_forest_of_trees_in_turn_is_that_of_its_arrays(num_cells):
    trees = [np.array([1, -1, 1]), np.array([-1]), np.array([-1, 0])]
    repeated = Forest.repeat(trees, num_cells)
    listed = Forest.from_parents([trees[c % 3] for c in range(num_cells)])
    for name in ("cell_offsets", "parent", "shape_of_cell"):
        np.testing.assert_array_equal(getattr(repeated, name), getattr(listed, name))
    np.testing.assert_array_equal(repeated.trees.parent, listed.trees.parent)
    assert not repeated.parent.flags.writeable
    cells = np.arange(num_cells)[::-2]
    for some in (cells, cells[::-1], np.arange(num_cells // 2, num_cells)):
        np.testing.assert_array_equal(repeated.subset(some).parent, listed.subset(some).parent)


def test_values_of_one_round_are_read_only():
    values = NodeValues({"a": np.array([1.0, 0.0, 3.0]), "b": np.zeros(1)}, 5)
    assert values.whole("a").tolist() == [1, 0, 3, 1, 0]
    assert (values.any("a"), values.any("b")) == (True, False)
    for array in (values.whole("a"), values.part(1, 3).whole("b")):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 2
