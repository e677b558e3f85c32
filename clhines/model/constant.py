"""Constant mechanisms summed by node, and summed again when their parameters change."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from clhines.arrays import stretch_of
from clhines.forest import Forest
from clhines.model.instances import at_0_mv, factor_of
from clhines.network.changes import Changes, Value
from clhines.network.groups import Group


class ConstantSums:
    """Conductances and currents at 0 mV of the constant mechanisms of a network.

    The sums have the bits of `instances.kinds_of`, which adds group after group. `groups` are all
    of the network, in order; `area`, µm², and `g_total`, the axial conductances of each node, µS,
    are (n,) float64.
    """

    def __init__(
        self, groups: Sequence[Group], forest: Forest, area: np.ndarray, g_total: np.ndarray
    ) -> None:
        self._groups = [g for g in groups if g.mechanism.constant]
        self._forest, self._area, self._g_total = forest, area, g_total
        self._cell: dict[int, np.ndarray] = {}
        self._factor: dict[int, np.ndarray] = {}
        self._known: dict[int, tuple[list[Value], np.ndarray, np.ndarray]] = {}

    def sums(self, changes: Changes) -> tuple[np.ndarray, np.ndarray]:
        """(n,) float64 each: `Model.constant_d` and `constant_b` with parameters as changed."""
        if self._of_one_cell is not None and self._by_cell(changes):
            return self._repeated(changes)
        n = len(self._area)
        d, b = self._g_total.copy(), np.zeros(n)
        for group in self._groups:
            g, i = self._of_group(group, changes)
            d += np.bincount(group.nodes, g, n)
            b -= np.bincount(group.nodes, i, n)
        return d, b

    def conductances(self, changes: Changes) -> np.ndarray:
        """(n,) float64: `Model.constant_g` with parameters as changed."""
        n = len(self._area)
        sums = np.zeros(n)
        for group in self._groups:
            sums += np.bincount(group.nodes, self._of_group(group, changes)[0], n)
        return sums

    @cached_property
    def _of_one_cell(self) -> list[np.ndarray] | None:
        """(n_1,) float64: of cell 0 axial conductances and each group's factors, if all are alike.

        None where cells differ, or where a node has several instances of a group.
        """
        n, cells = len(self._area), self._forest.num_cells
        found = [self._g_total]
        for group in self._groups:
            if len(group) != len(np.unique(group.nodes)):
                return None
            factor = np.zeros(n)
            factor[group.nodes] = factor_of(group.mechanism, self._area[group.nodes])
            found.append(factor)
        if (self._forest.sizes != n // cells).any():
            return None
        rows = [a.reshape(cells, -1) for a in found]
        return [r[0] for r in rows] if all((r == r[0]).all() for r in rows) else None

    def _by_cell(self, changes: Changes) -> bool:
        """Whether no parameter of the groups differs within a cell."""
        return all(
            changes.value_of(group, name).by != "instance"
            for group in self._groups
            for name in group.mechanism.parameters
        )

    def _repeated(self, changes: Changes) -> tuple[np.ndarray, np.ndarray]:
        """Return sums of cells alike but for a value of each: the same products, the same bits."""
        assert self._of_one_cell is not None
        cells = self._forest.num_cells
        g_total, *factors = self._of_one_cell
        d = np.tile(g_total, (cells, 1))
        b = np.zeros_like(d)
        for group, factor in zip(self._groups, factors, strict=True):
            names = group.mechanism.parameters
            values = {n: changes.value_of(group, n).numbers for n in names}
            i, g = at_0_mv(group.mechanism, values, cells)
            d += factor * g[:, None]
            b -= factor * i[:, None]
        return d.reshape(-1), b.reshape(-1)

    def _of_group(self, group: Group, changes: Changes) -> tuple[np.ndarray, np.ndarray]:
        """Conductance and current of each instance, worked out again if a value is another one."""
        values = [changes.value_of(group, name) for name in group.mechanism.parameters]
        known = self._known.get(group.number)
        if known and all(a is b for a, b in zip(known[0], values, strict=True)):
            return known[1:]
        number, mechanism = group.number, group.mechanism
        if number not in self._factor:
            self._factor[number] = factor_of(mechanism, self._area[group.nodes])
            self._cell[number] = stretch_of(self._forest.cell_offsets, group.nodes)
        cell, factor = self._cell[number], self._factor[number]
        named = dict(zip(mechanism.parameters, values, strict=True))
        if any(v.by == "instance" for v in values):
            spread = {k: v.numbers[cell] if v.by == "cell" else v.numbers for k, v in named.items()}
            i, g = at_0_mv(mechanism, spread, len(group))
        else:  # one cell after another
            i, g = at_0_mv(mechanism, {k: v.numbers for k, v in named.items()}, len(
                self._forest.sizes))  # fmt: skip
            i, g = i[cell], g[cell]
        self._known[number] = values, factor * g, factor * i
        return self._known[number][1:]
