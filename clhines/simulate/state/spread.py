"""New values of parameters and nodes, put where a run has them on the device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.arrays import stretch_of
from clhines.device import devices, program
from clhines.device.arrays import set_soon
from clhines.model.model import Kind, Model
from clhines.network.changes import Value
from clhines.plan.kernel_spec import TemplateSpec
from clhines.plan.plan import real_name

_MOST = 2**31  # elements of an array that the kernel takes
_FEW = 64  # elements in a row that are copied, not put by the kernel


@dataclass(frozen=True)
class SpreadSpec(TemplateSpec):
    """``spread.mako``; `real` is ``double`` or ``float``."""

    template: ClassVar[str] = "simulate/spread"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "spread": (
            "int count, int offset, int single, const int *restrict at",
            "const int *restrict source, const real *restrict values, real *restrict target",
        )
    }
    real: str


@dataclass(frozen=True, eq=False)
class Storage:
    """Where the values of a parameter of all instances of a kind are on a device.

    `places` returns place in the array, less `offset`, and instance of the kind, (m,) each. They
    are the same for all parameters with this `key`. None stands for one number for all instances,
    at `offset`.
    """

    array: cla.Array
    offset: int
    key: Hashable = ()
    places: Callable[[], tuple[np.ndarray, np.ndarray]] | None = None


def _few_in_a_row(at: np.ndarray) -> tuple[int, int]:
    """Return first place and number of a few places that follow each other; else zeros."""
    good = 0 < len(at) <= _FEW and bool((np.diff(at) == 1).all())
    return (int(at[0]), len(at)) if good else (0, 0)


def each_instance(kind: Kind) -> tuple[np.ndarray, np.ndarray]:
    """Places of instances that lie one after another."""
    every = np.arange(kind.count)
    return every, every


class Spread:
    """Puts values into arrays on a device; tables are made when first needed, and kept."""

    def __init__(self, queue: cl.CommandQueue, dtype: np.dtype, model: Model) -> None:
        self.queue, self.dtype, self._model = queue, np.dtype(dtype), model
        spec = SpreadSpec(real_name(self.dtype))
        self._kernel = program.kernel_of(queue.context, spec, "spread")
        self._tables: dict[Hashable, cla.Array] = {}
        self._rows: dict[Hashable, tuple[int, int]] = {}  # first place and number of few in a row
        self._written = deque[cl.Event | None](maxlen=8)

    def takes(self, storage: Storage, by: str) -> bool:
        """Whether values can be put there: one for all needs no places."""
        return (storage.places is not None or by == "all") and storage.array.size < _MOST

    def put(self, storage: Storage, group: int, value: Value) -> None:
        """Enqueue that the instances of a group, by its number, get new values."""
        numbers = value.numbers.astype(self.dtype)
        if storage.places is None:
            self._set(storage, 0, numbers[:1])
            return
        key = storage.key, group
        if key not in self._rows:
            self._rows[key] = _few_in_a_row(self._entries(storage, group)[0])
        first, count = self._rows[key]
        if count and value.by == "all":
            self._set(storage, first, np.repeat(numbers[:1], count))
            return
        at = self._table((*key, "at"), lambda: self._entries(storage, group)[0])
        source = at if value.by == "all" else self._table((*key, value.by), lambda: self._sources(
            self._entries(storage, group)[1], group, value.by))  # fmt: skip
        self.values(storage.array, at, source, numbers, storage.offset, value.by == "all")

    def _set(self, storage: Storage, first: int, numbers: np.ndarray) -> None:
        """Enqueue values for places in a row; the last ones stay until they are copied."""
        place = storage.offset + first
        self._written.append(set_soon(storage.array, place, numbers, self.queue))

    def of_each(self, group: int, value: Value) -> np.ndarray:
        """Values of the instances of a group, or one for all."""
        if value.by == "all":
            return value.numbers
        line = np.arange(len(self._model.instances[group][1]))
        return value.numbers[self._sources(line, group, value.by)]

    def values(
        self,
        target: cla.Array,
        at: cla.Array,
        source: cla.Array,
        numbers: np.ndarray,
        offset: int = 0,
        single: bool = False,
    ) -> None:
        """Enqueue ``target[at + offset] = numbers[source]``; `at` may be empty."""
        if not at.size:
            return
        values = cla.to_device(self.queue, np.ascontiguousarray(numbers, self.dtype))
        groups = devices.small_groups(self.queue.device, at.size)
        arrays = (a.data for a in (at, source, values, target))
        self._kernel(
            self.queue, *groups, np.int32(at.size), np.int32(offset), np.int32(single), *arrays
        )

    def _table(self, key: Hashable, make: Callable[[], np.ndarray]) -> cla.Array:
        if key not in self._tables:
            self._tables[key] = cla.to_device(self.queue, make().astype(np.int32))
        return self._tables[key]

    def _entries(self, storage: Storage, group: int) -> tuple[np.ndarray, np.ndarray]:
        """Places of a group's instances, and which of its instances these are."""
        assert storage.places is not None
        at, instance = storage.places()
        k, own = self._model.instances[group]
        line = np.full(self._model.kinds[k].count, -1)
        line[own] = np.arange(len(own))
        mine = line[instance]
        return at[mine >= 0], mine[mine >= 0]

    def _sources(self, line: np.ndarray, group: int, by: str) -> np.ndarray:
        if by == "instance":
            return line
        k, own = self._model.instances[group]
        node = self._model.kinds[k].node[own][line]
        return stretch_of(self._model.forest.cell_offsets, node)
