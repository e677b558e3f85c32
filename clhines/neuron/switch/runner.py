"""Run a call on the device, or let NEURON take it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from clhines.core.checks import as_choice, as_switch
from clhines.core.errors import InputError, is_refusal, shown, tell
from clhines.core.progress import long_bars
from clhines.neuron.calls import NeuronError, RunOptions, agreed, fix_steps
from clhines.neuron.memory.objects import on_ranks
from clhines.neuron.memory.redirect import Redirect, without_redirects
from clhines.neuron.memory.session import Hoc
from clhines.neuron.memory.versions import supported
from clhines.neuron.switch.background import BackgroundWork
from clhines.neuron.switch.cost import Accounts, is_tested
from clhines.neuron.switch.errors import ErrorRelay
from clhines.simulator.refusals import refusal, way_out_of

if TYPE_CHECKING:
    from clhines.neuron.kept import KeptModel

WHEN = ("faster", "always", "never")  # when the device takes a call
_CVODE = refusal("neuron.cvode-variable-time-steps")
_SHORT = 2.0  # s: shorter runs show no bar, as a script may have many


@dataclass(frozen=True)
class SwitchOptions:
    request: RunOptions
    strict: bool = False
    fixed_step: float | None = None
    progress: bool = False
    skips: bool = False  # runs only set NEURON's clock
    ends: bool = False  # the first run ends the script
    when: str = "always"

    def __post_init__(self) -> None:
        engine: object = self.request.engine
        if not isinstance(engine, str) or engine != "auto":
            from clhines.simulator.importing import CHOICES

            as_choice("engine", engine, CHOICES)
        as_switch("strict", self.strict)
        as_choice("when", self.when, WHEN)
        as_switch("progress", self.progress)

    def within(self, before: SwitchOptions | None) -> SwitchOptions:
        """Return these options with `skips` and `ends` of the options `before`, unless None."""
        if before is None:
            return self
        return replace(self, skips=before.skips, ends=before.ends)


@dataclass
class SwitchState:
    """The switch's options, and its counts since the process started."""

    accounts: Accounts
    options: SwitchOptions | None = None  # None: it is off
    reasons: list[str] = field(default_factory=list)  # why NEURON took calls
    steps: int = 0  # run on the device
    skipped: bool = False  # a run has been skipped

    @property
    def counts(self) -> tuple[int, int]:
        """Steps run on the device, and steps taken by NEURON because it ends sooner."""
        return self.steps, self.accounts.neuron_steps


