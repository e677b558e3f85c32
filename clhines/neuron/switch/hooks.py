"""The switch: while it is on, NEURON's own calls that run a model run it on the device.

hoc's ``continuerun()`` is defined again, and ``ParallelContext.psolve`` and ``batch_run`` are other
functions in NEURON's tables. NEURON takes a call that is refused, and a line says why. An exception
that is to be raised is kept, hoc stops, and Python raises it.
"""

from __future__ import annotations

import atexit
import ctypes
import multiprocessing
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from numpy.typing import DTypeLike

from clhines.core.checks import as_choice, as_switch
from clhines.core.errors import InputError, is_refusal, say_to_caller, shown, tell
from clhines.core.progress import long_bars
from clhines.neuron.calls import (
    NeuronError,
    RunOptions,
    as_step,
    batch_steps,
    fix_steps,
    solve_steps,
    steps_until,
)
from clhines.neuron.memory.objects import Objects, on_ranks
from clhines.neuron.memory.redirect import (
    HocArguments,
    Redirect,
    is_standard,
    standard,
    without_redirects,
)
from clhines.neuron.memory.session import Hoc, VersionError, as_flag, load_stdrun
from clhines.neuron.memory.versions import supported
from clhines.neuron.switch.cost import Accounts
from clhines.simulator.refusals import refusal, way_out_of

if TYPE_CHECKING:
    from clhines.neuron.kept import KeptModel

WHEN = ("faster", "always", "never")  # the device takes a call
QUIET = "CLHINES_QUIET"  # 1: no line at the end of a script
_NAME = "clhines_neuron_switch"  # in hoc
_OWN = "clhines_neuron_continuerun"  # stdrun.hoc's, while the switch is on
_CONTINUERUN = f"""proc continuerun() {{ local begun
    begun = startsw()
    eventcount = 0
    eventslow = 1
    if ({_NAME}.continuerun($1)) {{ execerror({_NAME}.message, "") }}
    flushPlot()
    realtime = startsw() - begun
}}"""
_CVODE = refusal("neuron.cvode-variable-time-steps")
_MOST = 1e9  # ms, that psolve takes
_SHORT = 2.0  # s: runs that show no bar, of which a script may call many
_SHOWN = 400  # characters of a message that hoc prints


@dataclass(frozen=True)
class SwitchOptions:
    """`skips`: runs are left out, and only the clock is set."""

    request: RunOptions
    strict: bool = False
    fixed_step: float | None = None
    progress: bool = False
    skips: bool = False
    when: str = "always"

    def __post_init__(self) -> None:
        as_switch("strict", self.strict)
        as_choice("when", self.when, WHEN)
        as_switch("progress", self.progress)


