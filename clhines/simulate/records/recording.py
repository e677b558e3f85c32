"""Recording: the part of a `Simulation` that says what its runs record."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from clhines.analysis.features import Features
from clhines.device.guard import exclusive
from clhines.errors import InputError
from clhines.files import PathLike
from clhines.model.model import Model
from clhines.network.groups import Group
from clhines.network.network import Network
from clhines.simulate.engines.run import Run
from clhines.simulate.ranks.mpi import Ranks, agreed
from clhines.simulate.records.records import (
    CROSSED,
    Record,
    chunk_of,
    find_record,
    for_run,
    is_current,
    kept_of,
)
from clhines.simulate.records.streams import Stream
from clhines.simulate.state.chunk import Chunk


class Recording:
    """Base of `Simulation`, whose attributes these are."""

    network: Network
    _model: Model
    runner: Run
    ranks: Ranks | None
    dtype: np.dtype
    chunk: int
    _records: list[Record]
    _step: int

    @exclusive
    def record(
        self,
        what: str,
        where: ArrayLike | Group,
        index: ArrayLike | None = None,
        *,
        every: float | None = None,
        reduce: str | Features | None = None,
        threshold: float | None = None,
        matrix: ArrayLike | None = None,
        to: PathLike | None = None,
    ) -> int:
        """Record a variable in the runs that follow.

        Parameters
        ----------
        what : str
            ``v``, mV; ``i_membrane``, the current through a node's membrane, nA and outward, that
            of its capacitance included and those of electrodes (``iclamp``, ``inoise``,
            ELECTRODE_CURRENT) not; a state; ``i``, the mechanism's current in the step before,
            outward, mA/cm² in membranes and nA of points; where events act at exact times instead
            an output, as a current, or a variable of an ion, as ``cai``. Of a group also a
            parameter, or a named expression of states, parameters and `v` as
            ``"ina = gnabar*m^3*h*(v - 50)"``, which the host computes from the rows of a chunk.
        where : (r,) integer, or Group
            Natural nodes for ``v``, ``i_membrane`` and ions; the group that has the state.
        index : (r,) integer, optional
            Which of the group's instances; default: all.
        every : float, optional, ms
            Keep the values at multiples of this time, a multiple of `dt`; default: of all steps.
        reduce : str or Features, optional
            Keep no rows, but of the values at the ends of all steps of a run their ``min``,
            ``max``, ``mean`` or ``integral`` (their sum times `dt`, ms times the unit); how often
            (``count``) or when (``crossings``) they come from below to `threshold` or above it.
            Or, of ``v``, `clhines.analysis.Features`, of the values at t = 0 too.
        threshold : float, optional
            Of ``count`` and ``crossings``.
        matrix : (k, r) float, optional
            Keep k linear combinations, ``matrix @ values``, instead of r values.
        to : str or path-like, optional
            Write the rows of each chunk to ``NAME.h5`` or files ``NAME-00000.npz`` ... instead of
            keeping them, see `clhines.simulate.records.streams`. Of several ranks the first one
            writes.

        Returns
        -------
        int
            Number of the record: ``result[number]``, of features ``result.features[number]``.

        Raises
        ------
        InputError
            There is no such variable or place, or the arguments do not go together.
        """
        record = find_record(self.network, self._model, what, where, index)
        if is_current(record, self._model) and reduce in CROSSED:
            raise InputError(f"reduce={reduce!r} of a current; expected a voltage or a state")
        record = kept_of(record, self._model.dt, every, reduce, threshold, matrix)
        self._records.append(self._with_file(record, to))
        return len(self._records) - 1

    def _with_file(self, record: Record, to: PathLike | None) -> Record:
        """Return the record with a file for its rows, where there is to be one."""
        if self.ranks is not None and record.matrix is not None:
            raise InputError("matrix is for one process; expected a simulation without comm")
        if to is None:
            return record
        if record.reduce:
            raise InputError("to is for rows; expected none with reduce")
        with agreed(self.ranks):
            stream = Stream(to)
            if any(r.stream is not None and r.stream.file == stream.file for r in self._records):
                raise InputError(f"to: {stream.file} is of another record; expected another name")
            return replace(record, stream=stream)

    def _streamed(self, records: list[Record], chunk: Chunk, begin: int, last: int) -> None:
        """Write what a chunk has of the rows after steps `begin` to `last` to its files."""
        for k, record in enumerate(records):
            if record.stream is None:
                continue
            steps = np.arange(-(-begin // record.every) * record.every, last + 1, record.every)
            with agreed(self.ranks):
                if self.ranks is None or self.ranks.rank == 0:
                    record.stream.append(steps * self._model.dt, chunk.values[k][: len(steps)])
            chunk.values[k] = chunk.values[k][:0].copy()

    def _recorded_in(self, steps: int) -> tuple[list[Record], int]:
        """Return the records of a run, and the steps of its chunks; their memory is checked."""
        records = for_run(self._records, self._step, steps, self._model.dt)
        exchanges = self.ranks is not None or not self._model.exact
        epoch = self.runner.max_steps if exchanges else 1
        return records, chunk_of(records, steps, self.dtype.itemsize, self.chunk, epoch)

    def _start(self, records: list[Record]) -> list[Chunk]:
        """Return the values at t = 0; crossings begin with those before any run."""
        if self._step and not any(r.follows for r in records):
            return []
        values = self.runner.now(records, self._step)
        if self._step:
            return []
        values = [v[:0] if r.reduce else v for r, v in zip(records, values, strict=True)]
        none = np.zeros(0, np.int64)
        start = Chunk(none, none, np.zeros(0, np.int32), values, np.zeros(0))
        self._streamed(records, start, 0, 0)
        return [start]
