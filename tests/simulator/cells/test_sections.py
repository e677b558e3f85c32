"""Sections of a morphology: junctions, somata, coincident samples and radii."""

import numpy as np
import pytest
from made_cells import assert_sound, cell, dense, straight

from bench.cells import ring_cell
from clhines.core.errors import CableError
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cells.morphology import Morphology
from clhines.simulator.cells.sections import sections_of

pytestmark = pytest.mark.core


def shuffled(morphology, seed):
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


def test_soma_of_one_sample():
    cable = discretise(
        cell((1, 1, 1, 2, 3, 8, -1), (2, 3, 9, 2, 3, 1, 1), (3, 3, 19, 2, 3, 1, 2)), max_length=100
    )
    np.testing.assert_allclose(cable.area, [4 * np.pi * 64, 2 * np.pi * 10], rtol=1e-6)
    assert cable.xyz[0].tolist() == [1, 2, 3]
    assert cable.sections.has_soma
    np.testing.assert_allclose(1 / cable.g_axial[1], 5 / np.pi, rtol=1e-6)  # 9 to 14 µm


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
    """Both sections begin at the root, where the neurites begin with their own first samples."""
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
    assert cable.nseg.tolist() == [3, 10, 5, 5]  # the first two include the way inside the soma
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
        (6, 1, 41, 0, 0, 1, 5),  # soma type, but outside the soma
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


def test_samples_at_one_place_are_kept():
    """Two samples at one point add a ring of membrane, as in NEURON."""
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
        (3, 3, 10, 0, 0, 1, 2),  # branches at the same point as its parent
        (4, 3, 20, 0, 0, 1, 3),
        (5, 3, 10, 10, 0, 1, 3),
        (6, 3, 10, -10, 0, 1, 2),
        (7, 3, 10, 0, 0, 1, 2),  # a tip at its own begin
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
