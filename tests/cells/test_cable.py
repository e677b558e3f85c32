"""Cable: sections, compartments and the matrix of a step, against closed forms."""

import csv
import itertools
import subprocess
import sys

import numpy as np
import pytest
from real_cells import FOLDER, needs_folder

from clhines.cells.cable import discretise
from clhines.cells.morphology import Morphology
from clhines.cells.sections import Sections, sections_of
from clhines.cells.swc import read_swc
from clhines.cells.synthetic import ring_cell, sample_cells
from clhines.errors import CableError, InputError, MorphologyError


def names(table):
    path = FOLDER / table
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [row["file"] for row in csv.DictReader(lines)]


def cell(*rows, name="test.swc"):
    """A morphology from SWC rows: id, type, x, y, z, radius, parent."""
    table = np.array(rows, dtype=np.float64)
    ids = table[:, 0].astype(np.int64)
    index = {k: i for i, k in enumerate(ids.tolist())}
    return Morphology(
        parent=np.array([index.get(int(p), -1) for p in table[:, 6]], dtype=np.int64),
        xyz=table[:, 2:5].copy(),
        radius=table[:, 5].copy(),
        type=table[:, 1].astype(np.int64),
        id=ids,
        line=np.arange(1, len(ids) + 1),
        name=name,
    )


def shuffled(morphology, seed):
    """The same cell with its samples in another order."""
    order = np.random.default_rng(seed).permutation(len(morphology.parent))
    place = np.argsort(order)
    parent = morphology.parent[order]
    return Morphology(
        parent=np.where(parent < 0, -1, place[parent]),
        xyz=morphology.xyz[order],
        radius=morphology.radius[order],
        type=morphology.type[order],
        id=morphology.id[order],
        line=morphology.line[order],
        name=morphology.name,
    )


def dense(cable, system):
    a = np.diag(system.d)
    child = np.flatnonzero(cable.parent >= 0)
    a[child, cable.parent[child]] = system.u[child]
    a[cable.parent[child], child] = system.u[child]
    return a


def straight(length, radius, type_=3):
    return cell((1, type_, 0, 0, 0, radius, -1), (2, type_, length, 0, 0, radius, 1))


def assert_sound(cable):
    """What holds for every cable."""
    n = cable.num_nodes
    assert cable.parent.dtype == np.int32
    assert cable.parent[0] == -1
    assert (cable.parent[1:] >= 0).all()
    assert (cable.parent[1:] < np.arange(1, n)).all()
    assert cable.g_axial[0] == 0
    assert np.isfinite(cable.g_axial).all()
    assert (cable.g_axial[1:] > 0).all()
    assert np.isfinite(cable.xyz).all()
    segment = np.zeros(n, dtype=bool)
    for first, nseg in zip(cable.first_node, cable.nseg, strict=True):
        segment[first : first + nseg] = True
    assert (cable.area[segment] > 0).all()
    assert (cable.area[~segment] == 0).all()  # junctions
    children = np.bincount(cable.parent[1:], minlength=n)
    assert (children[~segment] > 0).all()
    assert cable.area[cable.soma] > 0
    system = cable.system(0.025)
    off = np.abs(system.u)
    row = off + np.bincount(cable.parent[1:], weights=off[1:], minlength=n)
    assert (system.d[segment] > row[segment] * (1 - 1e-15)).all()
    np.testing.assert_allclose(system.d[~segment], row[~segment], rtol=1e-14)


# ---------------------------------------------------------------------------- closed forms


@pytest.mark.parametrize("nseg", [1, 2, 3, 10, 101])
def test_cylinder(nseg):
    cable = discretise(straight(200, 1.5), max_length=200 / nseg, Ra=150)
    assert cable.num_nodes == nseg
    np.testing.assert_allclose(cable.area, 2 * np.pi * 1.5 * 200 / nseg, rtol=1e-13)
    # 1 µm of a cylinder of 1 µm² has Ra * 1e4 Ω = 0.01 Ra MΩ
    mega_ohm = 0.01 * 150 * (200 / nseg) / (np.pi * 1.5**2)
    np.testing.assert_allclose(cable.g_axial[1:], 1 / mega_ohm, rtol=1e-13)
    np.testing.assert_allclose(cable.xyz[:, 0], (np.arange(nseg) + 0.5) * 200 / nseg, rtol=1e-13)
    assert_sound(cable)


