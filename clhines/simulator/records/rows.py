"""Rows of records on a device: memory for a chunk, and reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import gcd

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.simulator.device.reads import part_of
from clhines.simulator.model.model import Model
from clhines.simulator.records.records import VOLTAGE, Record
from clhines.simulator.records.reduced import DeviceReducer, Reducers, View


class RecordedRows:
    """Memory for the rows of a run's records; kept while records are the same and rows fit."""

    def __init__(self, model: Model, queue: cl.CommandQueue, dtype: np.dtype) -> None:
        self.reducers = Reducers(lambda r: DeviceReducer(r, model, queue, dtype))
        self.first_step = 0  # of the chunk
        self.forget_room()

    def forget_room(self) -> None:
        """Allocate memory again for the next chunk, because variables may lie elsewhere."""
        self._begun = -1, list[Record]()  # allocated rows, and their records
        self._room, self._views = list[View](), list[View]()
        self._rows = -1

    def begin(
        self,
        rows: int,
        records: Sequence[Record],
        room_for: Callable[[int, list[Record]], list[View]],
    ) -> None:
        """Begin a chunk of `rows` rows.

        `room_for` allocates rows for records: it returns a `View` of the rows of each.
        """
        room, begun = self._begun
        same = rows <= room and len(records) == len(begun)
        if not (same and all(a is b for a, b in zip(records, begun, strict=True))):
            self.reducers.begin(records)
            self._room = room_for(rows, self.reducers.sources)
            self._begun, self._rows = (rows, list(records)), -1
        if rows != self._rows:
            parts = {id(view.array): part_of(view.array, 0, max(rows, 1)) for view in self._room}
            self._views = [replace(view, array=parts[id(view.array)]) for view in self._room]
            self._rows = rows

    @property
    def every(self) -> int:
        """Interval in steps of the rows that records need; engines need not write other rows."""
        each = [reducer.record for reducer in self.reducers.each]
        return gcd(*(1 if r.reduce else r.every for r in each)) or 1

    @property
    def only_membranes(self) -> bool:
        """Whether voltages are recorded for membrane currents alone."""
        each = self.reducers.each
        return all(r.membrane is not None for r in each if r.sources[0].kind == VOLTAGE)

    @property
    def arrays(self) -> list[cla.Array]:
        """The arrays that `kept` will read."""
        return [view.array for view in self._views]

    def kept(self, values_of: Callable[[cla.Array], np.ndarray]) -> list[np.ndarray]:
        """Reduce the rows of each record; `values_of` reads an array, each one once."""
        each, rows = self.reducers.each, self._rows
        whole = all([r.plain for r in each if r.record.kind < 0])
        host: dict[int, np.ndarray] = {}

        def rows_of(view: View, width: int) -> np.ndarray:
            key = id(view.array)
            if key not in host:
                host[key] = values_of(view.array)
            return host[key][:rows, view.column : view.column + width]

        kept, views = [], iter(self._views)
        for reducer in each:
            of_sources = [next(views) for _ in reducer.sources]
            width = len(reducer.sources[0].index)
            if reducer.plain and (whole or reducer.record.kind >= 0):
                kept.append(rows_of(of_sources[0], width))
                continue
            more = zip(of_sources[1:], reducer.sources[1:], strict=True)
            outputs = [rows_of(view, len(source.index)) for view, source in more]
            kept.append(reducer.chunk(of_sources[0], rows, self.first_step, outputs))
        return kept
