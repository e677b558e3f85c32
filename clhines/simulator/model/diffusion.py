"""Diffusion along cells: trees of the instances of a mechanism, which a step solves for.

NEURON's LONGITUDINAL_DIFFUSION (ldifus.cpp): after the states of all mechanisms implicit Euler of

    volume dx/dt = d/ds (D dx/ds),   D = diffusion coefficient times cross section,

between the centres of neighbouring segments, whose D is the mean of both; nothing flows at ends,
and to segments without the mechanism.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from clhines.core.arrays import climb, inverse, offsets, starts
from clhines.solver import reference
from clhines.solver.forest import Forest


@dataclass(frozen=True, eq=False)
class Diffusion:
    """States of a kind that diffuse, each by itself, along the same trees of instances."""

    kind: int
    names: tuple[str, ...]  # of states, or of concentrations of ions
    parent: np.ndarray  # (count,) int64: the instance before each, or -1
    up: np.ndarray  # (count,) float64, 1/µm²: of its D, over volume, in the row of the one before
    down: np.ndarray  # likewise in its own row

    @cached_property
    def rows(self) -> np.ndarray:
        """(count,) int64: instances, tree after tree."""
        return np.argsort(climb(self.parent)[0], kind="stable")

    @cached_property
    def forest(self) -> Forest:
        """Trees of `rows`."""
        row, above = inverse(self.rows), self.parent[self.rows]
        roots = np.flatnonzero(above < 0)
        return Forest(np.where(above < 0, -1, row[above]), np.append(roots, len(row)))

    @cached_property
    def steps(self) -> list[np.ndarray]:
        return reference.elimination_steps(self.forest)

    def solved(
        self, values: np.ndarray, volume: np.ndarray, diffusion: np.ndarray, dt: float
    ) -> np.ndarray:
        """(count,) float64: a state after a step, by NumPy."""
        child = np.flatnonzero(self.parent >= 0)
        above = self.parent[child]
        mean = (diffusion[child] + diffusion[above]) / 2
        u, l = np.zeros((2, len(values)))  # noqa: E741 - the field's name for the lower entries
        u[child] = -self.up[child] * mean / volume[above]
        l[child] = -self.down[child] * mean / volume[child]
        d = 1 / dt - l - np.bincount(above, u[child], len(values))
        rows, solution = self.rows, np.empty(len(values))
        system = d[rows], u[rows], values[rows] / dt, l[rows]
        solution[rows], _ = reference.solve_with_pivots(self.forest, *system, self.steps)
        return solution

    def part(self, some: slice) -> Diffusion:
        """Return that of the instances of whole cells."""
        parent = self.parent[some]
        parent = np.where(parent < 0, -1, parent - some.start)
        return replace(self, parent=parent, up=self.up[some], down=self.down[some])


class DiffusingRows:
    """All states that diffuse as rows: cell after cell, level after level, the roots first.

    Rows with the same parent lie side by side, so that a row gathers what they leave:

        level 0   0
        level 1   1   2         rows 1 and 2 are the children of row 0,
        level 2   3 4 5         rows 3 and 4 those of row 1

    `entry` is the number of each row among all states, kind after kind, and instance after instance
    of each. `above` is its parent's row, -1 of roots. `children`, (2, n), are its first child's row
    and the end. Level l of cell c begins at ``first[c * levels + l]``.
    """

    def __init__(
        self, diffusions: Sequence[Diffusion], cells: Sequence[np.ndarray], num_cells: int
    ) -> None:
        """Put into rows what diffuses in `cells`, by diffusion the cell of each instance."""
        every = [(one, cell) for one, cell in zip(diffusions, cells) for _ in one.names]
        none = np.zeros(0, np.int64)
        begin = starts(np.array([len(cell) for _, cell in every], np.int64))
        above = [np.where(one.parent < 0, -1, one.parent + k) for (one, _), k in zip(every, begin)]
        parent, cell = (
            np.concatenate([none, *above]),
            np.concatenate([none, *(c for _, c in every)]),
        )
        level = climb(parent)[1]
        self.levels = int(level.max(initial=-1)) + 1
        beside = np.zeros(len(parent), np.int64)  # place of each among those of its level
        for k in range(self.levels):
            some = np.flatnonzero(level == k)
            of_parent = beside[parent[some]] if k else some
            beside[some[np.argsort(of_parent, kind="stable")]] = np.arange(len(some))
        key = cell * self.levels + level
        self.entry = np.lexsort((beside, key))
        row = inverse(self.entry)
        above_row = parent[self.entry]
        self.above = np.where(above_row < 0, -1, row[above_row])
        child = np.flatnonzero(self.above >= 0)
        count = np.bincount(self.above[child], minlength=len(row))
        first_child = np.full(len(row), len(row))
        np.minimum.at(first_child, self.above[child], child)
        self.children = np.stack((first_child, first_child + count))
        self.first = np.searchsorted(key[self.entry], np.arange(num_cells * self.levels + 1))
        self.up, self.down = (
            np.concatenate([np.zeros(0), *(getattr(one, name) for one, _ in every)])[self.entry]
            for name in ("up", "down")
        )


def trees_of(diffusions: Sequence[Diffusion]) -> Forest:
    """Return the trees of all that diffuses: of each state its rows, one state after another."""
    forests = [one.forest for one in diffusions for _ in one.names]
    first = starts(np.array([forest.num_nodes for forest in forests], np.int64))
    pairs = [*zip(forests, first, strict=True)]
    parent = [np.where(forest.parent < 0, -1, forest.parent + k) for forest, k in pairs]
    sizes = np.concatenate([forest.sizes for forest in forests])
    return Forest(np.concatenate(parent), offsets(sizes))
