"""Cable: compartments and the matrix of a step, against closed forms."""

import csv
import itertools

import numpy as np
import pytest
from made_cells import assert_sound, cell, dense, straight
from processes import output_of
from real_cells import FOLDER, needs_folder

from clhines.core.errors import CableError, InputError, MorphologyError
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cells.sections import Sections, sections_of
from clhines.simulator.cells.swc import read_swc
from clhines.simulator.cells.synthetic import sample_cells

pytestmark = pytest.mark.core


def names(table):
    path = FOLDER / table
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [row["file"] for row in csv.DictReader(lines)]


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
    integral = 6 / (np.pi * 3.25 * 1.75)  # from (y, r) = (3, 3.25) to (9, 1.75)
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
    between = (1 / cable.g_axial[1:]).sum()  # misses half a segment at each end
    assert 0 < resistance - between < 1.001 * length / 1000 * 0.01 * 100 / (np.pi * 0.1**2)


def test_steady_state_converges_to_the_cosh_of_cable_theory():
    length, radius, ra, g, current = 1000.0, 0.5, 120.0, 2e-4, 0.05
    lam = np.sqrt(radius * 1e-4 / (2 * ra * g)) * 1e4  # µm
    r_inf = 0.01 * ra * lam / (np.pi * radius**2)  # MΩ, half an infinite cable
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
        assert 8 < coarse / fine < 10  # second order: step/3, error/9


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
        assert cable.parent[soma] == soma // 2  # at the soma's middle


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


@pytest.mark.parametrize("places", [1, 2])
def test_cell_without_length(places):
    rows = [(1, 3, 0, 0, 0, 1, -1), (2, 3, 0, 0, 0, 1, 1)][:places]
    with pytest.raises(
        CableError, match=r"^test\.swc:1: sample 1 and the samples joined to it have no length"
    ):
        sections_of(cell(*rows))


def test_place_beyond_single_precision_is_refused():
    rows = [(1, 1, 0, 0, 0, 5, -1), (2, 3, 1e39, 0, 0, 1, 1)]
    with pytest.raises(CableError, match=r"test\.swc:2: sample 2 is at \[1e\+39, 0\.0, 0\.0\]"):
        sections_of(cell(*rows))


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
        "import clhines.simulator.cells.cable"
    )
    output_of("-c", code)


@needs_folder
@pytest.mark.parametrize("name", names("index.csv"))
def test_good_cells(name):
    cable = discretise(read_swc(FOLDER / "good" / name))
    assert_sound(cable)
    has_soma = name not in ("Gad1-F-600000.CNG.swc", "EBT7R.CNG.swc")
    assert cable.sections.has_soma == has_soma
    assert_sound(discretise(cable.sections, max_length=cable.sections.length.sum() / 1000))


# The bad files that are trees, and words of their warnings (None: no warning).
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
        (np.ma.masked_less(v, 0), 0.0, r"v has \d+ masked values"),
    ):
        with pytest.raises(InputError, match=words):
            step.rhs(voltages, current)
    with pytest.raises(InputError, match="g_pas has dtype <U1; expected real numbers"):
        cable.system(0.025, g_pas="a")
