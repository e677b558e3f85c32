"""Functions of `CVode.extra_scatter_gather(0, f)`, which NEURON calls within each step.

When NEURON calls them, voltages and `i_membrane_` belong to the step's end, states and h.t to its
begin, and Vectors have not recorded the step yet. Functions that only read voltages and
`i_membrane_` are called after a block of steps on the device: once for each step, with the step's
values in NEURON's memory. NEURON takes the first step of a run, in which `AccessHooks` check what
the functions access.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from clhines.neuron.calls import clock
from clhines.neuron.convert import Rejected, reject
from clhines.neuron.importer import NeuronNetwork
from clhines.neuron.memory.raw import gather, put_words
from clhines.neuron.model import NeuronModel
from clhines.neuron.read.hooks import BETWEEN, gathering
from clhines.neuron.read.played import steps_at_once
from clhines.neuron.stepping.access import READ, AccessHooks, GatherError
from clhines.neuron.stepping.step_values import StepValues, of_nodes
from clhines.simulator.result import Result
from clhines.simulator.simulation import Simulation

_tried = [(False, b"")]  # in psolve; and the functions that NEURON's own step called last


class Gathering:
    """Call the functions of `CVode.extra_scatter_gather` for each step of a run on the device."""

    def __init__(self, model: NeuronModel) -> None:
        self._model, self._hooks = model, AccessHooks(model)
        self._values: StepValues | None = None

    def begin(self, in_psolve: bool) -> None:
        self._hooks.in_psolve = in_psolve
        if not self._model.h.t:
            _tried[:] = [(False, b"")]

    @property
    def is_tried(self) -> bool:
        """Whether NEURON has already called the present functions in a step of this run."""
        return self._present == _tried[0]

    @property
    def most_steps(self) -> int:
        """Maximum number of steps to take at once, including the last one, which NEURON takes."""
        return steps_at_once(len(READ) * self._model.tree.num_nodes) + 1

    @property
    def _present(self) -> tuple[bool, bytes]:
        return self._hooks.in_psolve, gather(gathering()).tobytes()

    def start(self, sim: Simulation, imported: NeuronNetwork) -> None:
        """Record all voltages and `i_membrane_` in a simulation."""
        reads, model = of_nodes(self._model, "v"), self._model
        if model.h.CVode().use_fast_imem():
            reads |= of_nodes(model, "i_membrane")
        self._values = StepValues(sim, imported, reads)

    def play(self, result: Result, first: int, begin: float, dt: float) -> None:
        """Call the functions for each step that a run has added to `result`.

        These steps begin at time `begin` (ms), and their rows come after the `first` rows.
        """
        if self._values is None:
            raise RuntimeError("play() before start()")
        steps, addresses = len(result.t) - first, gather(gathering())[:, 0].tolist()
        calls = [self._guarded(_object_at(address)) for address in addresses]
        t = clock(begin, dt, steps)[:-1]
        with (
            self._hooks.installed(raises=True),
            self._values.put_in_turn(result, first, t) as put_next,
        ):
            for _ in range(steps):
                put_next()
                for call in calls:
                    call()
                    if self._hooks.problem:  # f has caught the error
                        raise GatherError(self._hooks.line)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Context manager: check what the functions access while NEURON takes a step."""
        at = gathering()
        words = gather(at)[:, 0].copy()
        calls = [self._guarded(_object_at(word)) for word in words.tolist()]

        def restore() -> None:
            if np.array_equal(gathering(), at):
                put_words(at, words)

        with self._hooks.installed(raises=False):
            self._hooks.before_change = restore
            put_words(at, np.array([id(call) for call in calls], np.uint64))
            try:
                yield
            finally:
                restore()
                self._hooks.before_change = lambda: None
        if not self._hooks.problem:
            _tried[:] = [self._present]

    @property
    def rejected(self) -> list[Rejected]:
        """The first unsupported access as a rejection of the model; empty if there is none."""
        if not self._hooks.problem:
            return []
        way_out = f"extra_scatter_gather_remove(f); {BETWEEN}"
        return [reject("", "neuron.scatter-gather-function", way_out, line=self._hooks.line)]

    def _guarded(self, function_and_arguments: Any) -> Callable[[], None]:
        """Return a function that calls a function of NEURON's list while the hooks check it."""
        function, arguments = function_and_arguments, ()
        if isinstance(function, tuple):
            function, arguments = function
        arguments = arguments if isinstance(arguments, tuple) else (arguments,)

        def call() -> None:
            self._hooks.on = True
            try:
                function(*arguments)
            finally:
                self._hooks.on = False

        return call


def _object_at(address: int) -> Any:
    return ctypes.cast(address, ctypes.py_object).value
