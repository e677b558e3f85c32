"""Synthetic cells in three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clhines.arrays import starts
from clhines.cells.morphology import Morphology
from clhines.cells.shapes import Seed, generator, grow, number_nodes, whole_count
from clhines.errors import InputError, shown
from clhines.quantities import as_numbers


def ring_cell(
    levels: int,
    branching_probability: float | Sequence[float],
    compartments: int,
    seed: Seed,
    *,
    stems: int = 1,
    branch_lengths: tuple[float, float] = (200.0, 20.0),
    radii: tuple[float, float] = (1.0, 0.25),
    soma_radius: float = 6.3,
    name: str = "ring_cell",
) -> Morphology:
    """Make a cell of the ring-network benchmark (Huber 2018): random branches, shorter outwards.

    The stems at the soma are level 0. A branch splits at its end into two branches of the next
    level with the branching probability of its level, otherwise it continues as one branch; so
    every path from the soma to a tip has `levels` branches. Branches are straight; two siblings
    leave on opposite sides, 25 to 55 degrees off their parent, and a continuing branch turns by at
    most 10 degrees.

    Parameters
    ----------
    levels : int
        Levels of branches, 1 or more.
    branching_probability : float or sequence of float
        Probability in [0, 1] that a branch splits; or one value per level, ``levels`` of them or
        ``levels - 1``, as that of the last level is not used.
    compartments : int
        Samples per branch, 1 or more, at equal distances. A stem has one more, at the surface of
        the soma, so that its length does not include the distance from the centre.
    seed : int or numpy.random.Generator
        The same seed gives the same cell.
    stems : int
        Branches that leave the soma, 1 or more.
    branch_lengths : (float, float), µm
        Lengths of the branches of the first and the last level; linear in the level between.
    radii : (float, float), µm
        Radius at the soma and at the tips; linear along the path between.
    soma_radius : float, µm
        Radius of the soma, a single sample at the origin.
    name : str
        Label of the cell.

    Returns
    -------
    Morphology
        Parents before children, ids from 1, type 1 for the soma and 3 for the rest, lines 0.

    Raises
    ------
    InputError
        An argument is out of range.
    """
    compartments = whole_count("compartments", compartments)
    lengths, ends = _positive_pair("branch_lengths", branch_lengths), _positive_pair("radii", radii)
    rng, stems = generator(seed), whole_count("stems", stems)
    branch_parent, level = grow(rng, levels, branching_probability, stems, unsplit_children=1)
    length = np.linspace(lengths[0], lengths[1], levels)[level]
    tree = _Branches(branch_parent, level, length, _directions(rng, branch_parent, level))
    return _sampled(tree, compartments, soma_radius, ends, levels, name)


class _Branches(NamedTuple):
    """Straight branches, parents before children: (b,) each, `direction` (b, 3) of length 1."""

    parent: np.ndarray
    level: np.ndarray
    length: np.ndarray
    direction: np.ndarray


def _sampled(
    tree: _Branches,
    compartments: int,
    soma_radius: float,
    radii: np.ndarray,
    levels: int,
    name: str,
) -> Morphology:
    """Return the cell: a soma, and samples at equal distances along every branch."""
    (soma_radius,) = positive_numbers("soma_radius", [soma_radius], 1)
    begin = _begin_of_each(tree.parent, tree.level, tree.direction, tree.length, soma_radius)
    is_stem = tree.parent < 0
    samples = compartments + is_stem
    parent = number_nodes(tree.parent, samples, soma_nodes=1).astype(np.int64)
    branch = np.repeat(np.arange(samples.size), samples)
    step = np.arange(branch.size) - starts(samples)[branch] + ~is_stem[branch]
    along = step / compartments
    xyz = begin[branch] + tree.direction[branch] * (tree.length[branch] * along)[:, None]
    radius = radii[0] + (radii[1] - radii[0]) * (tree.level[branch] + along) / levels
    n = parent.size
    return Morphology(
        parent=parent,
        xyz=np.concatenate([np.zeros((1, 3)), xyz]),
        radius=np.concatenate([[soma_radius], radius]),
        type=np.concatenate([[1], np.full(n - 1, 3)]).astype(np.int64),
        id=np.arange(1, n + 1, dtype=np.int64),
        line=np.zeros(n, dtype=np.int64),
        name=name,
    )


def sample_cells() -> list[Morphology]:
    """Make the six built-in cells, for when a user names no file.

    Returns
    -------
    list of Morphology
        Ring-network cells of different shapes with a few hundred samples each, always the same:
        lengths and radii in µm, names ``sample-0`` to ``sample-5``.
    """
    shapes: list[tuple[int, float | tuple[float, ...], int, int]] = [
        # levels, branching probability, samples per branch, stems
        (5, 0.5, 8, 4),
        (8, 0.35, 6, 3),
        (4, 1.0, 5, 5),
        (12, 0.2, 5, 4),
        (6, (1.0, 0.8, 0.6, 0.4, 0.2), 6, 2),
        (10, 0.25, 12, 2),
    ]
    return [
        ring_cell(levels, p, samples, seed=k, stems=stems, name=f"sample-{k}")
        for k, (levels, p, samples, stems) in enumerate(shapes)
    ]


def positive_numbers(name: str, values: Sequence[float], size: int) -> np.ndarray:
    """Return `size` positive numbers, µm."""
    array = np.asarray(as_numbers(name, values, "um"), dtype=np.float64)
    if array.shape != (size,) or not np.isfinite(array).all() or not (array > 0).all():
        expected = "a positive number" if size == 1 else f"{size} positive numbers"
        raise InputError(f"{name} is {shown(values)}, expected {expected} (µm)")
    return array


def _positive_pair(name: str, values: Sequence[float]) -> np.ndarray:
    return positive_numbers(name, values, 2)


def _directions(
    rng: np.random.Generator, branch_parent: np.ndarray, level: np.ndarray
) -> np.ndarray:
    """Turn each branch away from its parent; (num_branches, 3) float64 unit vectors."""
    num = branch_parent.size
    direction = np.empty((num, 3))
    second = np.zeros(num, dtype=bool)  # of two siblings, which are neighbours
    second[1:] = (branch_parent[1:] == branch_parent[:-1]) & (branch_parent[1:] >= 0)
    split = second.copy()
    split[:-1] |= second[1:]
    tilt = np.radians(np.where(split, rng.uniform(25, 55, num), rng.uniform(0, 10, num)))
    azimuth = rng.uniform(0, 2 * np.pi, num)
    azimuth[second] = azimuth[np.flatnonzero(second) - 1] + np.pi

    stems = np.flatnonzero(branch_parent < 0)
    z = 1 - (2 * np.arange(stems.size) + 1) / stems.size  # a golden spiral spreads them evenly
    turn = azimuth[0] + np.arange(stems.size) * np.pi * (3 - np.sqrt(5))
    across = np.sqrt(1 - z * z)
    direction[stems] = np.stack([across * np.cos(turn), across * np.sin(turn), z], axis=1)
    for k in range(1, int(level[-1]) + 1):
        here = np.flatnonzero(level == k)
        direction[here] = _tilted(direction[branch_parent[here]], tilt[here], azimuth[here])
    return direction


def _tilted(direction: np.ndarray, tilt: np.ndarray, azimuth: np.ndarray) -> np.ndarray:
    """Tilt (m, 3) unit vectors by (m,) angles, to the side that (m,) azimuths give, in radians."""
    axis = np.eye(3)[np.argmin(np.abs(direction), axis=1)]  # never close to parallel
    side = np.cross(direction, axis)
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    other = np.cross(direction, side)
    outward = np.cos(azimuth)[:, None] * side + np.sin(azimuth)[:, None] * other
    turned = np.cos(tilt)[:, None] * direction + np.sin(tilt)[:, None] * outward
    return turned / np.linalg.norm(turned, axis=1, keepdims=True)


def _begin_of_each(
    branch_parent: np.ndarray,
    level: np.ndarray,
    direction: np.ndarray,
    length: np.ndarray,
    soma_radius: float,
) -> np.ndarray:
    """Place where each branch begins, (num_branches, 3) float64, µm; stems on the soma."""
    begin = direction * soma_radius
    for k in range(1, int(level[-1]) + 1):
        here = np.flatnonzero(level == k)
        above = branch_parent[here]
        begin[here] = begin[above] + direction[above] * length[above, None]
    return begin
