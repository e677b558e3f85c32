"""Calls a model's own `advance()` or `step()` for each step of a run, with the values of that step.

A block of steps runs here; then the procedure is called once for each. The function ``fadvance``
that it calls is another one meanwhile: it puts the values of the next step into NEURON's memory,
where nothing else of the block is yet. In the last call it is NEURON's step.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from clhines.errors import InputError
from clhines.neuron.back.writeback import Records, clock
from clhines.neuron.importer import Imported
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.raw import numbers_in, ref
from clhines.neuron.memory.session import Hoc
from clhines.neuron.read.played import Recorder
from clhines.neuron.stepping.taken import TakenStep
from clhines.simulate.result import Result
from clhines.simulate.simulation import Simulation


class StopRunError(Exception):
    """Code has set `stoprun`, or raised `error`, in a step of a block, after some steps of it."""

    def __init__(self, steps: int, stoprun: int, error: Exception | None = None) -> None:
        super().__init__(steps)
        self.steps, self.stoprun, self.error = steps, stoprun, error


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


class Replay:
    """Records what such code reads in a simulation, and calls it after a run."""

    def __init__(self, sim: Simulation, imported: Imported) -> None:
        self._imported, self._dt = imported, sim.model.dt
        stepping, memory = imported.model.stepping, imported.model.memory
        assert stepping is not None
        self._procedure = stepping.procedure
        self._places = [*stepping.reads]
        self._records = Records(sim, imported, [
            Recorder(0, None, variable, now=memory.value(place), place=place)
            for place, variable in stepping.reads.items()
        ])  # fmt: skip

    def play(self, result: Result, begin: float, first: int) -> None:
        """Call it for each step of a run from `begin`, ms, less its `first` rows.

        NEURON's memory is as before then, also where `StopRunError` is raised.
        """
        model = self._imported.model
        h, steps = model.h, len(result.t) - first
        rows = np.empty((steps, len(self._places) + 1))
        for k, row in enumerate(self._records.rows(result, first)):
            rows[:, k] = row
        rows[:, -1] = clock(begin, self._dt, steps)[1:]
        places = [*self._places, model.memory.place(ref(h, "t"))]
        numbers = (model.memory.number(place) for place in places)
        at = np.array([ctypes.addressof(number) for number in numbers], np.int64)
        memory, where = numbers_in(at)
        before = memory[where]
        taken = 0

        def take() -> None:
            nonlocal taken
            memory[where] = rows[taken]
            taken += 1

        call = getattr(h, self._procedure)
        try:
            with stepping_by(h, model.memory, take) as raise_kept:
                while taken < steps:
                    call_once(call, raise_kept)
                    if h.stoprun:
                        raise StopRunError(taken, int(h.stoprun))
        except RuntimeError as error:  # of hoc
            raise StopRunError(taken, int(h.stoprun), error) from error
        finally:
            memory[where] = before


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
