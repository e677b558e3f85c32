"""Regions, places, distances and values per section, by hand and against NEURON."""

import csv

import numpy as np
import pytest
from made_cells import cell, dense
from real_cells import FOLDER

from clhines import discretise, read_swc, sample_cells
from clhines.core.errors import InputError
from clhines.simulator.cells.sections import sections_of

pytestmark = pytest.mark.core


def by_hand():
    """Return a soma (20 µm along y), an axon, a basal and an apical dendrite with two branches."""
    return cell(
        (1, 1, 0, 0, 0, 5, -1),
        (2, 1, 0, 20, 0, 5, 1),
        (3, 2, 0, -1, 0, 1, 1),
        (4, 2, 0, -31, 0, 1, 3),
        (5, 4, 0, 21, 0, 1, 2),
        (6, 4, 0, 61, 0, 1, 5),
        (7, 4, 30, 61, 0, 1, 6),
        (8, 4, -50, 61, 0, 1, 6),
        (9, 7, 5, 20, 0, 1, 2),
        (10, 7, 15, 20, 0, 1, 9),
    )


def names():
    path = FOLDER / "index.csv"
    if not path.is_file():
        reason = f"no morphologies in {FOLDER}; set CLHINES_MORPHOLOGIES to their folder"
        return [pytest.param("none", marks=pytest.mark.skip(reason=reason))]
    rows = [row["file"] for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())]
    return rows[::6]


def test_regions_by_hand():
    cable = discretise(by_hand(), max_length=10)
    types = {word: np.unique(cable.type[cable.nodes(word)]).tolist() for word in ("axon", "apical")}
    assert types == {"axon": [2], "apical": [4]}
    assert cable.nodes("apic").tolist() == cable.nodes("apical").tolist()
    assert len(cable.nodes("basal")) == len(cable.nodes("dend")) == 0
    parts = [cable.nodes(word) for word in ("soma", "axon", "apical")]
    parts.append(np.flatnonzero((cable.type == 7) & (cable.area > 0)))
    assert np.sort(np.concatenate(parts)).tolist() == cable.nodes("all").tolist()
    others = np.setdiff1d(cable.nodes("all"), cable.nodes("soma"))
    assert cable.nodes("dendrites").tolist() == others.tolist()
    y = cable.xyz[:, 1]
    assert (y[cable.nodes("axon")] < 0).all() and (y[cable.nodes("apical")] > 20).all()
    assert (cable.area[cable.nodes()] > 0).all()
    with pytest.raises(InputError, match="at='tuft'; expected soma, dendrites, all, axon"):
        cable.nodes("tuft")


def test_distances_by_hand():
    """Compare with straight paths along the axes from the middle of the soma, y = 10."""
    cable = discretise(by_hand(), max_length=10)
    x, y = cable.xyz[:, 0], cable.xyz[:, 1]
    along = np.where(y > 20.5, y - 10 + np.abs(x), np.where(x > 0, 10 + x, np.abs(y - 10)))
    np.testing.assert_allclose(cable.distance, along, atol=1e-5)  # points are float32
    assert cable.distance[cable.soma] == 0


def test_nodes_at_places():
    cable = discretise(by_hand(), nseg=np.array([3, 4, 2, 1, 5, 2]))
    first, sections = cable.first_node, cable.sections
    for s, nseg in enumerate(cable.nseg.tolist()):
        for x in (0.001, 0.3, 0.5, 0.74, 0.999):
            assert cable.node(s, x) == first[s] + int(x * nseg)
        above = cable.parent[first[s]]
        assert cable.node(s, 0) == (above if above >= 0 else first[s])
        last = first[s] + nseg - 1
        children = np.flatnonzero((sections.parent == s) & (sections.parent_x == 1))
        if len(children):  # the junction at which the children begin
            assert cable.parent[first[children]].tolist() == [cable.node(s, 1)] * len(children)
            assert cable.area[cable.node(s, 1)] == 0
        else:
            assert cable.node(s, 1) == last
    assert cable.node(0, 0.5) == cable.soma
    several = cable.node([1, 2], 0.3)
    assert several.tolist() == [cable.node(1, 0.3), cable.node(2, 0.3)]
    for place, text in (
        ((6, 0.5), r"section\[0\]: there is no section 6; expected 0 to 5"),
        ((0, 1.5), "x is 1.5; expected 0 to 1"),
        ((0, np.nan), r"x\[0\] is nan"),
        (([0, 1], [0.1, 0.2, 0.3]), "x has shape"),
    ):
        with pytest.raises(InputError, match=text):
            cable.node(*place)


@pytest.mark.parametrize("k", range(3))
def test_one_line(k):
    cable = discretise(sample_cells()[k])
    text = str(cable)
    assert len(text.splitlines()) == 1 and len(text) <= 160
    assert f"{cable.num_nodes} nodes" in text and f"soma {cable.sections.soma.sum()}" in text
    per_section = np.linspace(1, 2, cable.sections.num_sections)
    assert "cm 1 to 2 µF/cm²" in str(discretise(sample_cells()[k], cm=per_section))


