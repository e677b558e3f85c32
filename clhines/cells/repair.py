"""Named repairs of morphologies: what a user may ask for instead of a refusal."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from clhines.cells.morphology import Morphology
from clhines.cells.samples import at, climb_to_top, from_soma
from clhines.errors import RepairWarning

ZERO_RADIUS = "zero-radius"
REPAIRS = (ZERO_RADIUS,)


def zero_radii(cell: Morphology) -> tuple[np.ndarray, np.ndarray]:
    """Interpolate radii of 0 along the neurites; return the samples that get one, and radii, µm.

    A radius of 0 before the tip of a neurite lies between the nearest samples that have one; a tip
    may end in 0, as a cone. A beginning takes the next radius. The soma keeps its zeros.
    """
    parent, soma = from_soma(cell)
    n, radius = len(parent), cell.radius
    tip = np.bincount(parent[parent >= 0], minlength=n) == 0
    wanted = (radius == 0) & ~tip & ~soma
    if not wanted.any():
        return np.zeros(0, np.int64), np.zeros(0)
    with np.errstate(over="ignore"):
        edge = np.where(parent < 0, 0.0, np.linalg.norm(cell.xyz - cell.xyz[parent], axis=1))
    _, depth = climb_to_top(np.where(parent < 0, np.arange(n), parent))
    order = np.lexsort((-cell.id, depth)).tolist()  # of two as near the smallest id comes first
    within = ~soma & (parent >= 0) & ~at(soma, parent)  # the parent is of the same neurite
    samples = np.flatnonzero(wanted)
    above = _nearest(order, parent, within, (radius > 0) & ~soma, radius, edge)[samples]
    ends = (radius > 0) | (tip & (radius == 0))
    below = _nearest(order[::-1], parent, within, ends & ~soma, radius, edge, away=True)[samples]
    whole = above[:, 1] + below[:, 1]
    apart = np.isfinite(whole) & (whole > 0)
    share = np.divide(above[:, 1], whole, out=np.full(len(whole), 0.5), where=apart)
    new = above[:, 0] + share * (below[:, 0] - above[:, 0])
    new = np.where(np.isinf(above[:, 1]), below[:, 0], new)
    good = np.isfinite(new) & (new > 0)
    return samples[good], new[good]


def _nearest(
    order: list[int],
    parent: np.ndarray,
    within: np.ndarray,
    known: np.ndarray,
    radius: np.ndarray,
    edge: np.ndarray,
    away: bool = False,
) -> np.ndarray:
    """(n, 2) radius and distance of the nearest known sample above, or `away` from the root."""
    found = np.full((len(parent), 2), (np.nan, np.inf))
    for i in order:
        p = int(parent[i])
        if not within[i]:
            continue
        here, there = (p, i) if away else (i, p)
        value, distance = (radius[there], 0.0) if known[there] else found[there]
        if distance + edge[i] < found[here, 1] and np.isfinite(value):
            found[here] = value, distance + edge[i]
    return found


def repaired(cell: Morphology, repair: str | None) -> Morphology:
    """Return the cell with the repair made; a `RepairWarning` for each sample that is changed."""
    if repair is None:
        return cell
    samples, new = zero_radii(cell)
    if not len(samples):
        return cell
    radius = cell.radius.copy()
    radius[samples] = new
    for i, value in zip(samples.tolist(), new.tolist(), strict=True):
        where = f"{cell.name}:{cell.line[i]}" if cell.line[i] > 0 else cell.name
        message = f"{where}: sample {cell.id[i]} has radius 0, repaired to {value:.6g} µm"
        warnings.warn(message, RepairWarning, stacklevel=3)
    return replace(cell, radius=radius, repaired=samples)