class Switch:
    """Hooks that NEURON calls while the switch is on; hoc prints `message` of an exception."""

    def __init__(self, h: Hoc) -> None:
        self.message = ""
        self.steps = 0  # that were run on the device
        self.skipped = False  # whether a run has been left out
        self.reasons = list[str]()  # why NEURON has taken calls
        self.accounts = Accounts(h)
        self.options: SwitchOptions | None = None  # None: it is off
        self._h = h
        self._library = Objects(h)
        self._arguments = HocArguments(self._library)
        self._error: BaseException | None = None
        self._depth = 0  # calls of hoc by Python that have not returned
        self._is_running = self._is_in_neuron = False
        self._run_seconds, self._device = 0.0, "NEURON"  # of the last run
        kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)
        self._methods = [
            (at, at.value, kind(function))
            for at, function in (
                (self._library.method("ParallelContext", "psolve"), self._psolve),
                (self._library.method("CVode", "solve"), self._solve),
            )
        ]
        self._kind, self._own_call = type(h), type(h).__call__
        integer = ctypes.c_int.from_address
        self._interrupt = integer(self._library.address("hoc_intset"))
        self._prints = integer(self._library.address("hoc_execerror_messages"))
        self._aborts = integer(self._library.address("nrn_mpiabort_on_error_"))
        self._own_aborts = self._aborts.value  # whether an error of hoc ends all MPI ranks
        self._in_python = integer(self._library.address("nrn_is_python_extension"))
        self._code: list[int] = []  # where that of the switch's own continuerun() is
        self._loop = Redirect(self._library.built_in("fadvance"), self._fadvance)
        self._batch = Redirect(self._library.function_of_hoc("batch_run"), self._batch_run)

    def set(self, options: SwitchOptions | None, reasons: list[str]) -> None:
        if (options is None) != (self.options is None):
            self._turn_off() if options is None else self._turn_on()
        self.options, self.reasons = options, reasons
        self._loop.is_on = options is not None

    @property
    def neuron_steps(self) -> int:
        """Steps by NEURON, which ended sooner there."""
        return self.accounts.neuron_steps

    def _turn_on(self) -> None:
        h = self._h
        load_stdrun(h)
        if is_standard(h, self._library, "continuerun"):
            own = standard(h, "continuerun").replace("proc continuerun", f"proc {_OWN}", 1)
            h(own.replace("flushPlot()", ""))  # which `_CONTINUERUN` calls
            h(f"objref {_NAME}")
            setattr(h, _NAME, self)
            h(_CONTINUERUN)
            self._code = self._library.procedure("continuerun")
        self._take_methods()
        self._kind.__call__ = self._calling()
        self._batch.is_on = True

    def _take_methods(self) -> None:
        for at, _, function in self._methods:
            at.value = ctypes.cast(function, ctypes.c_void_p).value or 0

    def _turn_off(self) -> None:
        h = self._h
        self._batch.is_on = False
        self._kind.__call__ = self._own_call
        for at, original, _ in self._methods:
            at.value = original
        if self._code and self._library.procedure("continuerun") == self._code:
            h(standard(h, "continuerun"))
        self._code = []

    def _calling(self) -> Callable[..., Any]:
        """Return how Python calls functions of hoc: it raises the exception that was kept."""
        own = self._own_call

        def call(function: Hoc, *arguments: object, **named: object) -> object:
            self._depth += 1
            try:
                result = own(function, *arguments, **named)
            except BaseException:
                kept = self._kept()
                if kept is None:
                    raise
                raise kept from None
            finally:
                self._depth -= 1
            kept = self._kept()
            if kept is not None:
                raise kept
            return result

        return call

    def _kept(self) -> BaseException | None:
        error, self._error = self._error, None
        if error is not None:
            self._interrupt.value, self._aborts.value = 0, self._own_aborts
        return error

    # -- what NEURON calls -----------------------------------------------------------------------

    def continuerun(self, stop: float) -> int:
        """Run until a time, ms, for hoc; 1 if that has failed."""
        h = self._h
        h.stoprun = 0
        ran = self._attempt(stop, steps_until(h, stop), lambda: getattr(h, _OWN)(stop))
        return int(not ran)

    def _psolve(self, _: int) -> float:
        stop = self._arguments.number(1)
        h, own = self._h, (ctypes.c_double * 2).from_address(self._library.variable("nrn_threads"))
        t, dt = float(h.t), float(h.dt)  # h.t does not move in NEURON's own

        def count() -> int:
            if not own[0] <= stop * (1 + 1e-11):
                raise NeuronError(
                    f"psolve({stop:g}): NEURON's last step ends at {own[0]:g} ms; expected a later "
                    "time, or h.finitialize() before"
                )
            return solve_steps(h, stop, *own)

        def in_neuron() -> None:
            now, h.t, h.dt = float(h.dt), t, dt
            h.ParallelContext().psolve(stop)
            if h.dt == dt:
                h.dt = now  # set by code of an event, for the next psolve

        if stop < t or stop > _MOST:  # NEURON's own error
            ran = self._in_neuron(in_neuron)
        else:  # psolve() calls no advance() of the model's own
            ran = self._attempt(stop, count, in_neuron, calls=False, solves=True)
        if not ran:
            self._interrupt.value = 1  # hoc stops before what comes next
        return 0.0

    def _solve(self, _: int) -> float:
        """Take steps of ``CVode.solve``."""
        words, result = self._arguments.all(), list[float]()
        stop = words[0] if words else self._h.t + self._h.dt

        def in_neuron() -> None:
            result.append(float(self._h.CVode().solve(*words)))

        if not self._skips(stop):
            self._say("CVode.solve()")
            if not self._in_neuron(in_neuron):
                self._interrupt.value = 1
        return result[0] if result else 0.0

    def _batch_run(self) -> None:
        words, h = self._arguments.all(), self._h

        def in_neuron() -> None:
            h.batch_run(*words)

        match words:
            case [float(stop), float()]:
                count = partial(batch_steps, h, stop)
                ran = self._attempt(stop, count, in_neuron, calls=False)
            case [first, *_] if self._skips(first):
                ran = True
            case _:  # NEURON writes a file in its steps, or says what is wrong
                self._say("batch_run() writes a file in its steps")
                ran = self._in_neuron(in_neuron)
        if not ran:
            self._interrupt.value = 1
        self._arguments.give(1.0)

    def _fadvance(self) -> None:
        """Take the first step of a loop around ``fadvance``; NEURON takes the others."""
        h = self._h
        if not self._skips(float(h.t) + float(h.dt)):
            self._say("a loop around fadvance(), in place of h.continuerun()")
            if not self._in_neuron(h.fadvance):
                self._interrupt.value = 1
            self._loop.is_on = False
        self._arguments.give(1.0)

    # -- who takes a call ------------------------------------------------------------------------

    def _attempt(
        self, stop: float, count: Callable[[], int], own: Callable[[], object], **how: bool
    ) -> bool:
        """Run, or let NEURON's `own` do; `how` are fields of `RunOptions`."""
        options = self.options
        assert options is not None
        if self._skips(stop):
            return True
        if self._is_in_neuron:  # a call by code in a call that NEURON takes
            return self._in_neuron(own)
        if options.when == "never":
            return self._in_neuron(own)
        begin, ran = time.perf_counter(), self.steps
        self.accounts.begin_call()
        try:
            if options.when == "faster":
                fix_steps(self._h, options.fixed_step)
                if self._h.CVode().active():
                    raise InputError(f"{_CVODE}; {way_out_of(_CVODE)}")
                steps = count()
                if not self.accounts.device_is_sooner(steps):
                    return self._sooner_in_neuron(steps, own)
            device, dtype, engine = options.request[:3]
            self._run(count, options, RunOptions(device, dtype, engine, **how))
        except BaseException as error:
            if options.strict or not is_refusal(error):
                self._keep_error(error)
                return False
            self._say(str(error))
            self.accounts.refuse()
        else:
            seconds = time.perf_counter() - begin
            ran = self.steps - ran
            self.accounts.add_device(ran, seconds, self._run_seconds, self._device)
            return True
        return self._in_neuron(own)

    def _sooner_in_neuron(self, steps: int, own: Callable[[], object]) -> bool:
        begin = time.perf_counter()
        done = self._in_neuron(own)
        if done and not self._h.stoprun:
            self.accounts.add_neuron(steps, time.perf_counter() - begin)
        return done

    def _in_neuron(self, call: Callable[[], object]) -> bool:
        """Let NEURON itself take a call; False if it has raised an exception."""
        before, self._is_in_neuron = self._is_in_neuron, True
        for at, original, _ in self._methods:
            at.value = original
        try:
            with without_redirects():
                call()
        except BaseException as error:
            self._keep_error(error)
        finally:
            self._is_in_neuron = before
            if self.options is not None and not before:
                self._take_methods()
        return self._error is None

    def _skips(self, stop: object) -> bool:
        """Leave a run out, and set NEURON's clock to its end, if that is asked for."""
        assert self.options is not None
        if self.options.skips and isinstance(stop, float):
            clock = ctypes.c_double.from_address(self._library.variable("nrn_threads"))
            clock.value = self._h.t = max(stop, float(self._h.t))
            self.skipped = True
        return self.options.skips

    def _keep_error(self, error: BaseException) -> None:
        """Keep an exception that Python raises; hoc prints it if Python has not called."""
        error = self._kept() or error  # one of a step, which has let hoc stop
        self._error, self._own_aborts = error, self._aborts.value
        if self._depth:  # Python raises it, on the ranks that have it
            self._aborts.value = 0
        self.message = " ".join(str(error).split())[:_SHOWN]
        if multiprocessing.parent_process() is not None:  # whose pool may drop exceptions
            say_to_caller(f"this model has not been run: {self.message}")
        self._prints.value = int(not self._in_python.value)

    def _run(self, count: Callable[[], int], options: SwitchOptions, request: RunOptions) -> None:
        if self._is_running:
            raise InputError("a run has been called in a run; expected none in CVode.event")
        supported()
        from clhines.neuron.entry import advance  # with all readers: if NEURON does not take it

        self._is_running, self._run_seconds = True, 0.0
        try:
            fix_steps(self._h, options.fixed_step)
            with long_bars(_SHORT):
                advance(self._h, count, request, options.progress, tell=self._add)
        finally:
            self._is_running = False

    def _add(self, steps: int, kept: KeptModel) -> None:
        self.steps += steps
        self._run_seconds, kept.run_seconds = self._run_seconds + kept.run_seconds, 0.0
        self._device = self._device if kept.sim is None else kept.sim.device_label

    def _say(self, reason: str) -> None:
        """Say on stderr, once, why NEURON takes a call; of MPI ranks the first does."""
        reason = " ".join(reason.split())
        if _kind(reason) in map(_kind, self.reasons):
            return
        self.reasons.append(reason)
        if not (on_ranks(self._h) and self._h.ParallelContext().id()):
            tell(f"stepped by NEURON: {reason}")


