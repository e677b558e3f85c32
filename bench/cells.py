"""Random cells in three dimensions, of the ring-network benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bench.made import Seed, number_nodes
from clhines import Morphology
from clhines.core.arrays import starts


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

    `stems` branches at the soma are level 0. At its end a branch splits into two branches of the
    next level with the branching probability, one for all levels or one for each; else it continues
    as one branch. So every path from the soma to a tip has `levels` branches. Branches are
    straight, with `compartments` equidistant samples. Siblings leave on opposite sides, 25 to 55
    degrees off their parent; a continuing branch turns by at most 10 degrees. The soma is a single
    sample at the origin; a stem has one more sample, at the soma's surface.

    `branch_lengths`, µm, are those of the first and the last level, linear in between. `radii`, µm,
    are those at the soma and at tips, linear along the path.
    """
    rng = np.random.default_rng(seed)
    branch_parent, level = grow(rng, levels, branching_probability, stems)
    length = np.linspace(*branch_lengths, levels)[level]
    tree = _Branches(branch_parent, level, length, _directions(rng, branch_parent, level))
    return _sampled(tree, compartments, soma_radius, radii, levels, name)


class _Branches(NamedTuple):
    parent: np.ndarray
    level: np.ndarray
    length: np.ndarray
    direction: np.ndarray


def _sampled(
    tree: _Branches,
    compartments: int,
    soma_radius: float,
    radii: tuple[float, float],
    levels: int,
    name: str,
) -> Morphology:
    begin = tree.direction * soma_radius
    for k in range(1, int(tree.level[-1]) + 1):
        here = np.flatnonzero(tree.level == k)
        above = tree.parent[here]
        begin[here] = begin[above] + tree.direction[above] * tree.length[above, None]
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


def _directions(
    rng: np.random.Generator, branch_parent: np.ndarray, level: np.ndarray
) -> np.ndarray:
    """Draw branches' unit vectors, (num_branches, 3) float64, near their parents' directions.

    `branch_parent` is -1 at stems; `level` counts the branches from a stem, in ascending order.
    """
    num = branch_parent.size
    direction = np.empty((num, 3))
    second = np.zeros(num, dtype=bool)  # second of two siblings, which are adjacent
    second[1:] = (branch_parent[1:] == branch_parent[:-1]) & (branch_parent[1:] >= 0)
    split = second.copy()
    split[:-1] |= second[1:]
    tilt = np.radians(np.where(split, rng.uniform(25, 55, num), rng.uniform(0, 10, num)))
    azimuth = rng.uniform(0, 2 * np.pi, num)
    azimuth[second] = azimuth[np.flatnonzero(second) - 1] + np.pi

    stems = np.flatnonzero(branch_parent < 0)
    z = 1 - (2 * np.arange(stems.size) + 1) / stems.size  # evenly spread on a golden spiral
    turn = azimuth[0] + np.arange(stems.size) * np.pi * (3 - np.sqrt(5))
    across = np.sqrt(1 - z * z)
    direction[stems] = np.stack([across * np.cos(turn), across * np.sin(turn), z], axis=1)
    for k in range(1, int(level[-1]) + 1):
        here = np.flatnonzero(level == k)
        direction[here] = _tilted(direction[branch_parent[here]], tilt[here], azimuth[here])
    return direction


def _tilted(direction: np.ndarray, tilt: np.ndarray, azimuth: np.ndarray) -> np.ndarray:
    axis = np.eye(3)[np.argmin(np.abs(direction), axis=1)]  # never close to parallel
    side = np.cross(direction, axis)
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    other = np.cross(direction, side)
    outward = np.cos(azimuth)[:, None] * side + np.sin(azimuth)[:, None] * other
    turned = np.cos(tilt)[:, None] * direction + np.sin(tilt)[:, None] * outward
    return turned / np.linalg.norm(turned, axis=1, keepdims=True)


def grow(
    rng: np.random.Generator, levels: int, probability: float | Sequence[float], stems: int
) -> tuple[np.ndarray, np.ndarray]:
    """Grow branches level by level; return each branch's parent (-1 for stems) and level, int64."""
    p = [probability] * levels if np.ndim(probability) == 0 else probability
    parents = [np.full(stems, -1, dtype=np.int64)]
    total = 0
    for level in range(levels - 1):
        here = parents[-1].size
        children = np.where(rng.random(here) < p[level], 2, 1)
        parents.append(np.repeat(np.arange(total, total + here), children))
        total += here
    sizes = [each.size for each in parents]
    return np.concatenate(parents), np.repeat(np.arange(len(sizes)), sizes)
