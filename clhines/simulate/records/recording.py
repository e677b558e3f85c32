"""Recordings: what the runs of a simulation record."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from clhines.analysis.features import Features
from clhines.errors import InputError, shown
from clhines.files import PathLike
from clhines.network.groups import Group
from clhines.simulate.ranks.mpi import agreed
from clhines.simulate.records import records as requests
from clhines.simulate.records.records import Record, Recording
from clhines.simulate.runner import Runner
from clhines.simulate.state.chunk import Chunk


class Recordings:
    """Records of the runs of a simulation, by number."""

    def __init__(self, runner: Runner, dtype: np.dtype) -> None:
        self._runner, self._dtype = runner, dtype
        self._records: list[Record] = []

    def __len__(self) -> int:
        return len(self._records)

    @property
    def any_computed(self) -> bool:
        """Whether the host computes any from rows and parameters."""
        model, computed = self._runner.model.known, requests.MEMBRANE
        return any(r.kind == computed or requests.is_current(r, model) for r in self._records)

    def add(
        self,
        what: str,
        at: ArrayLike | Group,
        index: ArrayLike | None,
        every: float | None,
        reduce: str | Features | None,
        threshold: float | None,
        matrix: ArrayLike | None,
        to: PathLike | None,
        label: str | None,
    ) -> Recording:
        """Add a record, and return its number and names; see `Simulation.record`."""
        network, model = self._runner.model.network, self._runner.model.known
        if not isinstance(at, Group):
            at = network.nodes(at=at)
        record = requests.find_record(network, model, what, at, index)
        if requests.is_current(record, model) and reduce in requests.CROSSED:
            raise InputError(f"reduce={reduce!r} of a current; expected a voltage or a state")
        record = requests.kept_of(record, model.dt, every, reduce, threshold, matrix)
        if label is not None and (not isinstance(label, str) or not label):
            raise InputError(f"name is {shown(label)}; expected a text")
        if label is not None and any(label == r.label for r in self._records):
            raise InputError(f"name is {shown(label)}, of another record; expected another one")
        rows = None if record.matrix is None else len(record.matrix)
        columns = requests.columns_of(network, at, index, rows)
        record = replace(
            record, label=label or what, unit=requests.kept_unit(record), columns=columns
        )
        self._records.append(self._with_file(record, to))
        return Recording(len(self._records) - 1, record.label, what, record.unit, columns)

    def _with_file(self, record: Record, to: PathLike | None) -> Record:
        if self._runner.ranks is not None and record.matrix is not None:
            raise InputError("matrix is for one process; expected a simulation without comm")
        if to is None:
            return record
        if record.reduce:
            raise InputError("to is for rows; expected none with reduce")
        with agreed(self._runner.ranks):
            stream = requests.RecordWriter(to)
            if any(r.stream is not None and r.stream.file == stream.file for r in self._records):
                raise InputError(f"to: {stream.file} is of another record; expected another name")
            return replace(record, stream=stream)

    def stream(self, records: list[Record], chunk: Chunk, begin: int, last: int) -> None:
        ranks, dt = self._runner.ranks, self._runner.model.known.dt
        for k, record in enumerate(records):
            if record.stream is None:
                continue
            steps = np.arange(-(-begin // record.every) * record.every, last + 1, record.every)
            with agreed(ranks):
                if ranks is None or ranks.rank == 0:
                    record.stream.append(steps * dt, chunk.values[k][: len(steps)])
            chunk.values[k] = chunk.values[k][:0].copy()

    def of_run(self, begin: int, steps: int) -> tuple[list[Record], int]:
        """Return the records of a run, and the steps of its chunks; their memory is checked."""
        runner, model = self._runner, self._runner.model.known
        records = requests.for_run(self._records, begin, steps, model.dt)
        exchanges = runner.ranks is not None or not model.has_times
        epoch = runner.run.max_steps if exchanges else 1
        return records, requests.chunk_of(
            records, steps, self._dtype.itemsize, runner.made.chunk, epoch
        )

    def first_values(self, records: list[Record], step: int) -> list[Chunk]:
        """Return the values at t = 0; crossings begin with those before any run."""
        if step and not any(r.follows for r in records):
            return []
        values = self._runner.run.now(records, step)
        if step:
            return []
        values = [v[:0] if r.reduce else v for r, v in zip(records, values, strict=True)]
        start = Chunk.of_none(np.zeros(0, np.int32), values)
        self.stream(records, start, 0, 0)
        return [start]
