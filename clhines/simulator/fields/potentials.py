"""Potentials of electrodes and segments in a volume conductor.

An infinite conductor with conductivities sx, sy, sz along x, y and z becomes a homogeneous one of
conductivity 1 if each axis is divided by the root of its conductivity. There, the potential of a
point source is ``I/(4 pi sqrt(sx sy sz) |x|)``. A plane surface above the tissue, which insulates,
adds an image of each source.

Sources are points, or lines with constant current per length; a line's potential is the mean over
its points (Holt and Koch 1999, J Comput Neurosci 6:169), as in lfpykit. By reciprocity this is also
the mean potential along a segment due to 1 nA from a point electrode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.checks import as_number, as_real
from clhines.core.errors import InputError
from clhines.simulator.fields.geometry import Geometry

_UA = 1e3  # nA in 1 µA
_BLOCK = 1 << 21  # (electrode, segment) pairs at once


@dataclass(frozen=True, eq=False)
class Medium:
    """A volume conductor.

    Parameters
    ----------
    sigma : float or (3,) float, S/m
        Conductivity, or conductivities along x, y and z.
    surface : float, µm, optional
        z of an insulating plane that bounds the conductor; electrodes and cells lie below or in it.
    """

    sigma: float | np.ndarray = 0.3
    surface: float | None = None

    def __post_init__(self) -> None:
        sigma = np.atleast_1d(as_real("sigma", self.sigma, "S/m"))
        if sigma.shape not in ((1,), (3,)) or (sigma <= 0).any():
            raise InputError(f"sigma is {self.sigma}; expected a number above 0 S/m, or 3 of them")
        object.__setattr__(self, "sigma", np.broadcast_to(sigma, 3))
        if self.surface is not None:
            object.__setattr__(self, "surface", as_number("surface", self.surface, "um"))

    @property
    def scale(self) -> np.ndarray:
        """Factors by which to scale lengths along x, y, z, (3,), so that the conductivity is 1."""
        return 1 / np.sqrt(np.asarray(self.sigma))

    @property
    def factor(self) -> float:
        """Potential from 1 nA at distance 1 in the scaled medium, mV."""
        return float(1 / (4 * np.pi * np.sqrt(np.prod(self.sigma))))

    def below(self, name: str, positions: np.ndarray) -> np.ndarray:
        """Return positions, (k, 3), or raise InputError if one is above the surface."""
        high = positions[:, 2] > (np.inf if self.surface is None else self.surface)
        if high.any():
            k = int(np.argmax(high))
            z, most = positions[k, 2], self.surface
            raise InputError(f"{name} {k} has z = {z:g} um; expected at most {most:g}, the surface")
        return positions

    def mirrored(self, positions: np.ndarray) -> np.ndarray:
        if self.surface is None:
            raise InputError("surface is None; expected a number")
        return np.stack([*positions.T[:2], 2 * self.surface - positions[:, 2]], axis=1)


def point_potential(
    at: Geometry | ArrayLike, electrode: ArrayLike, medium: Medium | None = None
) -> np.ndarray:
    """Return the potential of a point electrode that delivers 1 µA.

    Parameters
    ----------
    at : Geometry, or (n, 3) float, µm
        Centres of segments, or points.
    electrode : (3,) float, µm
    medium : Medium, optional
        Default: infinite and homogeneous, 0.3 S/m.

    Returns
    -------
    (n,) float64, mV
    """
    return _UA * point_matrix(at, _position("electrode", electrode), medium)[0]


def disk_potential(
    at: Geometry | ArrayLike,
    centre: ArrayLike,
    radius: float,
    normal: ArrayLike = (0.0, 0.0, 1.0),
    medium: Medium | None = None,
) -> np.ndarray:
    """Return the potential of an equipotential disk that delivers 1 µA.

    The current leaves from both sides; if the disk lies in an insulating surface, from one side
    (Newman 1966, J Electrochem Soc 113:501; Wiley and Webster 1982, IEEE Trans Biomed Eng 29:381).

    Parameters
    ----------
    at, medium
        As in `point_potential`.
    centre : (3,) float, µm
    radius : float, µm
    normal : (3,) float
        Normal of the disk's plane; conductivities in the plane must be equal.

    Returns
    -------
    (n,) float64, mV
    """
    medium, places = _as_medium(medium), _centres(at)
    centres = medium.below("disk", _position("centre", centre))
    radius = as_number("radius", radius, "um")
    axis = _position("normal", normal)[0]
    axis = axis / (np.abs(axis).max() or 1)
    length = float(np.linalg.norm(axis))
    if radius <= 0 or length == 0:
        raise InputError(f"radius is {radius:g} um, normal {axis.tolist()}; expected more than 0")
    axis = axis / length
    rise = np.array([0, 0, radius * np.round(np.hypot(*axis[:2]), 12)])
    medium.below("the upper edge of disk", centres + rise)
    along, across = _conductivities(medium, axis)

    def of(middle: np.ndarray, axis: np.ndarray) -> np.ndarray:
        apart = medium.below("place", places) - middle
        z = apart @ axis
        rho = np.sqrt(np.maximum((apart**2).sum(1) - z**2, 0))
        if isinstance(at, Geometry):
            near = np.hypot(np.maximum(rho - radius, 0), z)
            _check_apart("disk", near[None], at.radius)
        z = z * np.sqrt(along / across)
        sides = np.hypot(rho - radius, z) + np.hypot(rho + radius, z)
        on_disk = 1 / (8 * radius * np.sqrt(along * across))
        return on_disk * 2 / np.pi * np.arcsin(np.minimum(2 * radius / sides, 1))

    potential = of(centres[0], axis)
    if medium.surface is not None:
        potential += of(medium.mirrored(centres)[0], axis * [1, 1, -1])
    return _UA * potential


def _conductivities(medium: Medium, axis: np.ndarray) -> tuple[float, float]:
    """Return the conductivities in the plane of a disk and along its normal `axis`."""
    sigma = np.asarray(medium.sigma)
    across = sigma @ axis**2  # the normal must be a principal axis
    within = np.delete(sigma, int(np.argmax(np.abs(axis))))
    if (sigma != sigma[0]).any() and (np.abs(axis).max() < 1 or within[0] != within[1]):
        raise InputError(
            f"normal is {axis.tolist()}, sigma {sigma.tolist()}; expected an axis, and equal "
            "conductivities in the plane of the disk"
        )
    return float(within[0]), float(across)


def grid_potential(
    at: Geometry | ArrayLike, axes: Sequence[ArrayLike], values: ArrayLike
) -> np.ndarray:
    """Interpolate potentials on a grid, such as a finite-element model's.

    Parameters
    ----------
    at : Geometry, or (n, 3) float, µm
        Inside the grid.
    axes : three arrays, µm
        Ascending coordinates of the grid along x, y and z.
    values : (len(x), len(y), len(z)) float, mV

    Returns
    -------
    (n,) float64, mV
        Trilinear between grid points.
    """
    places, grid = _centres(at), as_real("values", values, "mV")
    axes = list(axes) if np.iterable(axes) else [axes]
    if len(axes) != 3:
        raise InputError(f"axes has {len(axes)} arrays; expected 3")
    low, share = np.zeros(places.shape, np.int64), np.zeros(places.shape)
    for k, (name, axis) in enumerate(zip("xyz", axes, strict=True)):
        knots = as_real(name, axis, "um")
        if knots.ndim != 1 or len(knots) < 2 or (np.diff(knots) <= 0).any():
            raise InputError(f"{name} of axes: expected two coordinates or more, ascending")
        outside = (places[:, k] < knots[0]) | (places[:, k] > knots[-1])
        if outside.any():
            j = int(np.argmax(outside))
            raise InputError(
                f"place {j} has {name} = {places[j, k]:g} um; expected {knots[0]:g} to "
                f"{knots[-1]:g}, the grid"
            )
        low[:, k] = np.minimum(np.searchsorted(knots, places[:, k], "right") - 1, len(knots) - 2)
        share[:, k] = (places[:, k] - knots[low[:, k]]) / np.diff(knots)[low[:, k]]
    shape = tuple(np.size(axis) for axis in axes)
    if grid.shape != shape:
        raise InputError(f"values has shape {grid.shape}; expected {shape}, of axes")
    potential = np.zeros(len(places))
    for corner in np.ndindex(2, 2, 2):
        weight = np.where(corner, share, 1 - share).prod(axis=1)
        potential += weight * grid[tuple((low + corner).T)]
    return potential


def point_matrix(
    at: Geometry | ArrayLike, electrodes: ArrayLike, medium: Medium | None = None
) -> np.ndarray:
    """Return the potentials at electrodes due to 1 nA from the centre of each segment.

    Parameters
    ----------
    at : Geometry, or (n, 3) float, µm
    electrodes : (k, 3) float, µm
    medium : Medium, optional

    Returns
    -------
    (k, n) float64, mV
    """

    def mean(electrode: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        return 1 / np.linalg.norm((begin + end) / 2 - electrode, axis=-1)

    return _matrix(at, electrodes, medium, mean)


def line_matrix(at: Geometry, electrodes: ArrayLike, medium: Medium | None = None) -> np.ndarray:
    """Return the potentials at electrodes due to 1 nA along each segment; see `point_matrix`."""
    if not isinstance(at, Geometry):
        raise InputError(f"at is {type(at).__name__}; expected Geometry")
    return _matrix(at, electrodes, medium, _along)


def _along(electrode: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the mean of 1/distance from an electrode over each line's points.

    The electrode must not be on a line.
    """
    way, to = end - begin, electrode - begin
    length = np.linalg.norm(way, axis=-1)
    long = length > 0
    safe = np.where(long, length, 1)
    u = (way * to).sum(-1) / safe
    r = np.linalg.norm(to - (u / safe)[..., None] * way, axis=-1)
    u = np.where(long, np.minimum(u, length - u), -np.linalg.norm(to, axis=-1))  # to the near end
    r = np.where(long, r, 0)
    beside = u >= 0
    r_beside = np.where(beside, r, 1)
    inside = np.arcsinh((length - u) / r_beside) + np.arcsinh(u / r_beside)
    far, near = length - u, -np.where(beside, -1, u)
    ratio = (far + np.hypot(far, r)) / (near + np.hypot(near, r))
    with np.errstate(divide="ignore"):
        return np.where(long, np.where(beside, inside, np.log(ratio)) / safe, 1 / near)


