"""The switch: while it is on, NEURON's own calls that run a model run it here.

hoc's ``continuerun()`` is defined anew, and ``ParallelContext.psolve`` and ``batch_run`` are other
functions in NEURON's tables. All keep an exception, let hoc stop, and Python raises it.
"""

from __future__ import annotations

import ctypes
import multiprocessing
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from numpy.typing import DTypeLike

from clhines.checks import as_switch
from clhines.errors import InputError, RankError, meant, say_to_caller, shown
from clhines.neuron.convert import SteppingError
from clhines.neuron.entry import (
    RunOptions,
    advance,
    as_step,
    batch_steps,
    fix_steps,
    solve_steps,
    steps_until,
)
from clhines.neuron.loops import Loops, LostError
from clhines.neuron.memory.objects import Objects
from clhines.neuron.memory.session import Hoc
from clhines.neuron.read.hooks import is_standard, standard
from clhines.neuron.read.wiring import on_ranks
from clhines.neuron.stepping.taken import HocArguments, Taken, neurons_own
from clhines.neuron.versions import supported
from clhines.progress import long_bars

_NAME = "clhines_neuron_switch"  # in hoc
_OWN = "clhines_neuron_continuerun"  # stdrun.hoc's, while the switch is on
_TAKEN = f"""proc continuerun() {{ local begun
    begun = startsw()
    eventcount = 0
    eventslow = 1
    if ({_NAME}.continuerun($1)) {{ execerror({_NAME}.message, "") }}
    flushPlot()
    realtime = startsw() - begun
}}"""
_SHORT = 2.0  # s: runs that show no bar, of which a script may call many
_SHOWN = 400  # characters of a message that hoc prints


@dataclass(frozen=True)
class SwitchOptions:
    request: RunOptions
    fallback: str | None
    fixed_step: float | None
    progress: bool

    def __post_init__(self) -> None:
        as_switch("progress", self.progress)
        if self.fallback not in (None, "neuron"):
            hint = meant(self.fallback, ["neuron"])
            raise InputError(f"fallback is {shown(self.fallback)}; expected 'neuron' or None{hint}")