class CallRunner:
    """Run calls on the device, or in NEURON with NEURON's own `methods` restored."""

    def __init__(
        self, h: Hoc, state: SwitchState, errors: ErrorRelay, methods: Sequence[Redirect]
    ) -> None:
        self._h, self._state, self._errors, self._methods = h, state, errors, methods
        self._is_running = self._is_in_neuron = False
        self._run_seconds, self._device = 0.0, "NEURON"  # in the last run
        self._stretches = list[float]()  # s per stretch, without the device's steps
        self._stretch_begin = 0.0
        self._background = BackgroundWork()

    def attempt(
        self, count: Callable[[], int], neuron_call: Callable[[], object], solves: bool = False
    ) -> bool:
        """Run `count()` steps on the device, or let NEURON run them by `neuron_call`.

        `solves`: see `RunOptions`. Return False if the call raised an exception.
        """
        options = self._state.options
        # a call made by code inside NEURON's own call belongs to NEURON, too
        if options is None or self._is_in_neuron:
            return self.in_neuron(neuron_call)
        accounts, begin, steps_before = self._state.accounts, time.perf_counter(), self._state.steps
        accounts.begin_call()
        try:
            self._check_same(options)
            if options.when == "never":
                return self.in_neuron(neuron_call)
            agreed(self._h, partial(self._fix_steps, options))
            if options.when == "faster":
                steps = agreed(self._h, count)[0]
                self._background.check()
                sooner = accounts.device_is_sooner(steps)
                if self._compiles_ahead(steps, sooner, options.request) or not sooner:
                    return self._sooner_in_neuron(steps, neuron_call)
            device, dtype, engine = options.request[:3]
            self._run(count, options.progress, RunOptions(device, dtype, engine, solves))
        except BaseException as error:
            if options.strict or not is_refusal(error):
                self._errors.keep(error)
                return False
            self.say(str(error))
            accounts.refuse()
        else:
            seconds, steps = time.perf_counter() - begin, self._state.steps - steps_before
            pauses = self._stretches[1:]
            accounts.add_device(steps, seconds, self._run_seconds, pauses, self._device)
            return True
        t = float(self._h.t)
        done = self.in_neuron(neuron_call)
        # Python's next call to hoc raises a stored exception
        if done and not self._h.CVode().active() and self._h.dt > 0:
            accounts.refused_steps += max(round((float(self._h.t) - t) / self._h.dt), 0)
        return done

    def _check_same(self, options: SwitchOptions) -> None:
        """Raise NeuronError on all MPI ranks if options that decide who takes a call differ."""
        names = "when", "strict", "fixed_step"
        every = agreed(self._h, lambda: [getattr(options, name) for name in names])
        for name, *values in zip(names, *every, strict=True):
            other = next((r for r, value in enumerate(values) if value != values[0]), 0)
            if other:
                raise NeuronError(
                    f"enable() has {name}={shown(values[other])} on rank {other} and "
                    f"{shown(values[0])} on rank 0; expected the same on all ranks"
                )

    def _fix_steps(self, options: SwitchOptions) -> None:
        fix_steps(self._h, options.fixed_step)
        if self._h.CVode().active():
            raise InputError(f"{_CVODE}; {way_out_of(_CVODE)}")

    def _compiles_ahead(self, steps: int, is_due: bool, request: RunOptions) -> bool:
        """Compile for later calls in a child process if useful; return whether a child runs."""
        background = self._background
        ledger = self._state.accounts.ledger_to_compile(steps, is_due)
        if ledger is None:
            return False
        if background.can_start and not is_tested():
            background.test_neuron()
        elif background.can_start and not ledger.is_compiled_ahead:
            ledger.is_compiled_ahead = True
            from clhines.neuron.entry import save_network

            background.compile(save_network, request, ledger.set_compiled)
        return background.is_running

    def _sooner_in_neuron(self, steps: int, neuron_call: Callable[[], object]) -> bool:
        begin = time.perf_counter()
        done = self.in_neuron(neuron_call)
        if done and not self._h.stoprun:
            self._state.accounts.add_neuron(steps, time.perf_counter() - begin)
        return done

    def in_neuron(self, neuron_call: Callable[[], object]) -> bool:
        """Let NEURON take a call; return False if it raised an exception."""
        before, self._is_in_neuron = self._is_in_neuron, True
        try:
            with without_redirects(), ExitStack() as stack:
                for method in self._methods:
                    stack.enter_context(method.off())
                neuron_call()
        except BaseException as error:
            self._errors.keep(error)
        finally:
            self._is_in_neuron = before
        return self._errors.is_empty

    def _run(self, count: Callable[[], int], progress: bool, request: RunOptions) -> None:
        if self._is_running:
            raise InputError("a run has been called in a run; expected none in CVode.event")
        supported()
        from clhines.neuron.entry import advance  # imports all readers

        self._is_running, self._run_seconds, self._stretches = True, 0.0, []
        self._stretch_begin = time.perf_counter()
        try:
            with long_bars(_SHORT):
                advance(self._h, count, request, progress, tell=self._add)
        finally:
            self._is_running = False

    def _add(self, steps: int, kept: KeptModel) -> None:
        """Count `steps` steps, of which NEURON took the last, and measure their time."""
        self._state.steps += steps
        begin, self._stretch_begin = self._stretch_begin, time.perf_counter()
        self._stretches.append(self._stretch_begin - begin - kept.run_seconds)
        self._run_seconds, kept.run_seconds = self._run_seconds + kept.run_seconds, 0.0
        self._device = self._device if kept.sim is None else kept.sim.device_label

    def say(self, reason: str) -> None:
        """Print once on stderr why NEURON takes a call (MPI rank 0 only)."""
        reason, reasons = " ".join(reason.split()), self._state.reasons
        if _without_numbers(reason) in map(_without_numbers, reasons):
            return
        reasons.append(reason)
        if not (on_ranks(self._h) and self._h.ParallelContext().id()):
            tell(f"stepped by NEURON: {reason}")


def _without_numbers(reason: str) -> str:
    """Remove numbers from a reason, so that reasons with different times are printed once."""
    return re.sub(r"[-+.\d]+", "", reason)
