"""Potentials of electrodes and segments, by quadrature, limits and symmetries."""

import numpy as np
import pytest

from clhines import InputError
from clhines.fields import (
    Geometry,
    Medium,
    disk_potential,
    grid_potential,
    line_matrix,
    point_matrix,
    point_potential,
)

pytestmark = pytest.mark.core

MEDIA = [Medium(0.3), Medium([0.2, 0.5, 1.1]), Medium(0.3, 400.0)]


def lines(count=40, seed=1):
    """Return geometry with lengths from 1 to 60 µm, and one segment without length."""
    rng = np.random.default_rng(seed)
    begin = rng.uniform(-150, 150, (count, 3))
    way = rng.normal(size=(count, 3))
    way *= rng.uniform(1, 60, (count, 1)) / np.linalg.norm(way, axis=1, keepdims=True)
    way[0] = 0
    return Geometry(begin, begin + way, np.full(count, 0.5))


def quadrature(at, electrodes, medium, points=4000):
    """Return segments' mean potentials from point sources at the middles of equal parts."""
    share = (np.arange(points) + 0.5) / points
    means = np.empty((len(electrodes), len(at)))
    for j in range(len(at)):
        places = at.begin[j] + share[:, None] * (at.end[j] - at.begin[j])
        means[:, j] = point_matrix(places, electrodes, medium).mean(axis=1)
    return means


@pytest.mark.parametrize("medium", MEDIA)
def test_line_sources_are_means_of_points(medium):
    """Compare electrodes beside, before and on the line through a segment with quadrature."""
    at = lines()
    on_line = at.begin[5] - 1.5 * (at.end[5] - at.begin[5])
    beyond = at.end[7] + 0.3 * (at.end[7] - at.begin[7])
    beside = np.random.default_rng(2).uniform(160, 300, (4, 3))
    electrodes = np.vstack([on_line, beyond, beside])
    ours, want = line_matrix(at, electrodes, medium), quadrature(at, electrodes, medium)
    # the error of midpoints is length² / (24 points²) times the second derivative, 2/distance³
    np.testing.assert_allclose(ours, want, 1e-6)


def test_the_potential_of_a_line_is_lfpykits():
    """Compare with Holt and Koch's formula: the difference of two logarithms over the length."""
    at, electrode = Geometry([[0, 0, 0]], [[0, 0, 30.0]], [1.0]), [[4.0, 3.0, -10.0]]
    r, h = 5.0, -40.0
    low = h + 30
    log = np.log((np.hypot(h, r) - h) / (np.hypot(low, r) - low))
    ours = line_matrix(at, electrode, Medium(0.3))[0, 0]
    assert ours == pytest.approx(log / (4 * np.pi * 0.3 * 30.0), rel=1e-14)
    lfpykit = pytest.importorskip("lfpykit", reason="lfpykit is not installed")
    geometry = lfpykit.CellGeometry(
        x=np.array([[0.0, 0.0]]), y=np.array([[0.0, 0.0]]), z=np.array([[0.0, 30.0]]),
        d=np.array([2.0]),
    )  # fmt: skip
    probe = lfpykit.LineSourcePotential(geometry, *(np.array([x]) for x in electrode[0]), 0.3)
    assert ours == pytest.approx(probe.get_transformation_matrix()[0, 0], rel=1e-12)


@pytest.mark.parametrize("medium", MEDIA)
def test_points_obey_laplaces_equation(medium):
    """Also for an anisotropic medium; no current flows through the surface."""
    source, h = np.array([10.0, -20.0, 300.0]), 0.1
    at = np.array([60.0, 35.0, 350.0])
    around = at + h * np.vstack([np.zeros(3), np.eye(3), -np.eye(3)])
    v = point_potential(around, source, medium)
    second = (v[1:4] + v[4:] - 2 * v[0]) / h**2
    assert abs((medium.sigma * second).sum()) < 1e-4 * np.abs(medium.sigma * second).max()
    if medium.surface is not None:
        up = [[60.0, 35.0, 400.0 - z] for z in (0.0, 0.01)]
        low = point_potential(up, source, medium)
        assert abs(low[0] - low[1]) < 1e-6 * low[0]  # no current through it


def test_media_reduce_to_simpler_ones():
    at, electrode = lines(seed=3), [[200.0, 100.0, 50.0]]
    plain = line_matrix(at, electrode, Medium(0.3))
    np.testing.assert_array_equal(plain, line_matrix(at, electrode))
    np.testing.assert_allclose(plain, line_matrix(at, electrode, Medium([0.3] * 3)), 1e-12)
    on_surface = [[200.0, 100.0, 400.0]]
    half = line_matrix(at, on_surface, Medium(0.3, 400.0))
    np.testing.assert_allclose(half, 2 * line_matrix(at, on_surface, Medium(0.3)), 1e-12)


@pytest.mark.parametrize("medium", [MEDIA[0], MEDIA[2], Medium([0.2, 0.2, 0.6])])
def test_disks_have_one_potential_and_look_like_points_from_afar(medium):
    centre, radius = np.array([5.0, 6.0, 7.0]), 40.0
    on = centre + radius * np.array([[0, 0, 0], [0.5, 0, 0], [0, -0.99, 0], [0.6, 0.6, 0]])
    v = disk_potential(on, centre, radius, medium=medium)
    potential = 1e3 / (8 * radius * np.sqrt(medium.sigma[0] * medium.sigma[2]))
    if medium.surface is None:
        np.testing.assert_allclose(v, potential, 1e-9)
    far = centre + np.array([[3e4, 0, 0], [0, 0, -3e4], [1e4, 2e4, -2e4]])
    point = point_potential(far, centre, medium)
    np.testing.assert_allclose(disk_potential(far, centre, radius, medium=medium), point, 1e-5)
    # the disk's charge density is the projection of a sphere's
    rng, count = np.random.default_rng(1), 200_000
    share = rng.uniform(size=(2, count))
    rho, phi = radius * np.sqrt(1 - share[0] ** 2), 2 * np.pi * share[1]
    sources = centre + np.stack([rho * np.cos(phi), rho * np.sin(phi), 0 * rho], axis=1)
    near = (centre + np.array([30.0, 20.0, -25.0]))[None]
    mean = 1e3 * point_matrix(sources, near, medium).mean()
    assert disk_potential(near, centre, radius, medium=medium)[0] == pytest.approx(mean, rel=0.01)


