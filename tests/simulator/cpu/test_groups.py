"""Epochs on CPUs: cells in blocks, and instances in groups of vectors."""

import mod_files
import numpy as np
import pytest
from networks import CABLES, DT, crowded_lanes

from clhines import Network
from clhines.simulator.cpu.blocks import make_tiles
from clhines.simulator.cpu.groups import (
    choose_width,
    constant_pivots,
    make_groups,
    node_classes,
    variable_nodes,
)
from clhines.simulator.cpu.plan import blocks_of, work_of
from clhines.simulator.model import compile
from clhines.simulator.state.sources import wires_of

pytestmark = pytest.mark.optimised


@pytest.mark.parametrize("first", [0, 3])
def test_constant_pivots_are_those_of_the_whole_elimination(first):
    """Compare pivots of passive branches with a plain elimination; some cells' values differ."""
    net = Network(CABLES, 3 * len(CABLES) + 1)
    net.insert("hh", net.soma)
    net.insert("pas", np.flatnonzero(net.area > 0)[first:], g=2e-4)
    model = compile(net, DT)
    n, parent, u = model.forest.num_nodes, model.forest.parent, model.u
    base, diagonal = constant_pivots(model, variable_nodes(model))
    pivots = model.capacitance_over_dt + model.constant_d
    constant = np.setdiff1d(np.arange(n), net.soma)
    depth = np.zeros(n, int)
    for node in range(n):
        depth[node] = 0 if parent[node] < 0 else depth[parent[node]] + 1
    for node in constant[np.argsort(-depth[constant], kind="stable")]:
        pivots[parent[node]] -= u[node] ** 2 / pivots[node]
    np.testing.assert_allclose(base[net.soma], pivots[net.soma], rtol=1e-14)
    np.testing.assert_array_equal(base[net.soma], diagonal[net.soma])
    np.testing.assert_allclose(base[constant], 1 / pivots[constant], rtol=1e-14)
    np.testing.assert_allclose(diagonal[constant], u[constant] / pivots[constant], rtol=1e-14)


def test_nodes_without_currents_below_have_constant_pivots():
    """Mechanisms without conductance (a calcium pool, an electrode) change no pivot."""
    net = Network(CABLES[:1], 1)
    plain = variable_nodes(compile(net, DT))
    net.insert(mod_files.ours("ext_cad"), np.flatnonzero(net.area > 0))
    tip = net.forest.num_nodes - 1
    net.add("iclamp", at=[tip])
    np.testing.assert_array_equal(variable_nodes(compile(net, DT)), plain)
    net.add("expsyn", at=[tip])
    above = [tip]
    while above[-1] >= 0:
        above.append(int(net.forest.parent[above[-1]]))
    variable = np.flatnonzero(variable_nodes(compile(net, DT)))
    assert {*variable.tolist()} == {*above[:-1]} and plain.sum() == 1


@pytest.mark.parametrize(
    "counts, width", [([100], 8), ([9], 4), ([8, 16], 8), ([8, 8, 4], 4), ([2], 2)]
)
def test_two_registers_where_groups_are_about_half_as_many(counts, width):
    assert choose_width(np.array(counts), 4, True) == width


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("most", [1, 4, 8])
def test_groups_have_every_instance_once(most, count):
    model = compile(crowded_lanes(7), DT)
    blocks = blocks_of(model, wires_of(model), work_of(model), count, 1.0)
    tiles = make_tiles(model, blocks, most, variable_nodes(model), node_classes(model))
    np.testing.assert_array_equal(np.sort(tiles.node), np.arange(model.forest.num_nodes))
    place = np.argsort(tiles.node)
    for kind in model.kinds:
        groups = make_groups(place[kind.node], tiles.block_place, most)
        width = groups.width
        assert width <= max(2, most)
        kept = groups.member >= 0
        np.testing.assert_array_equal(np.sort(groups.member[kept]), np.arange(kind.count))
        np.testing.assert_array_equal(tiles.node[groups.place], kind.node[groups.source])
        block = np.searchsorted(tiles.block_place, groups.place, side="right") - 1
        of_groups = np.repeat(np.arange(count), np.diff(groups.first))
        np.testing.assert_array_equal(block, np.broadcast_to(of_groups[:, None], block.shape))
        at = np.stack(np.divmod(groups.position, width), axis=1)
        np.testing.assert_array_equal(groups.member[tuple(at.T)], np.arange(kind.count))
        side_by_side = (groups.place == groups.place[:, :1] + np.arange(width)).all(axis=1)
        np.testing.assert_array_equal(groups.side_by_side, side_by_side)
        if most > 1 and kind.mechanism.name == "hh":
            assert 0 < side_by_side.sum() < len(side_by_side)
