"""Record rows on a device: memory for a chunk, and reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import gcd
from typing import TypeAlias

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.simulator.device.reads import Reads, part_of
from clhines.simulator.model.model import Model
from clhines.simulator.records.records import MEMBRANE, VOLTAGE, Record
from clhines.simulator.records.reduced import DeviceReducer, Reducers, View
from clhines.solver.device.arrays import to_device

# By source: the array (``v`` or ``mem``), and the values' indices in it
Locations: TypeAlias = "list[tuple[str, np.ndarray]]"
_PATIENCE = 16  # chunks in a row with fewer rows, after which fewer are allocated


def _layout(record: Record) -> tuple[object, ...]:
    return record.name, record.kind, id(record.index), record.every, bool(record.reduce)


class RecordedRows:
    """Device memory for a run's record rows; a chunk reuses it if its rows fit.

    `whole_width` is the length of a row with all voltages; 0 if the kernels cannot write such rows.
    `arguments` are the kernels' arguments for the rows.
    """

    def __init__(
        self, model: Model, queue: cl.CommandQueue, dtype: np.dtype, reads: Reads, whole_width: int
    ) -> None:
        self._queue, self._dtype, self._reads = queue, dtype, reads
        self._whole_length = whole_width + whole_width % 2  # so that value pairs are aligned
        self.arguments: dict[str, np.integer | cla.Array] = {}
        self.take_model(model)

    def take_model(self, model: Model) -> None:
        """Forget all reducers and use another model's parameters."""
        queue, dtype = self._queue, self._dtype
        self.model = model  # reducers of later records use it
        self.reducers = Reducers(lambda r: DeviceReducer(r, self.model, queue, dtype))
        self.first_step = 0  # the chunk's
        self.forget_room()

    def forget_room(self) -> None:
        """Allocate memory again for the next chunk, because variables may have moved."""
        self._begun = -1, list[Record]()  # allocated rows, and their records
        self._shorter = 0  # chunks in a row that had fewer rows
        self._room = list[View]()
        self._rows = -1
        self.arrays = list[cla.Array]()  # `kept` will read them

    def begin(
        self,
        rows: int,
        records: Sequence[Record],
        room_for: Callable[[int, list[Record]], list[View]],
    ) -> None:
        """Begin a chunk with `rows` rows.

        ``room_for(rows, sources)`` allocates the rows, as `allocate` does, and returns the views.
        """
        room, begun = self._begun
        if rows == self._rows == room and records == begun:  # as in the chunk before
            return
        self._shorter = self._shorter + 1 if rows < room else 0
        change = rows > room or self._shorter == _PATIENCE  # one read brings all if rows are few
        if change or list(records) != begun:  # the same objects, not equal ones
            self.reducers.begin(records)
            if change or [*map(_layout, records)] != [*map(_layout, begun)]:
                self._room, room = room_for(rows, self.reducers.sources), rows
            self._begun, self._rows = (room, list(records)), -1
        if rows != self._rows:
            parts = {
                id(view.array): part_of(view.array, 0, max(-(-rows // view.interval), 1))
                for view in self._room
            }
            views = [replace(view, array=parts[id(view.array)]) for view in self._room]
            self._rows, self.arrays = rows, [view.array for view in views]
            # if no voltage is reduced, the host reads their rows
            whole = all(r.plain for r in self.reducers.each if r.record.kind < 0)
            each = self.reducers.with_samples(views)
            # of each record: its reducer, the views of its sources, and whether rows are copied
            self._views = [(r, v, r.plain and (whole or r.record.kind >= 0)) for r, v in each]

    def allocate(
        self, rows: int, locations: Locations, owner: np.ndarray, num_owners: int
    ) -> list[View]:
        """Allocate rows for all sources' values, set `arguments`, return each source's view.

        ``owner[k]``, (m,), numbers the work-item that writes the k-th value from ``mem``. If most
        voltages are recorded, all for membrane currents, the rows have all in device order.
        """
        index: dict[str, list[np.ndarray]] = {"v": [np.zeros(0, np.int64)], "mem": []}
        columns = []
        for source, at in locations:
            columns.append(sum(len(a) for a in index[source]))
            index[source].append(at)
        v_index = np.concatenate(index["v"])
        mem_index = np.concatenate([np.zeros(0, np.int64), *index["mem"]])
        whole = self._is_whole(locations)
        interval = self.interval(self._records) if whole else 1
        width = {"v": self._whole_length if whole else len(v_index), "mem": len(mem_index)}
        number = {"v": -(-rows // interval), "mem": rows}
        room = {
            name: self._reads.zeros(
                f"{name}_rows", (max(number[name], 1), max(each, 1)), self._dtype
            )
            for name, each in width.items()
        }
        order = np.argsort(owner, kind="stable")
        tables = {
            "v_index": v_index[: 0 if whole else None],
            "mem_first": np.searchsorted(owner[order], np.arange(num_owners)),
            "mem_column": order,
            "mem_index": mem_index[order],
        }
        self.arguments = {
            "whole": np.int32(whole),
            "record_every": np.int32(interval if whole else self._every),
            "num_v": np.int32(width["v"]),
            "num_mem": np.int32(len(mem_index)),
            "v_rows": room["v"],
            "mem_rows": room["mem"],
            **{name: to_device(self._queue, a, np.int32) for name, a in tables.items()},
        }
        return [
            View(room[source], 0, at, interval)
            if whole and source == "v"
            else View(room[source], column)
            for column, (source, at) in zip(columns, locations, strict=True)
        ]

    def _is_whole(self, locations: Locations) -> bool:
        sampled = sum(len(at) for source, at in locations if source == "v")
        sources = [r for r in self.reducers.each if r.sources[0].kind == VOLTAGE]
        only_membranes = all(r.membrane is not None for r in sources)
        return 0 < self._whole_length <= 2 * sampled and only_membranes

    @property
    def _records(self) -> list[Record]:
        return [reducer.record for reducer in self.reducers.each]

    @property
    def _every(self) -> int:
        """The smallest interval between recorded rows, steps; engines may omit the rows between."""
        return gcd(*(1 if r.reduce else r.every for r in self._records)) or 1

    def interval(self, records: Sequence[Record]) -> int:
        """Return the steps from one row to the next: kernels omit rows that no record keeps.

        Only rows with all voltages are omitted, so all records must be membrane currents.
        """
        if any(r.kind != MEMBRANE or r.reduce for r in records):
            return 1
        whole = 0 < self._whole_length <= 2 * sum(r.num_different for r in records)
        return gcd(*(r.every for r in records)) if whole else 1

    def now(
        self, samples: Sequence[np.ndarray], step: int, locations: Locations
    ) -> list[np.ndarray]:
        whole, values = self._is_whole(locations), []
        for reducer, part in self.reducers.with_samples(list(zip(samples, locations, strict=True))):
            source, at = part[0][1]
            of_rows = (at, self._whole_length) if whole and source == "v" else None
            values.append(reducer.now([sample for sample, _ in part], step, of_rows))
        return values

    def enqueue(self) -> None:
        """Enqueue reductions that need no rows on the host, before it waits for the chunk."""
        for reducer, views, copied in self._views:
            if not copied and len(views) == 1:
                reducer.enqueue(views[0], self._rows, self.first_step)

    def kept(self, values_of: Callable[[cla.Array], np.ndarray]) -> list[np.ndarray]:
        """Reduce each record's rows; `values_of` reads an array, each array only once."""
        rows, host, kept = self._rows, {}, []

        def rows_of(view: View, width: int) -> np.ndarray:
            key = id(view.array)
            if key not in host:
                host[key] = values_of(view.array)
            values: np.ndarray = host[key][:rows, view.column : view.column + width]
            return values

        for reducer, views, copied in self._views:
            if copied:
                kept.append(rows_of(views[0], reducer.width))
                continue
            outputs = [rows_of(v, len(s.index)) for v, s in zip(views[1:], reducer.sources[1:])]
            kept.append(reducer.chunk(views[0], rows, self.first_step, outputs))
        return kept