class Switch:
    """Hooks that NEURON calls while the switch is on; hoc prints `message` of an exception."""

    def __init__(self, h: Hoc) -> None:
        self.message = ""
        self._steps = 0  # run here, but for those of loops
        self._h = h
        self.options: SwitchOptions | None = None  # None: it is off
        self._library = Objects(h)
        self._arguments = HocArguments(self._library)
        self._error: BaseException | None = None
        self._is_running, self.reasons = False, list[str]()
        self._method = self._library.method("ParallelContext", "psolve")
        self._own_method = self._method.value
        kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)
        self._taken_method = kind(self._psolve)
        self._kind, self._own_call = type(h), type(h).__call__
        integer = ctypes.c_int.from_address
        self._interrupt = integer(self._library.address("hoc_intset"))
        self._prints = integer(self._library.address("hoc_execerror_messages"))
        self._aborts = integer(self._library.address("nrn_mpiabort_on_error_"))
        self._own_aborts = self._aborts.value  # whether an error of hoc ends all MPI ranks
        self._in_python = integer(self._library.address("nrn_is_python_extension"))
        self._code: list[int] = []  # where that of the taken procedure is
        self._batch = TakenBatch(h, self._library, self._batch_run)
        with self._batch.being(on=True):  # what is left of it where a loop ends
            self._loops = Loops(h, self._library, self._asked, self._warn_of_loop, self._stop)

    @property
    def steps(self) -> int:
        """Steps that were run here."""
        return self._steps + self._loops.steps

    def set(self, options: SwitchOptions | None) -> None:
        if (options is None) != (self.options is None):
            self._turn_off() if options is None else self._turn_on()
        self.options = options
        self.reasons.clear()

    def _turn_on(self) -> None:
        h = self._h
        h.load_file("stdrun.hoc")
        if is_standard(h, self._library, "continuerun"):
            own = standard(h, "continuerun").replace("proc continuerun", f"proc {_OWN}", 1)
            h(own.replace("flushPlot()", ""))  # which `_TAKEN` calls
            h(f"objref {_NAME}")
            setattr(h, _NAME, self)
            h(_TAKEN)
            self._code = self._library.procedure("continuerun")
        self._take_method()
        self._kind.__call__ = self._calling()
        self._batch.is_on = True
        self._loops.begin(self._step)

    def _take_method(self) -> None:
        self._method.value = ctypes.cast(self._taken_method, ctypes.c_void_p).value or 0

    def _turn_off(self) -> None:
        h = self._h
        self._loops.end()
        self._batch.is_on = False
        self._kind.__call__ = self._own_call
        self._method.value = self._own_method
        if self._code and self._library.procedure("continuerun") == self._code:
            h(standard(h, "continuerun"))
        self._code = []

    def _calling(self) -> Callable[..., Any]:
        """Return how Python calls functions of hoc: it raises the exception that was kept."""
        own = self._own_call

        def call(function: Hoc, *arguments: object, **named: object) -> object:
            loops = self._loops
            loops.called(function)
            loops.calling.append(function)
            try:
                result = own(function, *arguments, **named)
            except BaseException:
                kept = self._kept()
                if kept is None:
                    raise
                raise kept from None
            finally:
                loops.calling.pop()
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
        """Run until a time, ms, for hoc; 1 where that has failed."""
        h = self._h
        h.stoprun = 0
        ran = self._attempt(steps_until(h, stop), lambda: getattr(h, _OWN)(stop))
        return int(not ran)

    def _psolve(self, _: int) -> float:
        stop = self._arguments.number(1)
        h, own = self._h, (ctypes.c_double * 2).from_address(self._library.variable("nrn_threads"))
        t = float(h.t)  # which does not move in NEURON's own

        def count() -> int:
            return solve_steps(h, stop, *own)

        ran = self._attempt(count, lambda: self._own_psolve(stop, t), calls=False, solves=True)
        if not ran:  # psolve() itself calls no advance() of the model's own
            self._interrupt.value = 1  # hoc stops before what comes next
        return 0.0

    def _batch_run(self, words: list[object], own: Callable[[], object]) -> None:
        h = self._h
        match words:
            case [float(stop), float()]:
                if not self._attempt(lambda: batch_steps(h, stop), own, calls=False):
                    self._interrupt.value = 1
            case _:  # NEURON writes a file in its steps, or says what is wrong
                try:
                    with neurons_own():
                        own()
                except BaseException as error:
                    self._stop(error)

    def _asked(self) -> tuple[RunOptions, float | None]:
        assert self.options is not None
        request = self.options.request
        return RunOptions(*request[:3], calls=False), self.options.fixed_step  # a loop calls all

    def _step(self) -> None:
        """Take a step of a loop, in place of ``fadvance``."""
        options = self.options
        assert options is not None
        try:
            try:
                self._loops.advance()
            except InputError as error:
                if options.fallback is None or isinstance(error, LostError):
                    raise
                self._warn(str(error))
                self._loops.leave("")
                self._h.fadvance()
        except BaseException as error:
            self._stop(error)

    def _stop(self, error: BaseException) -> None:
        """Keep an exception, and let hoc stop before what comes next."""
        self._keep_error(error)
        self._interrupt.value = 1

    def _warn_of_loop(self, why: str) -> None:
        """Say why NEURON takes the steps of a loop, where anything is said of runs."""
        assert self.options is not None
        if self.options.fallback is not None or self.options.progress:
            self._warn(why)

    def _own_psolve(self, stop: float, t: float) -> None:
        self._h.t = t
        self._method.value = self._own_method
        try:
            self._h.ParallelContext().psolve(stop)
        finally:
            self._take_method()

    def _attempt(self, count: Callable[[], int], own: Callable[[], object], **how: bool) -> bool:
        """Run, or let NEURON's `own` do; `how` are fields of `RunOptions`."""
        options = self.options
        assert options is not None
        try:
            try:
                device, dtype, engine = options.request[:3]
                self._run(count, options, RunOptions(device, dtype, engine, **how))
            except (InputError, RankError) as error:
                if isinstance(error, SteppingError) and not on_ranks(self._h):
                    own()  # a loop around `fadvance`, which sees what is done between steps
                    return self._error is None
                if options.fallback is None:
                    raise
                if on_ranks(self._h):
                    raise InputError(f"{error}; fallback='neuron' is for one process") from error
                self._warn(str(error))
                with neurons_own():
                    own()
        except BaseException as error:
            self._keep_error(error)
        return self._error is None

    def _keep_error(self, error: BaseException) -> None:
        """Keep an exception, which Python raises, and let hoc say it where there is no Python."""
        error = self._kept() or error  # one of a step, which has let hoc stop
        self._error, self._own_aborts = error, self._aborts.value
        if self._loops.calling:  # Python raises it, on the ranks that have it
            self._aborts.value = 0
        self.message = " ".join(str(error).split())[:_SHOWN]
        if multiprocessing.parent_process() is not None:  # whose pool may drop exceptions
            say_to_caller(f"this model has not been run: {self.message}")
        self._prints.value = int(not self._in_python.value)

    def _run(self, count: Callable[[], int], options: SwitchOptions, request: RunOptions) -> None:
        if self._is_running:
            raise InputError("a run has been called in a run; expected none in CVode.event")
        self._is_running = True
        try:
            fix_steps(self._h, options.fixed_step)
            with long_bars(_SHORT):
                self._steps += advance(self._h, count, request, options.progress)
        finally:
            self._is_running = False

    def _warn(self, message: str) -> None:
        message = " ".join(message.split())
        if message not in self.reasons:
            self.reasons.append(message)
            say_to_caller(f"NEURON itself runs this model, as {message}")


