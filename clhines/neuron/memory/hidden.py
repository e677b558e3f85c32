"""Variables of instances that hoc does not see: ASSIGNED without RANGE, kept between blocks."""

from __future__ import annotations

import numpy as np

from clhines.neuron.memory.columns import Columns, column_at
from clhines.neuron.memory.memory import Memory
from clhines.neuron.memory.raw import ref
from clhines.neuron.read.contents import Instances


class Hidden:
    """Reads and writes variables that hoc does not see.

    `columns` is empty where the mechanism has no variable that hoc sees.
    """

    def __init__(self, memory: Memory, instances: Instances) -> None:
        self._rows: Columns | None = None
        self.columns: dict[str, int] = {}
        for name, size in instances.entry.ranges.items():
            try:
                found = memory.columns(ref(instances.things[0], name, size))
            except (AttributeError, RuntimeError, TypeError):
                continue  # an ion's, or a name only
            if found:
                self.columns = found
                self._rows = instances.columns
                return

    def _at(self, name: str, place: int | None) -> tuple[np.ndarray, np.ndarray]:
        assert self._rows is not None
        number = self._rows.numbers() + (place or 0)
        return column_at(self.columns[name], number), number

    def values(self, name: str, place: int | None) -> np.ndarray:
        """(count,) float64: a variable of all instances; `place` is None: arrays are not read."""
        column, number = self._at(name, place)
        return column[number]

    def put(self, name: str, values: np.ndarray, place: int | None) -> None:
        """Set a variable of all instances."""
        column, number = self._at(name, place)
        column[number] = values
