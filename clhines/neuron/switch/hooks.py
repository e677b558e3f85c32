"""The hooks of the switch: functions that NEURON calls in place of its own while it is on.

hoc's ``continuerun()`` is defined again. ``ParallelContext.psolve``, ``CVode.solve``, ``batch_run``
and ``fadvance`` are replaced in NEURON's tables.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial

from clhines.neuron.calls import (
    FEW,
    NeuronError,
    agreed,
    check_running,
    solve_steps,
    steps_until,
)
from clhines.neuron.frameworks import potentials
from clhines.neuron.memory.redirect import METHOD, HocArguments, Redirect, suspend_in_runs
from clhines.neuron.memory.session import Hoc, load_stdrun
from clhines.neuron.memory.symbols import HocSymbols, is_standard, standard
from clhines.neuron.switch.cost import Accounts
from clhines.neuron.switch.errors import ErrorRelay
from clhines.neuron.switch.runner import CallRunner, SwitchOptions, SwitchState

_NAME = "clhines_neuron_switch"  # the switch's name in hoc
_STANDARD = "clhines_neuron_continuerun"  # stdrun.hoc's continuerun() while the switch is on
_CONTINUERUN = f"""proc continuerun() {{ local begun
    begun = startsw()
    eventcount = 0
    eventslow = 1
    if ({_NAME}.continuerun($1)) {{ execerror({_NAME}.message, "") }}
    flushPlot()
    realtime = startsw() - begun
}}"""
_MOST = 1e9  # ms, psolve's limit
LOOP = "a loop around fadvance(), in place of h.continuerun()"


class ScriptEnd(BaseException):  # no `except Exception` in the script catches it
    """An exception that ends a script at its first run; it says why NEURON would take the run."""


class Switch:
    """Functions that NEURON calls instead of its own; if one fails, hoc prints `message`."""

    def __init__(self, h: Hoc) -> None:
        self._h = h
        self._library = HocSymbols(h)
        self._arguments = HocArguments(self._library)
        self._errors = ErrorRelay(h, self._library)
        method = self._library.method
        self._methods = [
            Redirect(method("ParallelContext", "psolve"), self._psolve, METHOD),
            Redirect(method("CVode", "solve"), self._solve, METHOD),
        ]
        self._loop = Redirect(self._library.built_in("fadvance"), self._fadvance)
        self._batch = Redirect(self._library.function_of_hoc("batch_run"), self._batch_run)
        suspend_in_runs(self._loop, self._batch)
        self._code: list[int] = []  # where hoc has the switch's continuerun()
        self.state = SwitchState(Accounts(h))
        self._runner = CallRunner(h, self.state, self._errors, self._methods)
        potentials.install(lambda: self.state.options is not None)

    @property
    def message(self) -> str:
        return self._errors.message

    def set(self, options: SwitchOptions | None, reasons: list[str]) -> None:
        """Set the options (None: off), and the list that collects why NEURON takes calls."""
        if (options is None) != (self.state.options is None):
            self._turn_off() if options is None else self._turn_on()
        self.state.options, self.state.reasons = options, reasons
        self._loop.turn(options is not None)

    def _turn_on(self) -> None:
        h = self._h
        load_stdrun(h)
        if is_standard(h, self._library, "continuerun"):
            text = standard(h, "continuerun").replace("proc continuerun", f"proc {_STANDARD}", 1)
            h(text.replace("flushPlot()", ""))  # `_CONTINUERUN` calls it
            h(f"objref {_NAME}")
            setattr(h, _NAME, self)
            h(_CONTINUERUN)
            self._code = self._library.procedure("continuerun")
        for redirect in (*self._methods, self._batch):
            redirect.turn(True)
        self._errors.install()

    def _turn_off(self) -> None:
        for redirect in (*self._methods, self._batch):
            redirect.turn(False)
        self._errors.remove()
        if self._code and self._library.procedure("continuerun") == self._code:
            self._h(standard(self._h, "continuerun"))
        self._code = []

    # -- what NEURON calls -----------------------------------------------------------------------

    def continuerun(self, stop: float) -> int:
        """Run until time `stop` (ms) for hoc; return 1 if the run failed."""
        h = self._h
        h.stoprun = 0
        t, dt = float(h.t), float(h.dt)

        def in_neuron() -> None:
            taken = round((h.t - t) / dt) if h.t > t else 0  # steps before a refusal
            for _ in range(-taken % max(int(h.nstep_steprun), 1)):
                h.advance()
            getattr(h, _STANDARD)(stop + (h.dt - dt) / 2)  # ends dt/2 early, with dt at its begin

        done = self._left_out(stop)
        if done is None:
            done = self._runner.attempt(steps_until(h, stop), in_neuron)
        return int(not done)

    def _psolve(self, _: int) -> float:
        arguments, h = self._arguments.all(), self._h
        match arguments:
            case [float(stop), *_]:
                pass
            case _:  # NEURON raises its own error
                wrong = partial(h.ParallelContext().psolve, *arguments)
                self._stop_unless(self._runner.in_neuron(wrong))
                return 0.0
        clock = (ctypes.c_double * 2).from_address(self._library.variable("nrn_threads"))
        t, dt = float(h.t), float(h.dt)  # NEURON's psolve does not move h.t
        begin, transfers = clock[0], self._library.variable("nrnthread_v_transfer_")

        def is_at_clock() -> bool:
            if not clock[0] <= stop * (1 + 1e-11):
                raise NeuronError(
                    f"psolve({stop:g}): NEURON's last step ends at {clock[0]:g} ms; expected a "
                    "later time, or h.finitialize() before"
                )
            solve_steps(h, stop, *clock)
            # below 0 ms NEURON's psolve(t) would end before its clock, and abort the process
            return clock[0] == t >= 0

        def call_without_steps() -> None:
            with self._methods[0].off():
                h.ParallelContext().psolve(t)  # NEURON's errors, as of set_maxstep

        def count() -> int:
            if all(agreed(h, is_at_clock)):  # as MPI ranks exchange events in it
                agreed(h, call_without_steps)
            steps = solve_steps(h, stop, *clock)
            if steps <= FEW or transfers:  # NEURON takes single steps
                check_running(h)
            return steps

        def in_neuron() -> None:
            if begin < clock[0] and stop < clock[0]:  # refused after the last step
                return
            present_dt, h.dt = float(h.dt), dt
            # before single steps NEURON's psolve sets its clock to h.t: steps would be repeated
            rest = stop * (1 + 1e-11) - clock[0] + 1e-9 * dt
            if rest >= (FEW + 1) * dt and not transfers:
                h.t = t
            h.ParallelContext().psolve(stop)
            if h.dt == dt:
                h.dt = present_dt  # set by event code, for the next psolve

        if stop < t or stop > _MOST:  # NEURON raises its own error
            done = self._runner.in_neuron(in_neuron)
        elif (left_out := self._left_out(stop)) is not None:
            done = left_out
        else:  # psolve() does not call the model's own advance()
            done = self._runner.attempt(count, in_neuron, solves=True)
        self._stop_unless(done)
        return 0.0

    def _solve(self, _: int) -> float:
        """Let NEURON execute ``CVode.solve``, and print that the device does not support it."""
        arguments, results = self._arguments.all(), list[float]()
        stop = arguments[0] if arguments else self._h.t + self._h.dt

        def in_neuron() -> None:
            results.append(float(self._h.CVode().solve(*arguments)))

        reason = "CVode.solve()"
        self._leave_to_neuron(reason, in_neuron, self._left_out(stop, reason))
        return results[0] if results else 0.0

    def _batch_run(self) -> None:
        """Let NEURON execute ``batch_run``, and print that the device does not support it."""
        arguments, reason = self._arguments.all(), "batch_run()"
        left_out = self._left_out(arguments[0], reason) if arguments else None
        self._leave_to_neuron(reason, partial(self._h.batch_run, *arguments), left_out)
        self._arguments.give(1.0)

    def _fadvance(self) -> None:
        """Let NEURON execute a loop around ``fadvance``, print why, and turn this hook off."""
        h = self._h
        left_out = self._left_out(float(h.t) + float(h.dt), LOOP)
        self._leave_to_neuron(LOOP, h.fadvance, left_out)
        self._loop.turn(left_out is not None)
        self._arguments.give(1.0)

    def _leave_to_neuron(
        self, reason: str, neuron_call: Callable[[], object], left_out: bool | None
    ) -> None:
        """If a call was not skipped (`left_out` None), print `reason` and let NEURON take it."""
        if left_out is None:
            self._runner.say(reason)
            left_out = self._runner.in_neuron(neuron_call)
        self._stop_unless(left_out)

    def _stop_unless(self, done: bool) -> None:
        if not done:
            self._errors.stop_hoc()

    def _left_out(self, stop: object, reason: str = "") -> bool | None:
        """Skip a run until time `stop` (ms) if the options say so; otherwise return None.

        A skipped run only sets NEURON's clock, and the result is True. If the script must end at
        its first run, the result is False, and ScriptEnd is stored with `reason`: why NEURON would
        take the run.
        """
        options = self.state.options
        if options is None or not options.skips:
            return None
        self.state.skipped = True
        if options.ends:
            self._errors.keep(ScriptEnd(reason))
            return False
        if isinstance(stop, float):
            clock = ctypes.c_double.from_address(self._library.variable("nrn_threads"))
            clock.value = self._h.t = max(stop, float(self._h.t))
        return True