class TakenBatch(Taken):
    """Lets hoc's ``batch_run`` be another function while it is on.

    Parameters
    ----------
    h, library
    run : callable
        Called with its arguments and with what calls NEURON's own.
    """

    def __init__(
        self, h: Hoc, library: Objects, run: Callable[[list[object], Callable[[], object]], None]
    ) -> None:
        library.built_in("fadvance")  # where others are as this one
        arguments = HocArguments(library)

        def called() -> None:
            words = arguments.all()

            def own() -> None:
                with self.off():
                    h.batch_run(*words)

            run(words, own)
            arguments.give(1.0)

        super().__init__(library.function_of_hoc("batch_run"), called)


_switch: list[Switch] = []


class Enabled(AbstractContextManager["Enabled"]):
    """The switch that `enable` has turned on; the end of a ``with`` block sets it as it was."""

    def __init__(self, switch: Switch, options: SwitchOptions) -> None:
        self._switch, self._before, self._first = switch, switch.options, switch.steps
        switch.set(options)

    @property
    def steps(self) -> int:
        """Number of steps run here, and not by NEURON, since it was turned on."""
        return self._switch.steps - self._first

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why NEURON has run what it ran itself, since it was turned on."""
        return tuple(self._switch.reasons)

    def __exit__(self, *_: object) -> None:
        self._switch.set(self._before)


def enable(
    device: object = None,
    dtype: DTypeLike = "float64",
    engine: str = "auto",
    fallback: str | None = None,
    fixed_step: float | None = None,
    progress: bool = False,
) -> Enabled:
    """Let NEURON's own calls run models here, as `run` does, until `disable`.

    These are ``h.run()`` and ``h.continuerun(tstop)``, from Python and hoc,
    ``ParallelContext.psolve(tstop)``, ``h.batch_run(tstop, tstep)`` without a file, and loops
    around ``h.fadvance()``. With ``with enable():``
    the switch is set to what it was at the end of the block.

    Parameters
    ----------
    device, dtype, engine
        See `Simulation`.
    fallback : None or "neuron"
        ``"neuron"``: NEURON runs what cannot be simulated here, with a warning that says why; not
        on several MPI ranks.

    fixed_step : float, ms, optional
        See `run`.
    progress : bool
        See `run`; a bar is shown of runs that take longer than two seconds.

    Returns
    -------
    Enabled
        A context manager; its `steps` counts those that were run here, `reasons` says why NEURON
        has run others.

    Raises
    ------
    InputError
        NEURON is not installed, or cannot be switched; an argument is wrong. While the switch is
        on, NEURON's calls raise what `run` does, where Python has called hoc; in processes of
        `multiprocessing`, whose caller may drop exceptions, a UserWarning says it, too.
    """
    request = RunOptions.of(device, dtype, engine)
    options = SwitchOptions(request, fallback, as_step(fixed_step), progress)
    h = supported()
    if not _switch:
        try:
            _switch.append(Switch(h))
        except OSError as error:
            raise InputError(
                f"NEURON cannot be switched here ({error}); expected NEURON 9 on Linux or macOS"
            ) from None
    return Enabled(_switch[0], options)


def disable() -> None:
    """Let NEURON run models itself again, also inside of ``with enable():``."""
    if _switch:
        _switch[0].set(None)


def enable_as(value: str) -> None:
    """Turn the switch on, for the environment variable ``CLHINES_NEURON``: it is to be 1."""
    if value != "1":
        raise InputError(f"CLHINES_NEURON is {shown(value)}; expected 1 or 0")
    enable()
