"""Positions of nodes."""

import numpy as np
import pytest

from clhines import InputError, Network, discretise, sample_cells
from clhines.fields import Geometry

pytestmark = pytest.mark.core


def test_geometry_of_a_cable_follow_each_other():
    cable = discretise(sample_cells()[0], max_length=20)
    at = Geometry.of_cable(cable)
    for s, first in enumerate(cable.first_node.tolist()):
        inner = slice(first, first + int(cable.nseg[s]))
        np.testing.assert_array_equal(at.begin[inner][1:], at.end[inner][:-1])
        points = cable.sections.points[cable.sections.offsets[s] :, :3]
        np.testing.assert_allclose(at.begin[first], points[0])
    junctions = cable.area == 0
    assert junctions.any() and (at.radius[junctions] == 0).all()
    np.testing.assert_array_equal(at.begin[junctions], at.end[junctions])
    length = (cable.sections.length / cable.nseg)[cable.section]
    np.testing.assert_allclose(2 * np.pi * at.radius * length * ~junctions, cable.area, 1e-12)


def test_cells_are_turned_and_shifted():
    cables = [discretise(cell, max_length=60) for cell in sample_cells()[:2]]
    net = Network(cables, 3)
    quarter = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    turns, shifts = np.stack([np.eye(3), quarter, quarter]), np.arange(9.0).reshape(3, 3)
    at, sizes = net.geometry(shifts, turns), net.forest.cell_offsets
    for c in range(3):
        of_cell, geometry = slice(sizes[c], sizes[c + 1]), Geometry.of_cable(cables[c % 2])
        np.testing.assert_allclose(at.end[of_cell], geometry.end @ turns[c].T + shifts[c], 0, 1e-12)
    one = Network(cables[0], 2).geometry()
    np.testing.assert_array_equal(one.begin, np.tile(Geometry.of_cable(cables[0]).begin, (2, 1)))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda net: net.geometry([[0, 0, 0]] * 2), "shift has shape (2, 3); expected (3, 3)"),
        (
            lambda net: net.geometry(turn=np.ones((3, 3, 3))),
            "turn is not a rotation; expected ortho",
        ),
        (lambda net: net.geometry([0, np.inf, 0]), "shift[1] is inf; expected a finite number"),
        (lambda net: Geometry([[0, 0, 0]], [[0, 0, 1]], [-1.0]), "radius[0] is -1 um; expected 0"),
        (lambda net: Geometry([[0, 0]], [[0, 0]], [1.0]), "expected (n, 3), (n, 3), (n,)"),
        (lambda net: Geometry([[0, 0, 0]], [[0, 0, 1]], 1.0), "expected (n, 3), (n, 3), (n,)"),
        (lambda net: Geometry.joined([]), "parts is []; expected a list of Geometry"),
        (lambda net: Geometry.joined(3), "parts is 3; expected a list of Geometry"),
        (lambda net: Geometry.of_cable(net), "expected a Cable"),
        (lambda net: net.geometry().of([0, 9999]), "nodes[1]: there is no node 9999"),
        (lambda net: net.geometry().moved([1.0]), "shift has shape (1,); expected (3,) or (k, 3)"),
        (
            lambda net: Network.from_arrays([-1], [0, 1], [1.0], [0.0], [1e-4]).geometry(),
            "the network has no cables; expected a Geometry",
        ),
    ],
)
def test_refusals(call, said):
    net = Network(discretise(sample_cells()[0], max_length=90), 3)
    with pytest.raises(InputError) as error:
        call(net)
    assert said in str(error.value) and "\n" not in str(error.value)