def _matrix(
    at: Geometry | ArrayLike,
    electrodes: ArrayLike,
    medium: Medium | None,
    mean: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Return the potentials at electrodes due to 1 nA from each segment, (k, n) float64, mV.

    `mean` returns the mean of 1/distance between electrodes and the points of segments.
    """
    medium, places = _as_medium(medium), _centres(at)
    begin, end = (at.begin, at.end) if isinstance(at, Geometry) else (places, places)
    radius = at.radius if isinstance(at, Geometry) else np.zeros(len(places))
    where = medium.below("electrode", _positions("electrodes", electrodes))
    for ends in (begin, end):
        medium.below("place", ends)
    matrix, scale = np.empty((len(where), len(places))), medium.scale
    rows = max(1, _BLOCK // max(1, len(places)))
    for first in range(0, len(where), rows):
        block = slice(first, first + rows)
        one = where[block, None]
        _check_apart("electrode", _distance(one, begin, end), radius, first)
        matrix[block] = mean(one * scale, begin * scale, end * scale)
        if medium.surface is not None:
            image = medium.mirrored(where[block])[:, None]
            matrix[block] += mean(image * scale, begin * scale, end * scale)
    return medium.factor * matrix


def _distance(electrode: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    way, to = end - begin, electrode - begin
    square = (way**2).sum(-1)
    share = np.divide((way * to).sum(-1), square, out=np.zeros(to.shape[:2]), where=square > 0)
    nearest = begin + np.clip(share, 0, 1)[..., None] * way
    distance: np.ndarray = np.linalg.norm(electrode - nearest, axis=-1)
    return distance


def _check_apart(what: str, distance: np.ndarray, radius: np.ndarray, first: int = 0) -> None:
    """Raise InputError if an electrode is not outside all segments.

    ``distance[k, j]``, µm, is from electrode `first` + k, `what` in messages, to node j's axis.
    """
    wrong = (distance < radius) | (distance == 0)
    if wrong.any():
        k, j = np.argwhere(wrong)[0]
        raise InputError(
            f"{what} {first + k} is {distance[k, j]:.4g} um from the axis of node {j}, which has a "
            f"radius of {radius[j]:.4g} um; expected it outside"
        )


def _as_medium(medium: object) -> Medium:
    if medium is not None and not isinstance(medium, Medium):
        raise InputError(f"medium is {type(medium).__name__}; expected a Medium")
    return medium or Medium()


def _centres(at: Geometry | ArrayLike) -> np.ndarray:
    return at.centre if isinstance(at, Geometry) else _positions("at", at)


def _position(name: str, values: ArrayLike) -> np.ndarray:
    array = as_real(name, values, "um")
    if array.shape != (3,):
        raise InputError(f"{name} has shape {array.shape}; expected (3,): x, y and z")
    return array[None]


def _positions(name: str, values: ArrayLike) -> np.ndarray:
    array = as_real(name, values, "um")
    if array.ndim != 2 or array.shape[1] != 3:
        raise InputError(f"{name} has shape {array.shape}; expected rows of x, y and z")
    return array
