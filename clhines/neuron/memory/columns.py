"""Variables of many instances at once, by the columns in which NEURON keeps them.

NEURON has one array for each variable of a mechanism, its *column*, and each instance has a *row*
in it. A variable of all instances is read and set by NumPy, and not by hoc, instance by instance.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from clhines.neuron.memory.memory import Memory
from clhines.neuron.memory.raw import WORD, Place, gather, ref
from clhines.neuron.memory.session import Hoc


class Columns:
    """Variables of instances of one mechanism, which are attributes of `things`.

    `rows` are the addresses of the numbers of their rows, (k,) int64.
    """

    def __init__(self, memory: Memory, things: Sequence[Hoc], rows: np.ndarray) -> None:
        self._memory, self._things, self.rows = memory, things, rows
        self._numbers: np.ndarray | None = None
        self._places: dict[tuple[str, int | None], Place | None] = {}

    def refresh(self) -> None:
        """Read the numbers of rows again: NEURON sorts its columns when a model changes."""
        self._numbers = None

    def values(self, name: str, place: int | None) -> np.ndarray | None:
        """(count,) float64: a variable of all instances; None where it is not in a column."""
        found = self._find(name, place)
        return None if found is None else found[0][found[1]]

    def put(self, name: str, values: np.ndarray, place: int | None) -> bool:
        """Set a variable of all instances; False where it is not in a column."""
        found = self._find(name, place)
        if found is None:
            return False
        found[0][found[1]] = values
        return True

    def _find(self, name: str, place: int | None) -> tuple[np.ndarray, np.ndarray] | None:
        """Return a column and the places of the instances in it, where hoc sees the same there."""
        key = name, place
        if key not in self._places:
            self._places[key] = self._look_up(name, place)
        at = self._places[key]
        if at is None:
            return None
        number = self.numbers() * at.size + (at.place if place is None else place)
        return column_at(at.column, number), number

    def _look_up(self, name: str, place: int | None) -> Place | None:
        if not len(self.rows):
            return None
        try:
            at = self._memory.place(ref(self._things[0], name, 1 if place is None else 2))
        except (AttributeError, RuntimeError, TypeError):
            return None
        if not at.row or at.row != self.rows[0]:
            return None
        number = self.numbers() * at.size + (at.place if place is None else place)
        column = column_at(at.column, number)
        for k in {0, len(number) // 2, len(number) - 1}:
            seen = getattr(self._things[k], name)
            seen = seen if place is None else seen[place]
            if not np.array_equal(column[number[k]], seen, equal_nan=True):
                return None
        return at

    def numbers(self) -> np.ndarray:
        """(count,) int64: rows of the instances."""
        if self._numbers is None:
            self._numbers = gather(self.rows)[:, 0].astype(np.int64)
        return self._numbers


def column_at(address: int, number: np.ndarray) -> np.ndarray:
    """Return a column of NEURON's, float64, as long as the largest of some rows needs."""
    kind = ctypes.c_double * (int(number.max()) + 1)
    return np.ctypeslib.as_array(kind.from_address(WORD.from_address(address).value))
