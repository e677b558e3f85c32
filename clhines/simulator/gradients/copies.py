"""Copies of a network in rows, and values of all copies or of each; no device."""

from __future__ import annotations

import numpy as np

from clhines.simulator.gradients.kernels import CopyColumn
from clhines.simulator.model.model import Model


class CopyLayout:
    """Copies of a network, `count` of them, in `rows` of `width` copies; the last one fills up."""

    def __init__(self, model: Model, width: int) -> None:
        self.model, cells = model, model.forest.num_cells
        self.count = cells if cells > 1 and self._are_copies(cells) else 1
        self.width = width if self.count >= width else 1
        self.rows = -(-self.count // self.width)
        self.nodes = model.forest.num_nodes // self.count

    def _are_copies(self, cells: int) -> bool:
        forest, n = self.model.forest, self.model.forest.num_nodes // cells
        if (forest.sizes != n).any():
            return False
        parent = forest.parent.reshape(cells, n)
        begin = n * np.arange(cells)[:, None]
        alike = (np.where(parent < 0, -1, parent - begin) == parent[0]).all()
        for kind in self.model.kinds:
            if kind.count % cells:
                return False
            node = kind.node.reshape(cells, -1) - begin
            alike &= (node == node[0]).all()
        return bool(alike)

    def packed(self, values: np.ndarray) -> np.ndarray:
        """(entries, rows * width): values by entry, of copies in turn."""
        by_copy = np.asarray(values).reshape(self.count, -1)
        if self.count < self.rows * self.width:
            by_copy = by_copy[np.arange(self.rows * self.width).clip(max=self.count - 1)]
        return np.ascontiguousarray(by_copy.T)

    def unpacked(self, values: np.ndarray) -> np.ndarray:
        """Return values of all copies, one copy after another."""
        by_entry = values.reshape(-1, self.rows * self.width)[:, : self.count]
        return np.ascontiguousarray(by_entry.T).reshape(-1).astype(np.float64)


class CopyColumns:
    """Values that do not change: numbers of all copies, and values of each."""

    def __init__(self, layout: CopyLayout) -> None:
        self._layout = layout
        self.numbers, self.values = list[np.ndarray](), list[np.ndarray]()
        self._lengths = [0, 0]

    def add(self, values: np.ndarray, single: bool = False) -> CopyColumn:
        """Add values, (count,) in natural order; `single`: they are one number."""
        if single and not len(values):
            values = np.zeros(1)
        by_copy = values.reshape(self._layout.count, -1) if not single else values[None]
        if single:
            return self._put(0, by_copy[0, :1], CopyColumn(self._lengths[0], single=True))
        if (by_copy == by_copy[0]).all():
            return self._put(0, by_copy[0], CopyColumn(self._lengths[0]))
        column = CopyColumn(self._lengths[1], each=True)
        self.values.append(self._layout.packed(values))
        self._lengths[1] += by_copy.shape[1]
        return column

    def _put(self, which: int, values: np.ndarray, column: CopyColumn) -> CopyColumn:
        self.numbers.append(values)
        self._lengths[which] += len(values)
        return column
