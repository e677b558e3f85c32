"""Recording: the part of a `Simulation` that says what its runs record."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from clhines.analysis.features import Features
from clhines.device.guard import exclusive
from clhines.errors import InputError
from clhines.network.groups import Group
from clhines.network.model import Model
from clhines.network.network import Network
from clhines.simulate.mpi import Ranks
from clhines.simulate.records import (
    CROSSED,
    Record,
    chunk_of,
    find_record,
    for_run,
    is_current,
    kept_of,
)
from clhines.simulate.runs import Run
from clhines.simulate.state import Chunk


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
    ) -> int:
        """Record a variable in the runs that follow.

        Parameters
        ----------
        what : str
            ``v``, mV; ``i_membrane``, the current through a node's membrane, nA and outward, that
            of its capacitance included and those of electrodes (``iclamp``, ``inoise``,
            ELECTRODE_CURRENT) not; a state; ``i``, the mechanism's current in the step before,
            outward, mA/cm² in membranes and nA of points; of extended networks instead an output,
            as a current, or a variable of an ion, as ``cai``.
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
            Or, of ``v``, `clhines.analysis.Features`; where the run begins at t = 0, the values
            there count, too.
        threshold : float, optional
            Of ``count`` and ``crossings``.
        matrix : (k, r) float, optional
            Keep k linear combinations, ``matrix @ values``, instead of r values.

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
        if self.ranks is not None and matrix is not None:
            raise InputError("matrix is for one process; expected a simulation without comm")
        self._records.append(record)
        return len(self._records) - 1

    def _recorded_in(self, steps: int) -> tuple[list[Record], int]:
        """Return the records of a run, and the steps of its chunks; their memory is checked."""
        records = for_run(self._records, self._step, steps, self._model.dt)
        exchanges = self.ranks is not None or self._model.extended is None
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
        return [Chunk(none, none, np.zeros(0, np.int32), values)]
