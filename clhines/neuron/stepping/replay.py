"""Calls a model's own `advance()` or `step()` for each step of a run, with the values of that step.

A block of steps runs here; then the procedure is called once for each. The function ``fadvance``
that it calls is another one meanwhile: it puts the values of the next step into NEURON's memory,
where nothing else of the block is yet. In the last call it is NEURON's step.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from clhines.errors import InputError
from clhines.neuron.back.writeback import Records, clock
from clhines.neuron.importer import Imported
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.places import Variable
from clhines.neuron.memory.raw import Place, numbers_in, ref
from clhines.neuron.memory.session import Hoc
from clhines.neuron.read.played import Recorder, of_hoc
from clhines.neuron.stepping.taken import TakenStep
from clhines.simulate.result import Result
from clhines.simulate.simulation import Simulation


class StopRunError(Exception):
    """Code has set `stoprun`, or raised `error`, in a step of a block, after some steps of it.

    `of_hoc`: what variables of hoc that Vectors record had in these, by address, (steps,).
    """

    def __init__(
        self,
        steps: int,
        stoprun: int,
        of_hoc: dict[int, np.ndarray],
        error: Exception | None = None,
    ) -> None:
        super().__init__(steps)
        self.steps, self.stoprun, self.of_hoc, self.error = steps, stoprun, of_hoc, error

    def put(self, recorders: Sequence[Recorder]) -> None:
        """Let Vectors have these, once the steps have been taken without the code."""
        for address, some in of_hoc(recorders).items():
            for recorder in some:
                assert recorder.vector is not None
                recorder.vector.as_numpy()[-self.steps :] = self.of_hoc[address]


@contextmanager
def alone(has_others: bool) -> Iterator[None]:
    """Where one rank cannot run a block once more without the others, raise what stops it."""
    try:
        yield
    except StopRunError as stop:
        if not has_others:
            raise
        what = f"stoprun has been set to {stop.stoprun} in a step, on several MPI ranks"
        raise (stop.error or InputError(f"{what}; expected one process")) from None


class StepValues:
    """Records variables in a simulation, and puts those of each step into NEURON's memory."""

    def __init__(self, sim: Simulation, imported: Imported, reads: dict[Place, Variable]) -> None:
        self._memory, self._h = imported.model.memory, imported.model.h
        self._places = [*reads]
        self._records = Records(sim, imported, [
            Recorder(0, None, variable, now=self._memory.value(place), place=place)
            for place, variable in reads.items()
        ])  # fmt: skip

    @contextmanager
    def given(self, result: Result, first: int, t: np.ndarray) -> Iterator[Callable[[], None]]:
        """Give a function that puts the next step of a run, less its `first` rows, into memory.

        h.t is then that of `t`, (steps,) ms. NEURON's memory is as before in the end.
        """
        rows = np.empty((len(t), len(self._places) + 1))
        for k, row in enumerate(self._records.rows(result, first)):
            rows[:, k] = row
        rows[:, -1] = t
        places = [*self._places, self._memory.place(ref(self._h, "t"))]
        numbers = (self._memory.number(place) for place in places)
        at = np.array([ctypes.addressof(number) for number in numbers], np.int64)
        memory, where = numbers_in(at)
        before, each = memory[where], iter(rows)

        def take() -> None:
            memory[where] = next(each)

        try:
            yield take
        finally:
            memory[where] = before


class Replay:
    """Records what such code reads in a simulation, and calls it after a run."""

    def __init__(self, sim: Simulation, imported: Imported) -> None:
        self._model, self._dt = imported.model, sim.model.dt
        assert self._model.stepping is not None
        self._procedure = self._model.stepping.procedure
        self._values = StepValues(sim, imported, self._model.stepping.reads)

    def play(self, result: Result, begin: float, first: int) -> dict[int, np.ndarray]:
        """Call it for each step of a run from `begin`, ms, less its `first` rows.

        Returns what variables of hoc that Vectors record have then, by address, (steps,): NEURON
        records before the code goes on. Its memory is as before in the end, also where
        `StopRunError` is raised.
        """
        h, steps = self._model.h, len(result.t) - first
        call, taken = getattr(h, self._procedure), 0
        own = [*of_hoc(self._model.plays.recorders)]
        memory, where = numbers_in(np.array(own, np.int64))
        rows = np.zeros((steps, len(own)))

        def recorded() -> dict[int, np.ndarray]:
            return dict(zip(own, rows[:taken].T, strict=True))

        with self._values.given(result, first, clock(begin, self._dt, steps)[1:]) as give:

            def take() -> None:
                nonlocal taken
                give()
                rows[taken] = memory[where]
                taken += 1

            try:
                with stepping_by(h, self._model.memory, take) as raise_kept:
                    while taken < steps:
                        call_once(call, raise_kept)
                        if h.stoprun:
                            raise StopRunError(taken, int(h.stoprun), recorded())
            except RuntimeError as error:  # of hoc
                raise StopRunError(taken, int(h.stoprun), recorded(), error) from error
        return recorded()


def call_own(h: Hoc, memory: NeuronMemory, procedure: str, step: Callable[[], object]) -> None:
    """Call a model's own procedure, in which `step` is what ``fadvance`` does."""
    with stepping_by(h, memory, step) as raise_kept:
        call_once(getattr(h, procedure), raise_kept)


def call_once(call: Callable[[], object], raise_kept: Callable[[], None]) -> None:
    try:
        call()
    except BaseException:
        raise_kept()
        raise
    raise_kept()


@contextmanager
def stepping_by(
    h: Hoc, memory: NeuronMemory, step: Callable[[], object]
) -> Iterator[Callable[[], None]]:
    """Let hoc's ``fadvance`` be `step`; give a function that raises an exception of it."""
    kept = list[BaseException]()
    interrupt = ctypes.c_int.from_address(memory.address("hoc_intset"))

    def guarded() -> None:
        try:
            with taken.off():
                step()
        except BaseException as error:
            kept.append(error)
            interrupt.value = 1  # hoc stops before what comes next

    def raise_kept() -> None:
        if kept:
            interrupt.value = 0
            raise kept.pop()

    taken = TakenStep(memory, guarded)
    taken.is_on = True
    try:
        yield raise_kept
    finally:
        taken.is_on = False
