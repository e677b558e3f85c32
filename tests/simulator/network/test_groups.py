"""Nodes by cell and region, and values by cell, node and distance."""

import pickle

import numpy as np
import pytest

from clhines import InputError, Network, Simulation, discretise, sample_cells
from clhines.simulator.cells.morphology import Morphology
from clhines.simulator.model import compile

pytestmark = pytest.mark.core

CABLES = [discretise(cell, max_length=60) for cell in sample_cells()[:3]]
AXON = discretise(
    Morphology(
        parent=np.array([-1, 0, 1, 0, 3, 0, 5]),
        xyz=np.array(
            [[0, 0, 0], [0, -10, 0], [0, -90, 0], [0, 9, 0], [0, 99, 0], [9, 0, 0], [60, 0, 0.0]]
        ),
        radius=np.array([8, 1, 1, 1, 1, 1, 1.0]),
        type=np.array([1, 2, 2, 4, 4, 3, 3]),
        id=np.arange(1, 8),
        line=np.arange(1, 8),
    ),
    max_length=20,
)


def test_regions_of_a_network_are_those_of_its_cells():
    net = Network([AXON, CABLES[0]], 5)
    offsets = net.forest.cell_offsets
    axons = np.concatenate([offsets[c] + AXON.nodes("axon") for c in (0, 2, 4)])
    np.testing.assert_array_equal(net.nodes(at="axon"), axons)
    np.testing.assert_array_equal(net.nodes(cell=2, at="axon"), offsets[2] + AXON.nodes("axon"))
    mine = net.nodes(cell=[4, 1])
    both = [offsets[1] + CABLES[0].nodes(), offsets[4] + AXON.nodes()]
    np.testing.assert_array_equal(mine, np.concatenate(both))
    assert net.nodes(cell=1, at="axon").tolist() == []
    group = net.insert("pas", at="apical", g=1e-4)
    assert set(AXON.nodes("apical").tolist()) <= set(group.nodes.tolist())
    assert net.nodes(cell=3, at=[offsets[3] + 1, offsets[2]]).tolist() == [offsets[3] + 1]


def test_nodes_by_distance():
    net = Network([AXON], 2)
    nodes = net.nodes(at=lambda distance: distance > 50.0)
    distance = np.tile(AXON.distance, 2)
    np.testing.assert_array_equal(nodes, np.flatnonzero((distance > 50.0) & (net.area > 0)))
    group = net.insert("pas", lambda distance: distance <= 50.0, g=1e-4)
    assert len(nodes) and len(group) + len(nodes) == len(net.nodes())
    with pytest.raises(InputError, match=r"function that returned float64 of shape .*; expected"):
        net.nodes(at=lambda distance: 2 * distance)


def test_values_of_every_kind():
    net = Network(AXON, 3)
    nodes = net.nodes(at="dendrites")
    cell, within = nodes // AXON.num_nodes, nodes % AXON.num_nodes
    rng = np.random.default_rng(1)
    per_cell, everywhere = rng.uniform(1, 2, 3), rng.uniform(1, 2, net.forest.num_nodes)
    expected = {
        "cells": (per_cell, per_cell[cell]),
        "marked": (net.per_cell(per_cell), per_cell[cell]),
        "as given": (everywhere[nodes], everywhere[nodes]),
        "distance": (lambda d: 1e-4 * np.exp(d / 100), 1e-4 * np.exp(AXON.distance[within] / 100)),
        "a number": (lambda d: 2.0, 2.0),
    }
    for name, (values, wanted) in expected.items():
        net = Network(AXON, 3)
        group = net.insert("pas", at="dendrites", g=values)
        np.testing.assert_array_equal(group.parameters["g"], wanted, err_msg=name)
        group.parameters["g"] = 0.0
        group.parameters["g"] = values  # as values that are set later
        np.testing.assert_array_equal(group.parameters["g"], wanted, err_msg=name)
        clamps = net.add("iclamp", at=nodes, amp=values)
        np.testing.assert_array_equal(clamps.parameters["amp"], wanted, err_msg=name)
    again = pickle.loads(pickle.dumps(group.parameters))
    again["g"] = net.per_cell(per_cell)
    np.testing.assert_array_equal(again["g"], per_cell[cell])


