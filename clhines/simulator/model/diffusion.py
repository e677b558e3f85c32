"""Diffusion along cells: trees of a mechanism's instances, and a step of the diffusing states.

It is NEURON's LONGITUDINAL_DIFFUSION (ldifus.cpp): after all mechanisms' states, one implicit Euler
step of

    volume dx/dt = d/ds (D dx/ds),   D = diffusion coefficient times cross section,

between the centres of neighbouring segments, where D is the mean of both segments. Nothing flows
through a tree's ends, or to segments without the mechanism.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from clhines.core.arrays import climb, inverse
from clhines.solver import reference
from clhines.solver.forest import Forest


@dataclass(frozen=True, eq=False)
class Diffusion:
    """A mechanism's diffusing states, and the trees of instances along which they diffuse."""

    kind: int
    names: tuple[str, ...]  # states, or ion concentrations
    parent: np.ndarray  # (count,) int64: the parent instance, or -1
    up: np.ndarray  # (count,) float64, 1/µm²: factor of D / volume in the parent's equation
    down: np.ndarray  # (count,) float64, 1/µm²: factor in the instance's own equation

    @cached_property
    def rows(self) -> np.ndarray:
        """The instances in the order of `forest`, tree after tree, (count,) int64."""
        return np.argsort(climb(self.parent)[0], kind="stable")

    @cached_property
    def forest(self) -> Forest:
        row, above = inverse(self.rows), self.parent[self.rows]
        roots = np.flatnonzero(above < 0)
        return Forest(np.where(above < 0, -1, row[above]), np.append(roots, len(row)))

    @cached_property
    def steps(self) -> list[np.ndarray]:
        return reference.elimination_steps(self.forest)

    def solve(
        self, values: np.ndarray, volume: np.ndarray, diffusion: np.ndarray, dt: float
    ) -> np.ndarray:
        """Advance a state by one step; each array has one number for each instance."""
        child = np.flatnonzero(self.parent >= 0)
        above = self.parent[child]
        mean = (diffusion[child] + diffusion[above]) / 2
        u, l = np.zeros((2, len(values)))
        u[child] = -self.up[child] * mean / volume[above]
        l[child] = -self.down[child] * mean / volume[child]
        d = 1 / dt - l - np.bincount(above, u[child], len(values))
        rows, solution = self.rows, np.empty(len(values))
        system = d[rows], u[rows], values[rows] / dt, l[rows]
        solution[rows], _ = reference.solve_with_pivots(self.forest, *system, self.steps)
        return solution

    def part(self, instances: slice) -> Diffusion:
        """Return the diffusion in a range of instances, which must belong to whole cells."""
        parent = self.parent[instances]
        parent = np.where(parent < 0, -1, parent - instances.start)
        return replace(self, parent=parent, up=self.up[instances], down=self.down[instances])
