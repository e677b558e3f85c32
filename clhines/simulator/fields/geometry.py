"""Positions of nodes in space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.checks import as_array, as_places, as_real
from clhines.core.errors import InputError, shown
from clhines.simulator.cells.cable import Cable


@dataclass(frozen=True, eq=False)
class Geometry:
    """Straight segments, one for each node.

    Parameters
    ----------
    begin, end : (n, 3) float, µm
        Ends of each segment's axis; equal at nodes without membrane.
    radius : (n,) float, µm
    """

    begin: np.ndarray
    end: np.ndarray
    radius: np.ndarray

    def __post_init__(self) -> None:
        for name in ("begin", "end", "radius"):
            values = as_real(name, getattr(self, name), "um")
            object.__setattr__(self, name, values)
        n = self.radius.size
        if self.radius.ndim != 1 or {self.begin.shape, self.end.shape} != {(n, 3)}:
            shapes = self.begin.shape, self.end.shape, self.radius.shape
            raise InputError(f"begin, end and radius have {shapes}; expected (n, 3), (n, 3), (n,)")
        if (self.radius < 0).any():
            k = int(np.argmax(self.radius < 0))
            raise InputError(f"radius[{k}] is {self.radius[k]:g} um; expected 0 or more")

    def __len__(self) -> int:
        return len(self.radius)

    @property
    def centre(self) -> np.ndarray:
        """Centre of each segment, (n, 3) float64, µm."""
        return (self.begin + self.end) / 2

    @classmethod
    def of_cable(cls, cable: Cable) -> Geometry:
        """Return a cell's segments, with the radii of cylinders of the same membrane area."""
        if not isinstance(cable, Cable):
            raise InputError(f"cable is {shown(cable)}; expected a Cable")
        sections = cable.sections
        xyz = sections.points[:, :3].astype(np.float64)
        begin, end = cable.xyz.copy(), cable.xyz.copy()
        length = np.zeros(cable.num_nodes)
        for s, (first, stop) in enumerate(
            zip(sections.offsets[:-1], sections.offsets[1:], strict=True)
        ):
            count, size = int(cable.nseg[s]), float(sections.length[s])
            nodes = slice(cable.first_node[s], cable.first_node[s] + count)
            bounds = np.arange(count + 1) * (size / count)
            at = [np.interp(bounds, sections.arc[first:stop], x) for x in xyz[first:stop].T]
            ends = np.stack(at, axis=1)
            begin[nodes], end[nodes], length[nodes] = ends[:-1], ends[1:], size / count
        around = 2 * np.pi * length
        radius = np.divide(cable.area, around, out=np.zeros_like(length), where=length > 0)
        return cls(begin, end, radius)

    def of(self, nodes: ArrayLike) -> Geometry:
        """Return the segments of some nodes, (m,) integer or (n,) bool."""
        nodes = as_places("nodes", as_array("nodes", nodes), len(self), "node")
        return Geometry(self.begin[nodes], self.end[nodes], self.radius[nodes])

    @classmethod
    def joined(cls, parts: Sequence[Geometry]) -> Geometry:
        """Join the segments of several cells."""
        names = "begin", "end", "radius"
        if not isinstance(parts, Sequence) or {type(part) for part in parts} != {cls}:
            raise InputError(f"parts is {shown(parts)}; expected a list of Geometry")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def moved(self, shift: ArrayLike, turn: ArrayLike | None = None) -> Geometry:
        """Rotate segments about the origin, then shift them.

        Parameters
        ----------
        shift : (3,) float, or (k, 3) float, µm
            With k rows the result has k copies of the segments, one after another.
        turn : (3, 3) float, or (k, 3, 3) float, optional
            Rotation matrices.
        """
        shifts = np.atleast_2d(as_real("shift", shift, "um"))
        if shifts.ndim != 2 or shifts.shape[1] != 3:
            raise InputError(f"shift has shape {np.shape(shift)}; expected (3,) or (k, 3)")
        turns = np.eye(3)[None] if turn is None else as_real("turn", turn)
        turns = turns[None] if turns.ndim == 2 else turns
        if turns.shape[1:] != (3, 3) or len(turns) not in (1, len(shifts)):
            raise InputError(f"turn has shape {turns.shape}; expected (3, 3) or (k, 3, 3)")
        if not np.allclose(turns @ turns.transpose(0, 2, 1), np.eye(3), 0, 1e-9):
            raise InputError("turn is not a rotation; expected orthogonal matrices")
        begin, end = (
            (x @ turns.transpose(0, 2, 1) + shifts[:, None]).reshape(-1, 3)
            for x in (self.begin, self.end)
        )
        return Geometry(begin, end, np.tile(self.radius, len(shifts)))


def geometry_of(
    cables: Sequence[Cable], count: int, shift: ArrayLike | None, turn: ArrayLike | None
) -> Geometry:
    """Return all node positions in `count` cells; arguments as in `Network.geometry`."""
    if not cables:
        raise InputError("the network has no cables; expected a Geometry of its nodes")
    shifts = np.zeros(3) if shift is None else as_real("shift", shift, "um")
    shifts = np.broadcast_to(shifts, (count, 3)) if shifts.shape == (3,) else shifts
    turns = None if turn is None else as_real("turn", turn)
    if shifts.shape != (count, 3) or (turns is not None and turns.shape != (count, 3, 3)):
        of_turn = "" if turns is None else f", turn {turns.shape}"
        raise InputError(
            f"shift has shape {shifts.shape}{of_turn}; expected ({count}, 3) and ({count}, 3, 3)"
        )
    geometries = {id(cable): Geometry.of_cable(cable) for cable in cables}
    at = [geometries[id(cables[k % len(cables)])] for k in range(min(count, len(cables)))]
    if len(at) == 1:
        return at[0].moved(shifts, turns)
    each = (
        at[k % len(at)].moved(shifts[k], None if turns is None else turns[k]) for k in range(count)
    )
    return Geometry.joined(list(each))