def test_frustum():
    cable = discretise(cell((1, 3, 0, 0, 0, 4, -1), (2, 3, 0, 12, 0, 1, 1)), max_length=6, Ra=100)
    middle = np.hypot(6, 1.5)
    np.testing.assert_allclose(
        cable.area, [np.pi * (4 + 2.5) * middle, np.pi * (2.5 + 1) * middle], rtol=1e-14
    )
    integral = 6 / (np.pi * 3.25 * 1.75)  # of 1/(pi r²) from y = 3, r = 3.25 to y = 9, r = 1.75
    np.testing.assert_allclose(cable.g_axial[1], 1 / integral, rtol=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_area_and_resistance_do_not_depend_on_the_segments(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    xyz = np.cumsum(rng.normal(size=(n, 3)), axis=0)
    radius = rng.uniform(0.1, 3, n)
    rows = [(i + 1, 3, *xyz[i], radius[i], i or -1) for i in range(n)]
    d = 2 * radius.astype(np.float32).astype(np.float64)
    length = sections_of(cell(*rows)).length[0]
    whole = discretise(cell(*rows), max_length=length)
    assert whole.num_nodes == 1
    for nseg in (2, 3, 7, 64, 1000):
        cable = discretise(cell(*rows), max_length=length / nseg * (1 + 1e-12))
        assert cable.num_nodes == nseg
        np.testing.assert_allclose(cable.area.sum(), whole.area.sum(), rtol=1e-12)
    step = np.diff(sections_of(cell(*rows)).arc)
    resistance = 0.01 * 100 * 4 / np.pi * (step / (d[1:] * d[:-1])).sum()
    between = (1 / cable.g_axial[1:]).sum()  # lacks half a segment at each end
    assert 0 < resistance - between < 1.001 * length / 1000 * 0.01 * 100 / (np.pi * 0.1**2)


def test_steady_state_converges_to_the_cosh_of_cable_theory():
    length, radius, ra, g, current = 1000.0, 0.5, 120.0, 2e-4, 0.05
    lam = np.sqrt(radius * 1e-4 / (2 * ra * g)) * 1e4  # µm
    r_inf = 0.01 * ra * lam / (np.pi * radius**2)  # MΩ, of half an infinite cable
    errors = []
    for nseg in (27, 81, 243):
        cable = discretise(straight(length, radius), max_length=length / nseg * 1.0001, Ra=ra)
        assert cable.num_nodes == nseg
        system = cable.system(1e12, g_pas=g, e_pas=-65)
        into = np.zeros(nseg)
        into[nseg // 2] = current
        v = np.linalg.solve(dense(cable, system), system.rhs(np.full(nseg, -65.0), into))
        away = np.abs(cable.xyz[:, 0] - length / 2)
        exact = current / 2 * r_inf * np.cosh((length / 2 - away) / lam)
        exact = -65 + exact / np.sinh(length / 2 / lam)
        errors.append(np.abs(v - exact).max() / np.abs(exact + 65).max())
    assert errors[-1] < 1e-4
    for coarse, fine in itertools.pairwise(errors):
        assert 8 < coarse / fine < 10  # second order: a third of the step, a ninth of the error


def test_one_compartment_decays():
    cable = discretise(cell((1, 1, 0, 0, 0, 10, -1)), max_length=100, cm=0.8)
    assert cable.num_nodes == 1
    dt, tau = 0.025, 0.8e-6 / 1e-4 * 1e3
    system = cable.system(dt, g_pas=1e-4, e_pas=-65)
    np.testing.assert_allclose(cable.capacitance, 0.8 * 4 * np.pi * 1e-3, rtol=1e-6)
    v = np.array([-40.0])
    for _ in range(100):
        v = system.rhs(v) / system.d
    np.testing.assert_allclose(v, -65 + 25 * (1 + dt / tau) ** -100, rtol=1e-13)
    held = system.rhs(np.array([-65.0]), 0.1) / system.d  # 0.1 nA for dt into C, in nF
    np.testing.assert_allclose(
        held, -65 + 0.1 * dt / cable.capacitance[0] / (1 + dt / tau), rtol=1e-13
    )


def test_rhs_of_several_states():
    cable = discretise(sample_cells()[0])
    system = cable.system(0.1)
    v = np.random.default_rng(0).normal(size=(3, cable.num_nodes))
    into = np.zeros(cable.num_nodes)
    into[cable.soma] = 0.5
    for row, one in zip(system.rhs(v, into), v, strict=True):
        np.testing.assert_array_equal(row, system.rhs(one, into))


# -------------------------------------------------------------------------------- sections

Y_CELL = (
    (1, 3, 0, 0, 0, 1, -1),
    (2, 3, 10, 0, 0, 1, 1),
    (3, 3, 10, 20, 0, 0.5, 2),
    (4, 3, 10, -30, 0, 0.25, 2),
)


def test_junction():
    cable = discretise(cell(*Y_CELL), max_length=100, Ra=100)
    assert cable.parent.tolist() == [-1, 0, 1, 1]
    assert cable.section.tolist() == [0, 0, 1, 2]
    assert cable.area[1] == 0
    assert cable.xyz[1].tolist() == [10, 0, 0]
    resistance = 1 / cable.g_axial[1:]
    # half a cylinder of 10 µm; 10 µm of the cone from r = 1 to 0.5; 15 µm from 1 to 0.25
    integrals = [5 / np.pi, 10 / (np.pi * 0.75), 15 / (np.pi * 0.625)]
    np.testing.assert_allclose(resistance, integrals, rtol=1e-14)
    assert cable.sections.points[2:4].tolist() == [[10, 0, 0, 2], [10, 20, 0, 1]]
    assert_sound(cable)
    system = cable.system(0.025)
    a = dense(cable, system)
    np.testing.assert_array_equal(a, a.T)
    assert (np.linalg.eigvalsh(a) > 0).all()


def test_root_that_branches_is_a_junction():
    cable = discretise(
        cell((1, 3, 0, 0, 0, 1, -1), (2, 3, 10, 0, 0, 1, 1), (3, 3, -10, 0, 0, 1, 1)),
        max_length=100,
    )
    assert cable.parent.tolist() == [-1, 0, 0]
    assert cable.area[0] == 0
    assert cable.soma == 1
    assert cable.sections.parent.tolist() == [-1, 0]
    assert cable.sections.parent_x[1] == 0
    whole = discretise(straight(20, 1), max_length=10)
    series = 1 / (1 / cable.g_axial[1] + 1 / cable.g_axial[2])
    np.testing.assert_allclose(series, whole.g_axial[1], rtol=1e-14)
    assert_sound(cable)


def test_order_of_samples_does_not_matter():
    original = ring_cell(5, 0.6, 4, seed=3, stems=3)
    expected = discretise(original, max_length=15)
    for seed in range(5):
        cable = discretise(shuffled(original, seed), max_length=15)
        assert_sound(cable)
        for name in ("area", "g_axial"):
            np.testing.assert_allclose(
                np.sort(getattr(cable, name)), np.sort(getattr(expected, name)), rtol=1e-12
            )
        np.testing.assert_allclose(cable.xyz[cable.soma], expected.xyz[expected.soma], atol=1e-5)


def test_max_length_gives_the_fewest_segments():
    rows = [(1, 1, 0, 0, 0, 10, -1), (2, 3, 20, 0, 0, 1, 1), (3, 3, 120, 0, 0, 1, 2)]
    for max_length, soma, dendrite in [
        (1000, 1, 1),
        (100, 1, 1),
        (99, 1, 2),
        (19, 3, 6),
        (5, 5, 20),
    ]:
        cable = discretise(cell(*rows), max_length=max_length)
        assert cable.nseg.tolist() == [soma, dendrite]
        assert cable.soma == soma // 2
        assert cable.parent[soma] == soma // 2  # at the middle of the soma


def test_d_lambda_rule():
    for length in (50.0, 500.0, 5000.0):
        lambda_f = 1e5 * np.sqrt(2 / (4 * np.pi * 100 * 150 * 0.7))
        expected = int((length / (0.2 * lambda_f) + 0.9) / 2) * 2 + 1
        cable = discretise(straight(length, 1), d_lambda=0.2, Ra=150, cm=0.7)
        assert cable.nseg.tolist() == [expected]


def test_sections_can_be_used_again():
    sections = sections_of(sample_cells()[1])
    assert isinstance(sections, Sections)
    one, two = discretise(sections, max_length=7), discretise(sample_cells()[1], max_length=7)
    np.testing.assert_array_equal(one.g_axial, two.g_axial)


def test_long_chain():
    n = 50_000
    rows = np.zeros((n, 7))
    rows[:, 0] = np.arange(1, n + 1)
    rows[:, 1] = 3
    rows[:, 2] = np.arange(n)
    rows[:, 5] = 1
    rows[:, 6] = np.arange(n)
    rows[0, 6] = -1
    sections = sections_of(cell(*rows))
    assert sections.num_sections == 1
    assert sections.length[0] == n - 1


# ------------------------------------------------------------------------------------ soma


def test_soma_of_one_sample():
    cable = discretise(
        cell((1, 1, 1, 2, 3, 8, -1), (2, 3, 9, 2, 3, 1, 1), (3, 3, 19, 2, 3, 1, 2)), max_length=100
    )
    np.testing.assert_allclose(cable.area, [4 * np.pi * 64, 2 * np.pi * 10], rtol=1e-6)
    assert cable.xyz[0].tolist() == [1, 2, 3]
    assert cable.sections.has_soma
    np.testing.assert_allclose(1 / cable.g_axial[1], 5 / np.pi, rtol=1e-6)  # from 9 to 14 µm


def test_neurite_of_one_sample_begins_in_the_soma():
    sections = sections_of(cell((1, 1, 0, 0, 0, 8, -1), (2, 3, 20, 0, 0, 1, 1)))
    assert sections.points[3:].tolist() == [[0, 0, 0, 2], [20, 0, 0, 2]]


def three_samples(y1, y2, radii=(5, 5, 5)):
    return cell(
        (1, 1, 0, 0, 0, radii[0], -1),
        (2, 1, 0, y1, 0, radii[1], 1),
        (3, 1, 0, y2, 0, radii[2], 1),
        (4, 3, 5, 0, 0, 1, 1),
        (5, 3, 25, 0, 0, 1, 4),
        (6, 4, -5, 0, 0, 1, 1),
        (7, 4, -25, 0, 0, 1, 6),
    )


def test_soma_of_three_samples_has_no_branches():
    cable = discretise(three_samples(-5.01, 4.99), max_length=100)
    assert cable.num_nodes == 3
    np.testing.assert_allclose(cable.area[0], 4 * np.pi * 25, rtol=1e-6)
    assert cable.sections.points[:3].tolist() == [[-5, 0, 0, 10], [0, 0, 0, 10], [5, 0, 0, 10]]
    assert cable.parent.tolist() == [-1, 0, 0]


@pytest.mark.parametrize(
    ("morphology", "radii"),
    [(three_samples(-3, 5), (5, 5)), (three_samples(-5, 5, (5, 4, 3)), (4, 3))],
)
def test_other_somata_of_three_samples_are_two_sections(morphology, radii):
    """They are joined at the root, and neurites begin there at their own first samples."""
    sections = sections_of(morphology)
    assert sections.parent.tolist() == [-1, 0, 0, 0]
    assert sections.parent_x.tolist() == [0, 0, 0, 0]
    assert sections.soma.tolist() == [True, True, False, False]
    assert sections.points[[1, 3], 3].tolist() == [2 * radii[0], 2 * radii[1]]
    assert sections.points[4:6].tolist() == [[5, 0, 0, 2], [25, 0, 0, 2]]
    cable = discretise(sections, max_length=100)
    assert cable.parent.tolist() == [-1, 0, 0, 0, 0]
    assert cable.area[0] == 0  # the root is a junction
    assert cable.soma == 1
    assert_sound(cable)


def test_stacked_soma_holds_its_neurites_at_its_ends_and_in_the_middle():
    rows = [(i, 1, 0, i, 0, 3 - abs(i - 3), i - 1 or -1) for i in range(1, 6)]
    rows += [(6, 3, 9, 1, 0, 1, 1), (7, 3, 19, 1, 0, 1, 6), (8, 3, 9, 5, 0, 1, 5)]
    rows += [(9, 3, 9, 2, 0, 1, 2), (10, 3, 19, 2, 0, 1, 9)]
    cable = discretise(cell(*rows), max_length=2)
    assert cable.nseg.tolist() == [3, 10, 5, 5]  # the first two have the way inside the soma
    assert cable.sections.parent_x.tolist() == [0, 0, 1, 0.5]
    # A junction, three segments, and a junction at the end.
    assert cable.soma == 2
    assert cable.parent[cable.first_node].tolist() == [0, 0, 4, 2]
    assert cable.sections.points[5].tolist() == [0, 1, 0, 2]
    assert_sound(cable)


def test_soma_samples_at_one_place_are_a_sphere():
    rows = [(1, 1, 0, 0, 0, 3, -1), (2, 1, 0, 0, 0, 4, 1), (3, 3, 9, 0, 0, 1, 2)]
    cable = discretise(cell(*rows), max_length=100)
    np.testing.assert_allclose(cable.area[0], 4 * np.pi * 16, rtol=1e-6)


def test_outlined_soma_is_the_sphere_of_its_area():
    angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    rows = [
        (i + 1, 1, 7 + 6 * np.cos(a), 3 * np.sin(a), 1, 0, i or -1) for i, a in enumerate(angle)
    ]
    rows += [(401, 3, 20, 0, 1, 1, 1), (402, 3, 30, 0, 1, 1, 401)]
    cable = discretise(cell(*rows), max_length=100)
    np.testing.assert_allclose(cable.area[0], 4 * np.pi * 18, rtol=1e-3)  # pi r² = pi * 6 * 3
    np.testing.assert_allclose(cable.xyz[0], [7, 0, 1], atol=1e-5)
    assert cable.parent.tolist() == [-1, 0]


def test_branched_soma_is_kept_as_it_is():
    cable = discretise(
        cell(
            (1, 1, 0, 0, 0, 5, -1),
            (2, 1, 0, 9, 0, 5, 1),
            (3, 1, 9, 9, 0, 4, 2),
            (4, 1, -9, 9, 0, 4, 2),
            (5, 3, 15, 9, 0, 1, 3),
            (6, 3, 25, 9, 0, 1, 5),
        ),
        max_length=100,
    )
    sections = cable.sections
    assert sections.soma.tolist() == [True, True, True, False]
    assert sections.parent.tolist() == [-1, 0, 0, 1]
    assert sections.parent_x.tolist() == [0, 1, 1, 1]
    assert sections.points[-3:].tolist() == [[9, 9, 0, 2], [15, 9, 0, 2], [25, 9, 0, 2]]
    assert cable.soma == 0
    assert_sound(cable)


def test_soma_that_is_not_the_root():
    rows = [
        (1, 3, -30, 0, 0, 1, -1),
        (2, 3, -10, 0, 0, 2, 1),
        (3, 1, 0, 0, 0, 6, 2),
        (4, 3, 10, 0, 0, 1, 3),
        (5, 3, 40, 0, 0, 1, 4),
        (6, 1, 41, 0, 0, 1, 5),  # of type soma, but no part of it
    ]
    sections = sections_of(cell(*rows))
    assert sections.has_soma
    assert sections.parent.tolist() == [-1, 0, 0, 2]
    assert sections.parent_x[1:].tolist() == [0.5, 0.5, 1]
    assert sections.soma.tolist() == [True, False, False, False]
    assert sections.type.tolist() == [1, 3, 3, 1]
    assert sections.points[3:5].tolist() == [[-10, 0, 0, 4], [-30, 0, 0, 2]]
    assert sections.points[5:7].tolist() == [[10, 0, 0, 2], [40, 0, 0, 2]]
    assert sections.points[7:].tolist() == [[40, 0, 0, 2], [41, 0, 0, 2]]


# -------------------------------------------------------------- coincident samples and radii


def test_samples_at_one_place_are_kept():
    """A step of the diameter is a ring of membrane, as in NEURON."""
    rows = [
        (1, 3, 0, 0, 0, 1, -1),
        (2, 3, 10, 0, 0, 1, 1),
        (3, 3, 10, 0, 0, 2, 2),  # a step of the radius
        (4, 3, 20, 0, 0, 2, 3),
        (5, 3, 20, 0, 0, 0.5, 4),  # begins at its own radius
        (6, 3, 30, 0, 0, 0.5, 5),
        (7, 3, 20, 10, 0, 1, 4),
        (8, 3, 30, 0, 0, 0.5, 6),
    ]
    sections = sections_of(cell(*rows))
    assert sections.offsets.tolist() == [0, 4, 8, 10]
    assert sections.points[:, 3].tolist() == [2, 2, 4, 4, 4, 1, 1, 1, 4, 2]
    assert sections.arc.tolist() == [0, 10, 10, 20, 0, 0, 10, 10, 0, 10]
    cable = discretise(cell(*rows), max_length=100)
    assert_sound(cable)
    rings = np.pi * (4 - 1), np.pi * (4 - 0.25)
    np.testing.assert_allclose(cable.area[0], 20 * np.pi + 40 * np.pi + rings[0], rtol=1e-14)
    np.testing.assert_allclose(cable.area[2], 10 * np.pi + rings[1], rtol=1e-14)


def test_section_without_length_is_left_out():
    rows = [
        (1, 3, 0, 0, 0, 1, -1),
        (2, 3, 10, 0, 0, 1, 1),
        (3, 3, 10, 0, 0, 1, 2),  # branches where its parent does
        (4, 3, 20, 0, 0, 1, 3),
        (5, 3, 10, 10, 0, 1, 3),
        (6, 3, 10, -10, 0, 1, 2),
        (7, 3, 10, 0, 0, 1, 2),  # a tip where it begins
    ]
    cable = discretise(cell(*rows), max_length=100)
    assert cable.sections.num_sections == 4
    assert cable.parent.tolist() == [-1, 0, 1, 1, 1]
    assert_sound(cable)


def test_sections_without_length_at_the_root():
    rows = [(1, 3, 0, 0, 0, 1, -1), (2, 3, 0, 0, 0, 1, 1), (3, 3, 0, 0, 0, 1, 1)]
    rows += [(4, 3, 10, 0, 0, 1, 2), (5, 3, -10, 0, 0, 1, 2), (6, 3, 0, 10, 0, 1, 3)]
    sections = sections_of(cell(*rows))
    assert sections.parent.tolist() == [-1, 0, 0]
    assert sections.parent_x[1:].tolist() == [0, 0]
    assert_sound(discretise(cell(*rows)))


def test_step_that_is_lost_in_the_arc():
    rows = [(1, 3, 0, 0, 0, 1, -1), (2, 3, 1000, 0, 0, 1, 1)]
    rows += [(3, 3, 0, 0, 0, 1, 2), (4, 3, 1e-20, 0, 0, 3, 3), (5, 3, 1, 0, 0, 3, 4)]
    cable = discretise(cell(*rows), max_length=10)
    assert_sound(cable)
    ring = np.pi * (9 - 1)
    np.testing.assert_allclose(cable.area.sum(), 2 * np.pi * 2003 + ring, rtol=1e-12)


@pytest.mark.parametrize("parent", [[-1, -1], [1, 0], [-1, 1], [-1, 2], [-2, 0], [0, 0]])
def test_no_tree(parent):
    morphology = straight(10, 1)
    morphology.parent[:] = parent
    with pytest.raises(CableError, match=r"^test\.swc: the samples are not a tree, expected"):
        sections_of(morphology)


def test_soma_too_far_away():
    with pytest.raises(CableError, match=r"sample 1 is at .* expected a soma that"):
        sections_of(cell((1, 1, 1e9, 0, 0, 1, -1)))


@pytest.mark.parametrize("places", [1, 2])
def test_cell_without_length(places):
    rows = [(1, 3, 0, 0, 0, 1, -1), (2, 3, 0, 0, 0, 1, 1)][:places]
    with pytest.raises(
        CableError, match=r"^test\.swc:1: sample 1 and those joined to it have no length"
    ):
        sections_of(cell(*rows))


def test_tip_of_radius_zero_is_a_cone():
    rows = [(1, 3, 0, 0, 0, 3, -1), (2, 3, 4, 0, 0, 0, 1)]
    cable = discretise(cell(*rows), max_length=4)
    np.testing.assert_allclose(cable.area, np.pi * 3 * 5, rtol=1e-14)
    cable = discretise(cell(*rows), max_length=2)
    # 1/(pi r²) from x = 1, r = 9/4 to x = 3, r = 3/4
    np.testing.assert_allclose(1 / cable.g_axial[1], 2 / (np.pi * 9 / 4 * 3 / 4), rtol=1e-14)
    assert_sound(cable)


@pytest.mark.parametrize("radius", [-1.0, 0.0, np.nan, np.inf, 1e-60, 1e39, -1e-60])
@pytest.mark.parametrize("sample", range(1, 7))
def test_bad_radius_is_refused(radius, sample):
    rows = [
        [1, 1, 0, 0, 0, 5, -1],
        [2, 3, 9, 0, 0, 1, 1],
        [3, 3, 20, 0, 0, 1, 2],
        [4, 3, 30, 9, 0, 1, 3],
        [5, 3, 30, -9, 0, 1, 3],
        [6, 4, 0, 20, 0, 1, 1],
    ]
    rows[sample - 1][5] = radius
    if radius == 0 and sample in (4, 5):  # a cone
        assert_sound(discretise(cell(*rows)))
        return
    with pytest.raises(CableError) as caught:
        sections_of(cell(*rows))
    message = str(caught.value)
    assert message.startswith(f"test.swc:{sample}: sample {sample} has radius {radius:g}, expected")
    assert "\n" not in message


def test_two_zeros_in_a_row_are_refused():
    rows = [(1, 3, 0, 0, 0, 3, -1), (2, 3, 4, 0, 0, 0, 1), (3, 3, 8, 0, 0, 0, 2)]
    with pytest.raises(CableError, match=r"test\.swc:2: sample 2 has radius 0, expected"):
        sections_of(cell(*rows))


def test_outline_of_two_samples_or_without_area_is_refused():
    rows = [(1, 1, 0, 0, 0, 0, -1), (2, 1, 4, 0, 0, 0, 1), (3, 1, 8, 0, 0, 0, 2)]
    with pytest.raises(CableError, match="sample 1 has radius 0"):
        sections_of(cell(*rows[:2]))
    with pytest.raises(CableError, match="begins an outline without area"):
        sections_of(cell(*rows))


def test_place_beyond_single_precision_is_refused():
    rows = [(1, 1, 0, 0, 0, 5, -1), (2, 3, 1e39, 0, 0, 1, 1)]
    with pytest.raises(CableError, match=r"test\.swc:2: sample 2 is at \[1e\+39, 0\.0, 0\.0\]"):
        sections_of(cell(*rows))


# ------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize("name", ["max_length", "d_lambda", "Ra", "cm"])
@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, "x"])
def test_arguments_must_be_positive(name, value):
    with pytest.raises(InputError, match=f"^{name} is .*expected a positive number"):
        discretise(straight(10, 1), **{name: value})


def test_too_many_segments():
    expected = r"^test.swc: 1e\+13 segments in a cell, of which 1e\+13 in section 0 of 10 µm; exp"
    with pytest.raises(InputError, match=expected):
        discretise(straight(10, 1), max_length=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dt": 0}, "dt is 0, expected a positive number"),
        ({"dt": 1, "g_pas": -1e-4}, "g_pas is -0.0001, expected 0 or more"),
        ({"dt": 1, "g_pas": np.nan}, "g_pas is nan; expected a finite number"),
        ({"dt": 1, "e_pas": np.zeros(2)}, r"e_pas has shape \(2,\), expected"),
    ],
)
def test_bad_system(arguments, message):
    with pytest.raises(InputError, match=message):
        discretise(straight(10, 1)).system(**arguments)


