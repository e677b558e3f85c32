"""Variables of instances that hoc does not see: ASSIGNED without RANGE, kept between blocks."""

from __future__ import annotations

import numpy as np

from clhines.neuron.contents import Instances
from clhines.neuron.memory import Memory
from clhines.neuron.raw import Place, ref


class Hidden:
    """Reads and writes variables that hoc does not see.

    Parameters
    ----------
    memory : Memory
    instances : Instances

    Attributes
    ----------
    columns : dict of str -> int
        Empty where the mechanism has no variable that hoc sees.
    """

    def __init__(self, memory: Memory, instances: Instances) -> None:
        self._memory, self._places = memory, list[Place]()
        self.columns: dict[str, int] = {}
        for name, size in instances.entry.ranges.items():
            try:
                found = [ref(thing, name, size) for thing in instances.things]
            except (AttributeError, RuntimeError, TypeError):
                continue  # an ion's, or a name only
            columns = memory.columns(found[0])
            if columns:
                self.columns = columns
                self._places = [memory.place(reference) for reference in found]
                return

    def _at(self, name: str, place: int | None) -> list[Place]:
        column, index = self.columns[name], place or 0
        return [Place(column, p.row, index, 1) for p in self._places]

    def values(self, name: str, place: int | None) -> np.ndarray:
        """(count,) float64: a variable of all instances; `place` is None: arrays are not read."""
        return np.array([self._memory.value(p) for p in self._at(name, place)], np.float64)

    def put(self, name: str, values: np.ndarray, place: int | None) -> None:
        """Set a variable of all instances."""
        for at, value in zip(self._at(name, place), values.tolist(), strict=True):
            self._memory.set_value(at, value)
