"""A simulation's records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.errors import InputError, shown
from clhines.simulator.engines.arena_run import ArenaRun
from clhines.simulator.network.groups import Group
from clhines.simulator.records.columns import Recording, columns_of
from clhines.simulator.records.records import (
    CROSSED,
    FEW_BYTES,
    MEMBRANE,
    VOLTAGE,
    Record,
    chunk_of,
    for_run,
    is_current,
    unit_of,
)
from clhines.simulator.records.requests import find_record, with_reduction
from clhines.simulator.runner import Runner
from clhines.simulator.state.chunk import Chunk
from clhines.solver.device import devices


class Recordings:
    """A simulation's records, by the numbers that `Simulation.record` returns."""

    def __init__(self, runner: Runner, dtype: np.dtype) -> None:
        self._runner, self._dtype = runner, dtype
        self._records: list[Record] = []
        self.any_computed = False  # whether the host computes a record from rows and parameters
        self.any_beside_v = False  # whether a record is not a voltage's
        self._any_reduced, self._values_per_step = False, 0
        self._last: tuple[int, object, list[Record], int] = 0, None, [], 0  # see `of_run`
        queue = runner.request.queue
        on_gpu = queue is not None and not devices.is_cpu(queue.device)
        self._memory = queue.device.global_mem_size if queue is not None and on_gpu else 0

    def __len__(self) -> int:
        return len(self._records)

    def add(
        self,
        what: str,
        at: ArrayLike | Group,
        index: ArrayLike | None,
        label: str | None,
        **reduction: Any,
    ) -> Recording:
        """Add a record; arguments as in `Simulation.record`, `label` is its `name`."""
        network, model = self._runner.model.network, self._runner.model.compiled
        if not isinstance(at, Group):
            at = network.nodes(at=at)
        record = find_record(network, model, what, at, index)
        if is_current(record, model) and (reduce := reduction["reduce"]) in CROSSED:
            raise InputError(f"reduce={reduce!r} of a current; expected a voltage or a state")
        record = with_reduction(record, model.dt, **reduction)
        if label is not None and (not isinstance(label, str) or not label):
            raise InputError(f"name is {shown(label)}; expected a text")
        if label is not None and any(label == r.label for r in self._records):
            raise InputError(
                f"name is {shown(label)}, which another record has; expected another one"
            )
        rows = None if record.matrix is None else len(record.matrix)
        columns = columns_of(network, at, index, rows)
        record = replace(record, label=label or what, unit=unit_of(record), columns=columns)
        if record.matrix is not None:
            self._runner.ranks.check_alone("matrix")
        self._records.append(record)
        self._last = 0, None, [], 0
        self.any_computed |= record.kind == MEMBRANE or is_current(record, model)
        self.any_beside_v |= record.kind != VOLTAGE
        self._any_reduced |= bool(record.reduce)
        self._values_per_step += record.values_per_step
        return Recording(len(self._records) - 1, record.label, what, record.unit, columns)

    def of_run(self, begin: int, steps: int) -> tuple[list[Record], int]:
        """Return a run's records, and the number of steps after which rows are read.

        The run takes `steps` steps from step `begin` on.

        HostMemoryError if their rows do not fit into memory.
        """
        engine, before = self._runner.engine_run, self._last
        if steps == before[0] and engine is before[1]:  # as in the run before
            return before[2:]
        runner, model = self._runner, self._runner.model.compiled
        records = list(self._records)
        if self._any_reduced:
            records = for_run(records, begin, steps, model.dt)
        exchanges = runner.ranks.size > 1 or model.has_sums
        epoch = engine.run.max_steps if exchanges else 1
        step_bytes = self._values_per_step * self._dtype.itemsize
        if isinstance(engine.run, ArenaRun):
            step_bytes = -(-step_bytes // engine.run.rows.interval(records))
        if step_bytes * max(steps, epoch) >= FEW_BYTES:  # or there is no memory for the rows
            room = step_bytes, self._dtype.itemsize, self._memory
            return records, chunk_of(records, steps, engine.chunk, epoch, *room)
        if not self._any_reduced:
            self._last = steps, engine, records, engine.chunk
        return records, engine.chunk

    def first_values(self, records: list[Record], step: int) -> list[Chunk]:
        """Return a chunk with the records' values at t = 0, before the first step; else none.

        Before any run, crossings remember the values from which they start.
        """
        if step and not (self._any_reduced and any(r.follows for r in records)):
            return []
        values = self._runner.run.now(records, step)
        if step:
            return []
        values = [v[:0] if r.reduce else v for r, v in zip(records, values, strict=True)]
        return [Chunk.of_none(np.zeros(0, np.int32), values)]
