"""Turn the switch on and off: `enable`, `disable`, and the handle that `enable` returns."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from numpy.typing import DTypeLike

from clhines.core.checks import as_switch
from clhines.core.errors import InputError, say_to_caller, shown, tell
from clhines.neuron.calls import RunOptions, as_step
from clhines.neuron.memory.session import VersionError, as_flag
from clhines.neuron.memory.versions import supported
from clhines.neuron.switch.cost import Accounts
from clhines.neuron.switch.hooks import Switch
from clhines.neuron.switch.runner import WHEN, SwitchOptions, SwitchState

QUIET = "CLHINES_QUIET"  # 1: print no line when a script ends

_switch: list[Switch] = []
_process = os.getpid()  # a forked process does not report


class NoSwitch:
    """A switch that leaves all calls to NEURON, for versions whose memory cannot be read."""

    def __init__(self, reason: str) -> None:
        self.state, self._reason = SwitchState(Accounts(None)), reason

    def set(self, options: SwitchOptions | None, reasons: list[str]) -> None:
        self.state.options, self.state.reasons = options, reasons
        if options is not None and self._reason not in reasons:
            reasons.append(self._reason)


class SwitchHandle(AbstractContextManager["SwitchHandle"]):
    """Counts and reasons since `enable`; the end of a ``with`` block restores the switch."""

    def __init__(self, switch: Switch | NoSwitch, options: SwitchOptions) -> None:
        self._switch, self._state = switch, switch.state
        self._before, self._first = self._state.options, self._state.counts
        self._last: tuple[int, int] | None = None  # counts when the block ended
        self._reasons, self._reasons_before = list[str](), self._state.reasons
        switch.set(options, self._reasons)

    def __repr__(self) -> str:
        state = self._state
        is_on = state.reasons is self._reasons and state.options is not None
        text = f"clhines switch, {'on' if is_on else 'off'}: {self.steps:,} steps run on the device"
        if sooner := self._counts_since()[1]:
            text += f", {sooner:,} by NEURON (sooner there)"
        return text + (f"; stepped by NEURON: {'; '.join(self.reasons)}" if self.reasons else "")

    @property
    def steps(self) -> int:
        """Number of steps run on the device since the switch was turned on."""
        return self._counts_since()[0]

    def _counts_since(self) -> tuple[int, int]:
        device, neuron = self._last or self._state.counts
        return device - self._first[0], neuron - self._first[1]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons why NEURON took calls since the switch was turned on."""
        return tuple(self._reasons)

    def __exit__(self, *_: object) -> None:
        self._last = self._state.counts
        self._switch.set(self._before, self._reasons_before)


def enable(
    device: object = None,
    dtype: DTypeLike = "float64",
    engine: str = "auto",
    strict: bool = False,
    fixed_step: float | None = None,
    progress: bool = False,
    when: str | None = None,
) -> SwitchHandle:
    """Let NEURON's own calls run models on the device, as `run` does, until `disable`.

    The calls are ``h.run()`` and ``h.continuerun(tstop)``, from Python and hoc, and
    ``ParallelContext.psolve(tstop)``. If a call is refused, cannot be built, or does not fit into
    the device's memory, NEURON takes it and continues from the steps before; a line on stderr names
    the reason. NEURON also takes loops around ``fadvance()``, ``batch_run()``, and every call if
    this version failed its self-test; a line says so. All MPI ranks must call `enable`, with the
    same `when`, `strict` and `fixed_step`: a run hangs if only some have called it, because NEURON
    alone runs on the other ranks, and exchanges other messages.

    Parameters
    ----------
    device, dtype, engine
        See `Simulation`.
    strict : bool
        Raise the exception of `run` if a call is refused, instead of letting NEURON take it.
    fixed_step : float, ms, optional
        See `run`.
    progress : bool
        See `run`; runs longer than two seconds show a bar.
    when : {"faster", "always", "never"}, optional
        When the device takes a call: if an estimate says that it ends sooner, always, or never.
        The default is "faster", and "always" with `device`, `engine` or `strict`. Results of the
        device and of NEURON differ by rounding.

    Returns
    -------
    SwitchHandle
        Has `steps` on the device, and `reasons` why NEURON took calls; the end of a ``with
        enable():`` block restores the switch.

    Raises
    ------
    InputError
        NEURON is not installed or cannot be switched, or an argument is wrong. NEURON's calls
        raise SimulationError, and with `strict` what `run` raises (in `multiprocessing` also a
        warning).
    """
    request, step = RunOptions.of(device, dtype, engine), as_step(fixed_step)
    is_auto = isinstance(engine, str) and engine == "auto"
    is_named = not is_auto or device is not None or as_switch("strict", strict)
    if when is None:
        when = "always" if is_named else "faster"
    options = SwitchOptions(request, strict, step, progress, when=when)
    try:
        switch: Switch | NoSwitch = _made("neuron" if when == "always" else "hooks")
    except VersionError as error:
        if strict:
            raise
        say_to_caller(f"NEURON itself runs all models, as {error}")
        switch = NoSwitch(str(error))
    return SwitchHandle(switch, options.within(switch.state.options))


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
    """Unless `is_quiet`, store measured times, and print on rank 0 how many steps ran where."""
    if is_quiet or os.getpid() != _process:
        return
    accounts = _switch[0].state.accounts
    accounts.save()
    if str(accounts) and not as_flag(QUIET):
        tell(str(accounts))


@contextmanager
def skipping(ends: bool = False) -> Iterator[SwitchState]:
    """Context manager: runs only set NEURON's clock; with `ends`, the first one ends the script."""
    switch = _made()
    options = SwitchOptions(RunOptions.of(None, "float64", "auto"), skips=True, ends=ends)
    switch.state.skipped = False
    with SwitchHandle(switch, options):
        yield switch.state


def disable() -> None:
    """Let NEURON run models itself again, even inside ``with enable():``."""
    if _switch:
        _switch[0].set(None, [])


def enable_as(value: str) -> None:
    """Turn the switch on as the variable ``CLHINES_NEURON``, whose text is `value`, says."""
    if value not in ("1", *WHEN):
        raise InputError(
            f"CLHINES_NEURON is {shown(value)}; expected 1, 0, faster, always or never"
        )
    enable(when="faster" if value == "1" else value)