def test_membrane_of_each_node():
    cable = discretise(straight(100, 1), max_length=10)
    g = np.linspace(0, 1e-3, cable.num_nodes)
    system = cable.system(0.025, g_pas=g, e_pas=-70 + g)
    np.testing.assert_allclose(system.constant, 1e-2 * g * cable.area * (g - 70), rtol=1e-14)


def test_needs_no_opencl():
    code = (
        "import sys; sys.modules['pyopencl'] = None; sys.modules['mako'] = None; "
        "import clhines.cells.cable"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ------------------------------------------------------------------------------ real cells


@needs_folder
@pytest.mark.parametrize("name", names("index.csv"))
def test_good_cells(name):
    cable = discretise(read_swc(FOLDER / "good" / name))
    assert_sound(cable)
    has_soma = name not in ("Gad1-F-600000.CNG.swc", "EBT7R.CNG.swc")
    assert cable.sections.has_soma == has_soma
    assert_sound(discretise(cable.sections, max_length=cable.sections.length.sum() / 1000))


# The bad files that are trees, and what is said of them: None is nothing.
TREES = {
    "HSS_ids_as_floats.swc": None,
    "cr_only_line_ends.swc": None,
    "utf8_bom.swc": None,
    "zero_length_edges.swc": None,
    "negative_radius_C031097B-I4.swc": ":720: sample 699 has radius -0.14, expected",
    "unsorted_ids.swc": ":32: sample 1 has radius 0, expected",
    "zero_radius_inline_comment.swc": ":10: sample 6 has radius 0, expected",
    "all_zero_radius.swc": ":2: sample 1 has radius 0, expected",
}


@needs_folder
@pytest.mark.parametrize("name", names("bad.csv"))
def test_bad_cells(name):
    path = FOLDER / "bad" / name
    try:
        morphology = read_swc(path)
    except MorphologyError:
        assert name not in TREES
        return
    if TREES[name] is None:
        assert_sound(discretise(morphology))
        return
    with pytest.raises(CableError) as caught:
        discretise(morphology)
    assert str(caught.value).startswith(str(path) + TREES[name])


def test_right_hand_sides_of_other_shapes_are_refused():
    cable = discretise(sample_cells()[0])
    step, n = cable.system(0.025), cable.num_nodes
    v = np.full((2, n), -65.0)
    assert step.rhs(v, np.zeros(n)).shape == (2, n)
    assert step.rhs(v, v).shape == (2, n)
    for voltages, current, words in (
        (np.zeros(3), 0.0, r"v has shape \(3,\), expected"),
        (v, np.zeros(3), r"current has shape \(3,\), expected"),
        (v[0], v, r"current has shape \(2, \d+\), expected"),
        ("a", 0.0, "v has dtype <U1; expected real numbers"),
        (v, "a", "current has dtype <U1; expected real numbers"),
        (v, 1j, "current has dtype complex128; expected real numbers"),
        (v, np.inf, "current is inf; expected a finite number"),
        (np.ma.masked_less(v, 0), 0.0, "v is a masked array with masked entries"),
    ):
        with pytest.raises(InputError, match=words):
            step.rhs(voltages, current)
    with pytest.raises(InputError, match="g_pas has dtype <U1; expected real numbers"):
        cable.system(0.025, g_pas="a")
