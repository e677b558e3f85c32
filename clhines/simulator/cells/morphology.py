"""Morphology: one cell's samples."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from clhines.simulator.common.checks import unchangeable

Row = tuple[int, int, int, float, float, float, float]


@unchangeable("dataclasses.replace(cell, ...)")
@dataclass(frozen=True, eq=False)
class Morphology:
    """One cell as a tree of samples, in file order.

    Attributes
    ----------
    parent : (n,) int64
        Index of the parent sample in these arrays, -1 at the root; any order.
    xyz : (n, 3) float64, µm
    radius : (n,) float64, µm
        As read, so it may be zero or negative; `cable` refuses that.
    type : (n,) int64
        SWC type code (1 soma, 2 axon, 3 basal, 4 apical dendrite; others kept).
    id : (n,) int64
        Sample identifiers in the file.
    line : (n,) int64
        Line numbers in the file, from 1; 0 without a file.
    name : str
        File name or label, for messages.
    repaired : (k,) int64
        Indices of samples whose radius `read_swc` has interpolated; empty without ``repair``.
    """

    parent: np.ndarray
    xyz: np.ndarray
    radius: np.ndarray
    type: np.ndarray
    id: np.ndarray
    line: np.ndarray
    name: str = "cell"
    repaired: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def __repr__(self) -> str:
        return f"Morphology({self.name}: {len(self.parent)} samples)"
