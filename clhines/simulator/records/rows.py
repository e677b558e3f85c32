"""Rows of records on a device: memory for a chunk, and reductions."""

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
from clhines.simulator.records.records import VOLTAGE, Record
from clhines.simulator.records.reduced import DeviceReducer, Reducers, View
from clhines.solver.device.arrays import to_device

# By source: the array (``v`` or ``mem``), and the indices of the values in it
Locations: TypeAlias = "list[tuple[str, np.ndarray]]"
_PATIENCE = 16  # chunks in a row with fewer rows, after which fewer are allocated


class RecordedRows:
    """Device memory for the rows of a run's records; a chunk reuses it if its rows fit.

    `whole_width` is the length of a row with all voltages; 0 if the kernels cannot write such rows.
    `arguments` are the kernels' arguments for the rows.
    """

    def __init__(
        self, model: Model, queue: cl.CommandQueue, dtype: np.dtype, reads: Reads, whole_width: int
    ) -> None:
        self._queue, self._dtype, self._reads = queue, dtype, reads
        self._whole_width = whole_width
        self.arguments: dict[str, np.integer | cla.Array] = {}
        self.take_model(model)

    def take_model(self, model: Model) -> None:
        """Forget all reducers and use the parameters of another model."""
        queue, dtype = self._queue, self._dtype
        self.reducers = Reducers(lambda r: DeviceReducer(r, model, queue, dtype))
        self.first_step = 0  # of the chunk
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
        """Begin a chunk of `rows` rows.

        ``room_for(rows, sources)`` allocates the rows, as `allocate` does, and returns the views.
        """
        room, begun = self._begun
        self._shorter = self._shorter + 1 if rows < room else 0
        change = rows > room or self._shorter == _PATIENCE  # one read brings all if rows are few
        if change or list(records) != begun:  # the same objects, not equal ones
            self.reducers.begin(records)
            self._room = room_for(rows, self.reducers.sources)
            self._begun, self._rows = (rows, list(records)), -1
        if rows != self._rows:
            parts = {id(view.array): part_of(view.array, 0, max(rows, 1)) for view in self._room}
            views = [replace(view, array=parts[id(view.array)]) for view in self._room]
            self._views = list(self.reducers.with_samples(views))
            self._rows, self.arrays = rows, [view.array for view in views]
            # whether no voltage is reduced, so that the host reads their rows
            self._whole = all(r.plain for r in self.reducers.each if r.record.kind < 0)

    def allocate(
        self, rows: int, locations: Locations, owner: np.ndarray, num_owners: int
    ) -> list[View]:
        """Allocate rows for the values of all sources, set `arguments`, return each source's view.

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
        whole = 0 < self._whole_width <= 2 * len(v_index) and self._only_membranes
        width = {"v": self._whole_width if whole else len(v_index), "mem": len(mem_index)}
        room = {
            name: self._reads.zeros(f"{name}_rows", (max(rows, 1), max(each, 1)), self._dtype)
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
            "record_every": np.int32(self._every),
            "num_v": np.int32(width["v"]),
            "num_mem": np.int32(len(mem_index)),
            "v_rows": room["v"],
            "mem_rows": room["mem"],
            **{name: to_device(self._queue, a, np.int32) for name, a in tables.items()},
        }
        views = []
        for column, (source, _), places in zip(
            columns, locations, self._places(locations), strict=True
        ):
            is_whole = whole and source == "v"
            views.append(View(room[source], 0 if is_whole else column, places, is_whole))
        return views

    def _places(self, locations: Locations) -> list[np.ndarray | None]:
        """Return the device indices of each source's nodes, for `View.places`."""
        known = self._whole_width > 0
        return [at if known and source == "v" else None for source, at in locations]

    @property
    def _every(self) -> int:
        """The smallest interval of recorded rows, steps; engines may omit the rows between."""
        each = [reducer.record for reducer in self.reducers.each]
        return gcd(*(1 if r.reduce else r.every for r in each)) or 1

    @property
    def _only_membranes(self) -> bool:
        """Whether voltages are sampled only to compute membrane currents."""
        each = self.reducers.each
        return all(r.membrane is not None for r in each if r.sources[0].kind == VOLTAGE)

    def now(
        self, samples: Sequence[np.ndarray], step: int, locations: Locations
    ) -> list[np.ndarray]:
        """Return each record's values as a step begins, (1, width), from its samples."""
        places = iter(self._places(locations))
        values = []
        for reducer, part in self.reducers.with_samples(samples):
            first, *_ = [next(places) for _ in part]
            values.append(reducer.now(part, step, first))
        return values

    def kept(self, values_of: Callable[[cla.Array], np.ndarray]) -> list[np.ndarray]:
        """Reduce the rows of each record; `values_of` reads an array, each array only once."""
        rows: int = self._rows
        host: dict[int, np.ndarray] = {}

        def rows_of(view: View, source: Record) -> np.ndarray:
            key = id(view.array)
            if key not in host:
                host[key] = values_of(view.array)
            return host[key][:rows, view.column : view.column + len(source.index)]

        kept = []
        for reducer, (first, *others) in self._views:
            if reducer.plain and (self._whole or reducer.record.kind >= 0):
                kept.append(rows_of(first, reducer.sources[0]))
                continue
            outputs = list(map(rows_of, others, reducer.sources[1:]))
            kept.append(reducer.chunk(first, rows, self.first_step, outputs))
        return kept
