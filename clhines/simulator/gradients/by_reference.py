"""A reference run's gradient, in NumPy: the oracle for gradients on devices."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

import numpy as np

from clhines.core.errors import InputError
from clhines.simulator.engines.reference import wanted_outputs
from clhines.simulator.gradients.adjoint import Adjoint
from clhines.simulator.gradients.trace import TracedRun
from clhines.simulator.model.model import Model
from clhines.simulator.records.records import ION, VOLTAGE, Record
from clhines.simulator.refusals import refusal


class ReferenceGradient:
    """Reverse-mode gradient in NumPy: advance from t = 0, then go back to t = 0.

    It stores about as many states as the square root of the step count. The steps between two
    stored states run again, with a trace, when the derivatives reach them.
    """

    def __init__(
        self, model: Model, records: Sequence[Record], steps: int, surrogate: float | None = None
    ) -> None:
        self.model, self.records, self.steps = model, records, steps
        self._wanted, self._surrogate = wanted_outputs(model, records), surrogate
        self._stretch = max(1, isqrt(steps))
        self._states: dict[int, dict[str, np.ndarray]] = {}

    def forward(self) -> list[np.ndarray]:
        """Advance all steps; return the rows of each record."""
        self._run = run = TracedRun(self.model, self._wanted)  # each call starts at t = 0
        rows = [[self._row(r)] for r in self.records]
        with np.errstate(all="ignore"):
            for step in range(self.steps):
                if step % self._stretch == 0:
                    self._states[step] = run.save()
                run.step(step)
                for r, record in zip(rows, self.records, strict=True):
                    if (step + 1) % record.every == 0:
                        r.append(self._row(record))
        run.events.check()
        result = [np.array(r) for r in rows]
        if not all(np.isfinite(values).all() for values in (run.variables.v, *result)):
            raise InputError(refusal("gradient.run"))
        return result

    def _row(self, record: Record) -> np.ndarray:
        values = np.array(self._run.recorded(record))
        return values if record.matrix is None else record.matrix @ values

    def backward(self, cotangents: Sequence[np.ndarray]) -> Adjoint:
        """Return the loss's derivatives by all variables; `cotangents` has them by record rows."""
        run, adjoint = self._run, Adjoint(self._run, self._surrogate)
        end = self.steps
        for begin in reversed([*self._states]):
            run.load(self._states[begin])
            with np.errstate(all="ignore"):
                entries = [run.step_traced(step) for step in range(begin, end)]
            for step in reversed(range(begin, end)):
                self._add(adjoint, cotangents, step + 1)
                adjoint.take_back(entries.pop())
            end = begin
        self._add(adjoint, cotangents, 0)
        adjoint.keep_start()
        adjoint.take_back(run.start_entries)
        adjoint.finish()
        return adjoint

    def _add(self, adjoint: Adjoint, cotangents: Sequence[np.ndarray], step: int) -> None:
        for record, rows in zip(self.records, cotangents, strict=True):
            if step % record.every:
                continue
            row = rows[step // record.every]
            row = row if record.matrix is None else row @ record.matrix
            np.add.at(self._slopes(adjoint, record), record.index, row)

    def _slopes(self, adjoint: Adjoint, record: Record) -> np.ndarray:
        if record.kind == VOLTAGE:
            return adjoint.v
        if record.kind == ION:
            return adjoint.ions[record.name]
        k, name, variables = record.kind, record.name, self._run.variables
        if name in variables.states[k]:
            return adjoint.states[k][name]
        owner = adjoint.outputs if name in variables.outputs[k] else adjoint.parameters
        return owner[k][name]
