"""Names for a record and its columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.arrays import stretch_of
from clhines.core.errors import InputError
from clhines.core.files import PathLike
from clhines.core.summary import counted
from clhines.simulator.common.checks import unchangeable
from clhines.simulator.network.groups import Group
from clhines.simulator.network.network import Network

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class RecordColumns:
    """The nodes, instances or matrix rows for which a record has columns."""

    kind: str  # ``node``, ``row``, or a mechanism
    number: np.ndarray  # node in its cell, row, or instance
    cell: np.ndarray | None = None  # for several cells' nodes
    is_soma: np.ndarray | None = None  # for nodes

    def __len__(self) -> int:
        return len(self.number)

    def names(self) -> list[str]:
        """Return each column's name, as `Result.columns` describes names."""
        names = [f"{self.kind} {k}" for k in self.number.tolist()]
        if self.is_soma is not None:
            here = "" if self.cell is not None else "soma"
            names = [here if s else n for s, n in zip(self.is_soma.tolist(), names, strict=True)]
        if self.cell is not None:
            cells = self.cell.tolist()
            names = [f"cell {c} {n}".rstrip() for c, n in zip(cells, names, strict=True)]
        return names


def columns_of(
    network: Network, at: ArrayLike | Group, index: ArrayLike | None, rows: int | None
) -> RecordColumns:
    """Describe what a record's columns stand for: nodes `at`, instances of a group, or matrix rows.

    `rows` is the matrix's row count, None without a matrix.
    """
    if rows is not None:
        return RecordColumns("row", np.arange(rows))
    if isinstance(at, Group):
        instances = np.arange(len(at))
        if index is not None and not np.size(index):
            instances = instances[:0]
        elif index is not None:
            instances = np.atleast_1d(instances[np.asarray(index)])
        return RecordColumns(at.mechanism.name, instances)
    nodes = np.atleast_1d(np.asarray(at)).astype(np.int64)
    cell = stretch_of(network.forest.cell_offsets, nodes)
    number = nodes - network.forest.cell_offsets[cell]
    is_soma = network.soma[cell] == nodes
    return RecordColumns("node", number, cell if network.num_cells > 1 else None, is_soma)


@unchangeable("another record(): a recording stays as it is")
class Recording(int):
    """A record's number, from `Simulation.record`; ``result[recording]`` has its values.

    Attributes
    ----------
    name : str
        ``result[name]`` is the record, too.
    variable : str
        The recorded variable, such as ``v`` or ``hh.m``.
    unit : str
        Empty if unknown.
    """

    name: str
    variable: str
    unit: str
    _columns: RecordColumns

    def __new__(
        cls, number: int, name: str, variable: str, unit: str, columns: RecordColumns
    ) -> Recording:
        recording = super().__new__(cls, number)
        vars(recording).update(name=name, variable=variable, unit=unit, _columns=columns)
        return recording

    def __reduce__(self) -> tuple[Any, ...]:
        return Recording, (int(self), self.name, self.variable, self.unit, self._columns)

    def __repr__(self) -> str:
        unit = f" [{self.unit}]" if self.unit else ""
        variable = "" if self.name == self.variable else f", {self.variable}"
        places = counted(len(self._columns), "place")
        return f"Recording({int(self)}, {self.name!r}{variable}{unit}, {places})"

    @property
    def columns(self) -> list[str]:
        """The columns' names; see `Result.columns`."""
        return self._columns.names()

    def plot(self, result: Any, path: PathLike | None = None, ax: Axes | None = None) -> Figure:
        """Draw the recorded values below the spikes, or alone into `ax`; see `Result.plot`."""
        if not hasattr(result, "traces"):
            raise InputError(f"result is {type(result).__name__}; expected a Result of run()")
        return result.plot(self, path=path, ax=ax)