def test_the_matrix_of_values_by_distance():
    """`pas` by distance adds conductance times area to the matrix, node by node."""
    net = Network([AXON, CABLES[1]], 2)
    net.insert("pas", g=lambda distance: 1e-5 * (1 + distance), e=0.0)
    model = compile(net)
    distance = np.concatenate([AXON.distance, CABLES[1].distance])
    leak = 1e-2 * 1e-5 * (1 + distance) * model.area
    axial = np.concatenate([AXON.g_total, CABLES[1].g_total])
    np.testing.assert_allclose(model.constant_d, axial + leak, rtol=1e-15)


def test_values_of_nodes_given_come_first():
    """With as many nodes as cells, an array holds one value per node, not per cell."""
    net = Network(AXON, 3)
    clamps = net.add("iclamp", at=[5, 6, 7], amp=[1.0, 2.0, 3.0])
    assert clamps.parameters["amp"].tolist() == [1.0, 2.0, 3.0]
    clamps = net.add("iclamp", at=[5, 6, 7], amp=net.per_cell([1.0, 2.0, 3.0]))
    assert clamps.parameters["amp"].tolist() == [1.0, 1.0, 1.0]


def test_what_cannot_be_done_is_refused():
    net = Network(AXON, AXON.num_nodes)
    n = AXON.num_nodes
    with pytest.raises(InputError, match=rf"\({n},\), as many as there are cells and nodes of a"):
        net.insert("pas", g=np.linspace(1, 2, n))
    net.insert("pas", g=np.ones(n))  # both mean the same
    net = Network(CABLES, 4)
    for call, text in (
        (
            lambda: net.insert("pas", at="axon"),
            "at='axon': no cell has a section of this type; expected soma, ",
        ),
        (lambda: net.insert("pas", at="tuft"), "at='tuft'; expected soma, soma.middle, dend"),
        (lambda: net.per_cell([1.0, 2.0]), r"values has shape \(2,\); expected one for each of 4"),
        (lambda: net.per_cell([1.0, 2.0, 3.0, np.inf]), r"values\[3\] is inf"),
        (lambda: net.nodes(cell=4), r"cell\[0\]: there is no cell 4; expected 0 to 3"),
        (lambda: net.insert("pas", g=lambda d: d[:1]), "pas: g is a function that returned shape"),
        (lambda: net.insert("pas", g=lambda d: d * np.nan), r"pas: g\[0\] is nan"),
        (lambda: net.insert("pas", g=lambda d: "x"), "pas: g has dtype"),
        (
            lambda: net.insert("pas", g=Network(AXON, 3).per_cell([1.0, 2.0, 3.0])),
            "pas: g is of 3 cells; expected 4",
        ),
        (
            lambda: net.insert("pas", g=np.ones(CABLES[0].num_nodes)),  # cells differ
            r"pas: g has shape \(\d+,\); expected a number, ",
        ),
    ):
        with pytest.raises(InputError, match=text):
            call()
    assert net.groups == ()


def test_networks_of_arrays_have_no_regions_or_distances():
    arrays = {name: getattr(AXON, name) for name in ("parent", "area", "g_axial", "capacitance")}
    net = Network.from_arrays(cell_offsets=[0, AXON.num_nodes], **arrays)
    assert net.nodes(at="soma").tolist() == net.soma.tolist()
    everywhere = np.flatnonzero(net.area > 0)
    assert net.nodes().tolist() == everywhere.tolist()
    rest = np.setdiff1d(everywhere, net.soma)
    assert net.nodes(cell=0, at="dendrites").tolist() == rest.tolist()
    with pytest.raises(InputError, match="at='axon': the network was made from arrays"):
        net.insert("pas", at="axon")
    with pytest.raises(
        InputError, match="a function of the distance: the network was made from arr"
    ):
        net.insert("pas", g=lambda distance: distance)
    group = net.insert("pas", g=net.per_cell([2e-4]))
    assert group.parameters["g"].tolist() == [2e-4] * len(everywhere)


def test_a_group_and_a_result_say_what_they_are_in_a_line():
    cable = CABLES[0]
    net = Network(cable, num_cells=2)
    hh = net.insert("hh", at="soma")
    sim = Simulation(net, dt=0.025, engine="reference")
    v = sim.record("v", net.soma)
    result = sim.run(0.1)
    assert repr(hh) == f"Group(0: hh × {len(hh)})"
    assert repr(result) == "Result(0 to 0.1 ms; 0 spikes; records [(5, 2)])"
    assert result[v].shape == (5, 2)
    assert result["v"] is result[v]
    for wrong in (0.0, True):
        with pytest.raises(InputError, match=r"expected what record\(\) returned, or a name"):
            result[wrong]