def test_disks_turn_with_their_normal():
    normal = np.array([1.0, 2.0, -2.0]) / 3
    across = np.cross(normal, [0, 0, 1])
    across /= np.linalg.norm(across)
    turned = disk_potential([30 * normal + 20 * across], [0, 0, 0], 25.0, normal)
    straight = disk_potential([[20.0, 0, 30.0]], [0, 0, 0], 25.0)
    huge = disk_potential([30 * normal + 20 * across], [0, 0, 0], 25.0, 1e200 * normal)
    np.testing.assert_allclose(huge, turned, 1e-12)
    assert turned[0] == pytest.approx(straight[0], rel=1e-12)


def test_grids_are_linear_between_their_points():
    axes = np.array([0.0, 1.0, 5.0]), np.array([-2.0, 3.0]), np.linspace(0, 1, 4)
    x, y, z = np.meshgrid(*axes, indexing="ij")
    values = 3 + x - 2 * y + 0.5 * z + x * y * z
    at = np.array([[0.3, 1.0, 0.2], [5.0, 3.0, 1.0], [0.0, -2.0, 0.0], [4.0, 0.0, 0.9]])
    ours, (a, b, c) = grid_potential(at, axes, values), at.T
    np.testing.assert_allclose(ours, 3 + a - 2 * b + 0.5 * c + a * b * c, 1e-12)
    scipy = pytest.importorskip("scipy.interpolate", reason="SciPy is not installed")
    rough = np.random.default_rng(1).normal(size=values.shape)
    want = scipy.RegularGridInterpolator(axes, rough)(at)
    np.testing.assert_allclose(grid_potential(at, axes, rough), want, 1e-12, 1e-12)


AT = lines()
INSIDE = (AT.begin[3] + AT.end[3]) / 2 + 0.1


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: line_matrix(AT, [[900.0] * 3, INSIDE]), "electrode 1 is 0.05918 um"),
        (
            lambda: point_potential(AT, INSIDE),
            "of node 3, which has a radius of 0.5 um; expected it",
        ),
        (lambda: disk_potential(AT, INSIDE, 5.0), "disk 0 is"),
        (lambda: point_potential([[0.0, 0, 0]], [0, 0, 0]), "electrode 0 is 0 um from the axis"),
        (lambda: point_potential(AT, [0, np.nan, 0]), "electrode[1] is nan; expected a finite"),
        (lambda: point_potential(AT, [0, 0]), "electrode has shape (2,); expected (3,)"),
        (lambda: line_matrix(AT, [0, 0, 9e3]), "electrodes has shape (3,); expected rows of x"),
        (lambda: line_matrix(AT.begin, [[0, 0, 9e3]]), "at is ndarray; expected Geometry"),
        (lambda: line_matrix(AT, [[0, 0, 9e3]], 0.3), "medium is float; expected a Medium"),
        (lambda: disk_potential(AT, [0, 0, 9e3], 5.0, medium=0.3), "medium is float; expected"),
        (lambda: point_potential(AT, [0, 0, 9e3], 0), "medium is int; expected a Medium"),
        (lambda: line_matrix(AT, [[0, 0, 9.0]], Medium(0.3, 0.0)), "electrode 0 has z = 9 um; exp"),
        (lambda: line_matrix(AT, [[0, 0, 0]], Medium(0.3, 0.0)), "expected at most 0, the surface"),
        (lambda: Medium(0.0), "sigma is 0.0; expected a number above 0 S/m"),
        (lambda: Medium([0.1, 0.2]), "expected a number above 0 S/m, or 3 of them"),
        (lambda: disk_potential(AT, [0, 0, 900.0], 0.0), "radius is 0 um"),
        (
            lambda: disk_potential(AT, [0, 0, 97], 5, [1, 0, 0], Medium(surface=100)),
            "the upper edge of disk 0 has z = 102 um; expected at most 100, the surface",
        ),
        (
            lambda: disk_potential(AT, [0, 0, 900.0], 9.0, medium=Medium([0.1, 0.2, 0.3])),
            "expected an axis, and equal conductivities in the plane",
        ),
        (lambda: grid_potential(AT, [[0, 1]] * 2, 1.0), "axes has 2 arrays; expected 3"),
        (lambda: grid_potential(AT, None, 1.0), "axes has 1 arrays; expected 3"),
        (lambda: grid_potential(AT, [[0, 1]] * 3, 1.0), "place 0 has x = "),
        (lambda: grid_potential([[0, 0, 0]], [[0, 1]] * 3, [1.0]), "values has shape (1,); exp"),
        (lambda: grid_potential(AT, [[1, 0]] * 3, 1.0), "x of axes: expected two coordinates"),
    ],
)
def test_refusals(call, said):
    with pytest.raises(InputError) as error:
        call()
    assert said in str(error.value) and "\n" not in str(error.value)
