"""Recorder: rows of what is recorded of two arrays on a device, voltages and all others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device import devices, program
from clhines.plan.plan import real_name
from clhines.simulate.reduced import View
from clhines.simulate.state import RecordSpec


class Recorder:
    """Rows of recorded values on a device.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
    dtype : float64 or float32
    """

    def __init__(self, queue: cl.CommandQueue, dtype: np.dtype) -> None:
        self._queue, self._dtype, self._rows = queue, dtype, 0
        built = program.build(queue.context, RecordSpec(real_name(dtype)))
        self._record = program.typed_kernel(built, "record", "ii")
        self._room: dict[str, tuple[cla.Array, cla.Array]] = {}
        self._columns: list[tuple[str, int, int]] = []

    def begin(self, rows: int, locations: Sequence[tuple[str, np.ndarray]]) -> None:
        """Make room; of each record, which array it is in (``v`` or ``mem``), and where there."""
        self._rows, self._columns = rows, []
        wide: dict[str, list[np.ndarray]] = {}
        for source, at in locations:
            start = sum(len(a) for a in wide.get(source, []))
            wide.setdefault(source, []).append(at)
            self._columns.append((source, start, start + len(at)))
        self._room = {}
        for source, parts in wide.items():
            index = np.concatenate(parts).astype(np.int32)
            if len(index):
                values = cla.zeros(self._queue, (max(rows, 1), len(index)), self._dtype)
                self._room[source] = cla.to_device(self._queue, index), values

    def enqueue(self, row: int, v: cla.Array, mem: cla.Array) -> None:
        """Enqueue that a row is written."""
        for source, (index, values) in self._room.items():
            width = index.size
            array = v if source == "v" else mem
            self._record(
                self._queue,
                *devices.small_groups(self._queue.device, width),
                np.int32(row),
                np.int32(width),
                index.data,
                array.data,
                values.data,
            )

    def views(self) -> list[View]:
        """Where the rows of each record are on the device."""
        none = cla.zeros(self._queue, (1, 1), self._dtype)
        found = [(self._room.get(source), begin) for source, begin, _ in self._columns]
        return [View(none if room is None else room[1], begin) for room, begin in found]

    def values(self, some: Sequence[int]) -> list[np.ndarray]:
        """Wait, and return the (rows, r) values of some records."""
        wanted = {self._columns[k][0] for k in some}
        rows = {
            s: a.get(self._queue)[: self._rows] for s, (_, a) in self._room.items() if s in wanted
        }
        none = np.zeros((self._rows, 0), self._dtype)
        return [rows.get(source, none)[:, a:b] for source, a, b in (self._columns[k] for k in some)]
