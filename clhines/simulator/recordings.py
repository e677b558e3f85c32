"""Recordings: the records of a simulation, and their rows that go to files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.errors import InputError, shown
from clhines.core.files import PathLike
from clhines.simulator.network.groups import Group
from clhines.simulator.ranks.mpi import agreed
from clhines.simulator.records.columns import Recording, columns_of
from clhines.simulator.records.records import (
    CROSSED,
    MEMBRANE,
    Record,
    chunk_of,
    for_run,
    is_current,
    unit_of,
)
from clhines.simulator.records.requests import find_record, with_reduction
from clhines.simulator.records.writer import RecordWriter
from clhines.simulator.runner import Runner
from clhines.simulator.state.chunk import Chunk


class Recordings:
    """Records of the runs of a simulation, by number."""

    def __init__(self, runner: Runner, dtype: np.dtype) -> None:
        self._runner, self._dtype = runner, dtype
        self._records: list[Record] = []
        self._unwritten = False  # whether rows wait for `write`, on the first rank

    def __len__(self) -> int:
        return len(self._records)

    @property
    def any_computed(self) -> bool:
        """Whether the host computes any from rows and parameters."""
        model = self._runner.model.compiled
        return any(r.kind == MEMBRANE or is_current(r, model) for r in self._records)

    def add(
        self,
        what: str,
        at: ArrayLike | Group,
        index: ArrayLike | None,
        to: PathLike | None,
        label: str | None,
        **reduction: Any,
    ) -> Recording:
        """Add a record; see `Simulation.record`, and `with_reduction` for `reduction`."""
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
            raise InputError(f"name is {shown(label)}, of another record; expected another one")
        rows = None if record.matrix is None else len(record.matrix)
        columns = columns_of(network, at, index, rows)
        record = replace(record, label=label or what, unit=unit_of(record), columns=columns)
        self._records.append(self._with_file(record, to))
        return Recording(len(self._records) - 1, record.label, what, record.unit, columns)

    def _with_file(self, record: Record, to: PathLike | None) -> Record:
        if self._runner.ranks is not None and record.matrix is not None:
            raise InputError("matrix is for one process; expected a simulation without comm")
        if to is None:
            return record
        if self._runner.apart:
            raise InputError("to: each rank has described its own cells; expected no file")
        if record.reduce:
            raise InputError("to is for rows; expected none with reduce")
        with agreed(self._runner.ranks):
            stream = RecordWriter(to)
            if any(r.stream is not None and r.stream.file == stream.file for r in self._records):
                raise InputError(f"to: {stream.file} is of another record; expected another name")
            return replace(record, stream=stream)

    def keep(self, records: list[Record], chunk: Chunk, begin: int, last: int) -> None:
        """Keep the rows of a chunk that go to files, until `write`."""
        dt = self._runner.model.compiled.dt
        for k, record in enumerate(records):
            if record.stream is None:
                continue
            steps = np.arange(-(-begin // record.every) * record.every, last + 1, record.every)
            chunk.values[k] = chunk.values[k][: len(steps)]
            self._unwritten = True
            if self._runner.is_first:
                record.stream.keep(steps * dt, chunk.values[k])

    def write(self, chunks: Sequence[Chunk] = ()) -> None:
        """Write the rows that were kept, and drop them from these chunks.

        If that fails, as on a full disk, the next call writes them.
        """
        for k, record in enumerate(self._records if self._unwritten else ()):
            if record.stream is None:
                continue
            with agreed(self._runner.ranks):
                if self._runner.is_first:
                    record.stream.write()
            for chunk in chunks:
                if k < len(chunk.values):
                    chunk.values[k] = chunk.values[k][:0].copy()
        self._unwritten = False

    def of_run(self, begin: int, steps: int) -> tuple[list[Record], int]:
        """Return the records of a run, and the steps of its chunks; their memory is checked."""
        runner, model = self._runner, self._runner.model.compiled
        records = for_run(self._records, begin, steps, model.dt)
        exchanges = runner.ranks is not None or not model.has_times
        epoch = runner.run.max_steps if exchanges else 1
        chunk = runner.engine_run.chunk
        return records, chunk_of(records, steps, self._dtype.itemsize, chunk, epoch)

    def first_values(self, records: list[Record], step: int) -> list[Chunk]:
        """Return the values at t = 0; crossings begin with the values before any run."""
        if step and not any(r.follows for r in records):
            return []
        values = self._runner.run.now(records, step)
        if step:
            return []
        values = [v[:0] if r.reduce else v for r, v in zip(records, values, strict=True)]
        start = Chunk.of_none(np.zeros(0, np.int32), values)
        self.keep(records, start, 0, 0)
        return [start]