def test_equal_values_per_section_change_no_bit():
    for morphology in sample_cells()[:3]:
        one = discretise(morphology, Ra=123.0, cm=0.7)
        n = one.sections.num_sections
        other = discretise(morphology, Ra=np.full(n, 123.0), cm=np.full(n, 0.7))
        assert one.nseg.tolist() == other.nseg.tolist()
        for name in ("area", "g_axial", "capacitance", "g_total"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_values_per_section_that_cannot_be():
    n = sections_of(by_hand()).num_sections
    for parameters, text in (
        ({"Ra": np.ones(n + 1)}, rf"Ra has shape \({n + 1},\); expected a number or \({n},\)"),
        ({"cm": np.arange(n)}, "cm of section 0 is 0, expected a positive number"),
        ({"cm": [np.nan] * n}, r"cm\[0\] is nan"),
        ({"Ra": -1}, "Ra is -1, expected a positive number"),
        ({"Ra": "low"}, "Ra is 'low', expected a positive number"),
    ):
        with pytest.raises(InputError, match=text):
            discretise(by_hand(), **parameters)


def compare_with_neuron(morphology):
    """Compare d_lambda segments, resistances, distances, places and impedances at 100 Hz."""
    from neuron_cells import (
        d_lambda_nseg,
        h,
        input_impedance,
        neuron_sections,
        our_impedance,
        set_segments,
    )

    rng = np.random.default_rng(3)
    n = sections_of(morphology).num_sections
    cable = discretise(morphology, Ra=rng.uniform(50, 300, n), cm=rng.uniform(0.5, 2, n))
    sections = neuron_sections(cable)
    assert cable.nseg.tolist() == [d_lambda_nseg(section) for section in sections]
    segments = set_segments(sections, cable.nseg, g=1e-4)
    node = np.array([cable.node(s, seg.x) for s in range(n) for seg in sections[s]])
    joined = cable.parent[node] >= 0
    resistance = np.array([s.ri() for s in segments])
    np.testing.assert_allclose(1 / cable.g_axial[node[joined]], resistance[joined], rtol=1e-12)
    capacitance = [1e-5 * s.cm * s.area() for s in segments]
    np.testing.assert_allclose(cable.capacitance[node], capacitance, rtol=1e-12)
    at = segments[int(np.flatnonzero(node == cable.soma)[0])]
    distances = [h.distance(at, s) for s in segments]  # about 1000 segments on the way
    np.testing.assert_allclose(cable.distance[node], distances, rtol=1e-10, atol=1e-9)
    for s in rng.integers(0, n, 20).tolist():  # junctions, too
        for x in (0.0, 1.0):
            if cable.area[cable.node(s, x)] == 0:
                theirs = h.distance(at, sections[s](x))
                np.testing.assert_allclose(cable.distance[cable.node(s, x)], theirs, rtol=1e-10)
    ours, theirs = our_impedance(cable, 1e-4, 100), input_impedance(at, 100)
    assert abs(ours - theirs) <= 1e-9 * theirs


@pytest.mark.neuron
@pytest.mark.parametrize("k", range(3))
def test_sample_cells_against_neuron(k):
    pytest.importorskip("scipy")
    compare_with_neuron(sample_cells()[k])


@pytest.mark.neuron
@pytest.mark.parametrize("name", names())
def test_real_cells_against_neuron(name):
    pytest.importorskip("scipy")
    compare_with_neuron(read_swc(FOLDER / "good" / name))


def test_the_matrix_of_two_resistivities_by_hand():
    """Compare a 20 µm soma and a 101 µm dendrite, one segment each, by hand."""
    rows = [(1, 1, 0, 0, 0, 10, -1), (2, 1, 0, 20, 0, 10, 1), (3, 3, 0, 21, 0, 1, 2)]
    morphology = cell(*rows, (4, 3, 0, 121, 0, 1, 3))
    cable = discretise(
        morphology, Ra=np.array([100.0, 200.0]), cm=np.array([1.0, 2.0]), nseg=[1, 1]
    )
    first = cable.first_node
    between = 0.01 * (100 * 10 / (np.pi * 10**2)), 0.01 * (200 * 50.5 / np.pi)  # MΩ
    junction = cable.parent[first[1]]
    np.testing.assert_allclose(1 / cable.g_axial[[junction, first[1]]], between, rtol=1e-12)
    areas = 2 * np.pi * 10 * 20, 2 * np.pi * 1 * 101
    expected = 1e-5 * np.array([1.0, 2.0]) * areas
    np.testing.assert_allclose(cable.capacitance[first], expected, rtol=1e-12)
    system = cable.system(0.025)
    assert dense(cable, system)[first[1], junction] == -cable.g_axial[first[1]]