def _kind(reason: str) -> str:
    """Return a reason without its numbers, as of a time: one line is enough."""
    return re.sub(r"[-+.\d]+", "", reason)


_switch: list[Switch] = []
_process = os.getpid()  # not one that is forked from it


class NoSwitch:
    """Stands for the switch where NEURON runs all models, as its memory is not read."""

    steps = neuron_steps = 0

    def __init__(self, reason: str) -> None:
        self.accounts = Accounts(None)
        self.options: SwitchOptions | None = None
        self.reasons, self._reason = list[str](), reason

    def set(self, options: SwitchOptions | None, reasons: list[str]) -> None:
        self.options, self.reasons = options, reasons
        if options is not None and self._reason not in reasons:
            reasons.append(self._reason)


class Enabled(AbstractContextManager["Enabled"]):
    """The switch that `enable` has turned on; the end of a ``with`` block sets it as it was."""

    def __init__(self, switch: Switch | NoSwitch, options: SwitchOptions) -> None:
        self._switch, self._before, self._first = switch, switch.options, switch.steps
        self._reasons, self._reasons_before = list[str](), switch.reasons
        switch.set(options, self._reasons)

    def __repr__(self) -> str:
        is_on = self._switch.reasons is self._reasons and self._switch.options is not None
        text = f"clhines switch, {'on' if is_on else 'off'}: {self.steps} steps run on the device"
        if sooner := self._switch.neuron_steps:
            text += f", {sooner} by NEURON, sooner there"
        return text + (f"; stepped by NEURON: {'; '.join(self.reasons)}" if self.reasons else "")

    @property
    def steps(self) -> int:
        """Number of steps run on the device, and not by NEURON, since it was turned on."""
        return self._switch.steps - self._first

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why NEURON has taken calls itself, since it was turned on."""
        return tuple(self._reasons)

    def __exit__(self, *_: object) -> None:
        self._switch.set(self._before, self._reasons_before)


def enable(
    device: object = None,
    dtype: DTypeLike = "float64",
    engine: str = "auto",
    strict: bool = False,
    fixed_step: float | None = None,
    progress: bool = False,
    when: str | None = None,
) -> Enabled:
    """Let NEURON's own calls run models on the device, as `run` does, until `disable`.

    These are ``h.run()`` and ``h.continuerun(tstop)``, from Python and hoc,
    ``ParallelContext.psolve(tstop)``, and ``h.batch_run(tstop, tstep)`` without a file. If a call
    is refused, cannot be built, or lacks memory on the device, NEURON takes it and goes on from the
    steps before; a line on stderr names the reason. NEURON also takes loops around ``fadvance()``,
    and everything if this version has failed its self-test, and says so. ``with enable():`` sets
    the switch at the end of the block to what it was.

    Parameters
    ----------
    device, dtype, engine
        See `Simulation`.
    strict : bool
        Raise the exception of `run` instead of letting NEURON take a call that is refused.
    fixed_step : float, ms, optional
        See `run`.
    progress : bool
        See `run`; a bar is shown of runs that take longer than two seconds.
    when : {"faster", "always", "never"}, optional
        When the device takes a call: if it ends sooner than NEURON, by an estimate that counts
        everything; always; or never. The default is "faster", and "always" if `device`, `engine`
        or `strict` is given. The choice changes results by rounding only.

    Returns
    -------
    Enabled
        A context manager; its `steps` counts those that were run on the device, `reasons` says why
        NEURON has taken calls.

    Raises
    ------
    InputError
        NEURON is not installed, or cannot be switched; an argument is wrong. While the switch is
        on, NEURON's calls raise SimulationError, and with `strict` what `run` does, if Python has
        called hoc; in processes of `multiprocessing`, whose caller may drop exceptions, a
        UserWarning says it, too.
    """
    request = RunOptions.of(device, dtype, engine)
    step = as_step(fixed_step)
    is_named = device is not None or engine != "auto" or strict
    when = when or ("always" if is_named else "faster")
    try:
        switch: Switch | NoSwitch = _made("neuron" if when == "always" else "hooks")
    except VersionError as error:
        if strict:
            raise
        say_to_caller(f"NEURON itself runs all models, as {error}")
        switch = NoSwitch(str(error))
    skips = switch.options is not None and switch.options.skips
    return Enabled(switch, SwitchOptions(request, strict, step, progress, skips, when))


def _made(test: str = "hooks") -> Switch:
    h = supported(test)
    if not _switch:
        try:
            _switch.append(Switch(h))
            atexit.register(_report, bool(int(h.ParallelContext().id())))
        except OSError as error:
            raise InputError(
                f"NEURON cannot be switched here ({error}); expected NEURON 9 on Linux or macOS"
            ) from None
    return _switch[0]


def _report(is_quiet: bool) -> None:
    """Keep the records of this process, and say who took its steps; the first MPI rank does."""
    if is_quiet or os.getpid() != _process:
        return
    accounts = _switch[0].accounts
    accounts.save()
    if str(accounts) and not as_flag(QUIET):
        tell(str(accounts))


@contextmanager
def skipping() -> Iterator[Switch]:
    """Leave the runs of a block out: each sets NEURON's clock to its end."""
    switch = _made()
    options = SwitchOptions(RunOptions.of(None, "float64", "auto"), skips=True)
    switch.skipped = False
    with Enabled(switch, options):
        yield switch


def disable() -> None:
    """Let NEURON run models itself again, also inside of ``with enable():``."""
    if _switch:
        _switch[0].set(None, [])


def enable_as(value: str) -> None:
    """Turn the switch on, for the environment variable ``CLHINES_NEURON``."""
    if value not in ("1", *WHEN):
        raise InputError(
            f"CLHINES_NEURON is {shown(value)}; expected 1, 0, faster, always or never"
        )
    enable(when="faster" if value == "1" else value)
