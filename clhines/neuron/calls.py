"""Count the steps of NEURON's calls (`continuerun`, `psolve`); their options."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from clhines.core.arrays import half_steps
from clhines.core.checks import as_number
from clhines.core.errors import InputError, description, raise_together, say_to_caller, shown
from clhines.neuron.memory.objects import on_ranks
from clhines.neuron.memory.session import Hoc

_Value = TypeVar("_Value")
_MOST_STEPS = 2**30  # in a run
FEW = 3  # psolve counts up to this many steps one by one


class RunOptions(NamedTuple):
    device: object
    dtype: str
    engine: str
    solves: bool = False  # psolve(), which does not call the model's own advance() and step()

    @classmethod
    def of(cls, device: object, dtype: DTypeLike, engine: str) -> RunOptions:
        """Make options from arguments of `run`; the dtype is stored by name and checked later."""
        try:
            return cls(device, np.dtype(dtype).name, engine)
        except (TypeError, ValueError):
            return cls(device, shown(dtype), engine)


class NeuronError(InputError):
    """NEURON would never end the call, or would end the process."""

    is_refusal = False


def clock(t: float, dt: float, steps: int) -> np.ndarray:
    """Return begin and ends of `steps` steps, (steps + 1,), ms, as NEURON adds up half steps."""
    return half_steps(t, dt, 2 * steps)[::2]


def as_step(fixed_step: object) -> float | None:
    step = None if fixed_step is None else as_number("fixed_step", fixed_step, "ms")
    if step is not None and step <= 0:
        raise InputError(f"fixed_step is {step:g} ms; expected more than 0")
    return step


def fix_steps(h: Hoc, step: float | None) -> None:
    """If CVode's variable steps are on, fix steps at `step` ms; do nothing if `step` is None."""
    if step is None or not h.CVode().active():
        return
    if h.t:
        raise InputError(
            f"fixed_step: CVode's variable steps are on at {h.t:g} ms, in the middle of a run; "
            "expected h.finitialize() before"
        )
    h.CVode().active(0)
    h.dt = step
    if h.name_declared("using_cvode_"):  # stdrun.hoc's settings, for its next init and run
        h.using_cvode_, h.steps_per_ms, h.nstep_steprun = 0, 1 / step, 1
    h.frecord_init()  # Vectors now record at fixed steps
    say_to_caller(f"CVode's variable steps are off: the model runs by fixed steps of {step:g} ms")


def agreed(h: Hoc, do: Callable[[], _Value]) -> list[_Value]:
    """Return the values of `do` on all MPI ranks that exchange events; if one fails, all raise.

    Ranks that exchange nothing are alone.
    """
    if not on_ranks(h):
        return [do()]
    value, error = None, None
    try:
        value = do()
    except Exception as caught:
        error = caught
    every = h.ParallelContext().py_allgather((value, description(error)))
    descriptions = [each for _, each in every]
    if any(line for line, _ in descriptions):
        raise_together(error, descriptions)
    return [value for value, _ in every]


def check_dt(h: Hoc) -> None:
    """Raise a NeuronError unless `h.dt` is above 0: otherwise no call would reach its end."""
    if not 0 < h.dt < math.inf:
        raise NeuronError(f"h.dt is {h.dt:g} ms; expected more than 0")


def check_running(h: Hoc) -> None:
    if h.stoprun:
        raise InputError(f"h.stoprun is {h.stoprun:g}, with which psolve ends; expected 0")


def steps_until(h: Hoc, tstop: float) -> Callable[[], int]:
    """Return a function that counts the remaining steps of ``continuerun(tstop)``.

    continuerun ends half a step before `tstop`, with the value that h.dt had at its begin.
    """
    first_dt = list[float]()

    def count() -> int:
        if not first_dt:
            first_dt.append(float(h.dt))
        return num_steps(h, tstop, first_dt[0])

    return count


def check_end(h: Hoc, tstop: float) -> None:
    steps = (as_number("tstop", tstop, "ms") - h.t) / h.dt if h.dt > 0 else 0
    if steps > _MOST_STEPS:
        raise InputError(
            f"tstop is {shown(tstop)}; expected at most {_MOST_STEPS} steps of {h.dt:g} ms"
        )


def num_steps(h: Hoc, tstop: float, first_dt: float | None = None) -> int:
    tstop = as_number("tstop", tstop, "ms")
    if getattr(h, "using_cvode_", 0):  # hoc's continuerun() then takes another step at its end
        raise InputError(
            "CVode's variable steps are off, but h.using_cvode_ is 1; expected h.cvode_active(0)"
        )
    check_dt(h)
    t, dt = float(h.t), float(h.dt)
    if first_dt is None or first_dt == dt:
        steps = max(math.ceil((tstop - 0.5 * dt - t) / dt - 1e-6), 0)
    else:
        steps = _steps_before(t, dt, tstop - 0.5 * first_dt - h.float_epsilon)  # hoc's t < end
    group = int(getattr(h, "nstep_steprun", 1) or 1)
    return -(-steps // group) * group


def solve_steps(h: Hoc, tstop: float, t: float, dt: float) -> int:
    """Return the step count of ``ParallelContext.psolve(tstop)``.

    psolve continues from NEURON's last step, which had the end `t` and the length `dt`, ms.
    """
    end = as_number("tstop", tstop, "ms") * (1 + 1e-11)
    check_dt(h)
    steps = _steps_of_solve(t, float(h.dt), end)
    if t != h.t and (dt == h.dt or steps != _steps_of_solve(float(h.t), float(h.dt), end)):
        raise InputError(
            f"psolve goes on from {t:g} ms, but h.t is {h.t:g} ms, as h.t or nthread has been set "
            f"since NEURON's last step; expected h.finitialize() or h.continuerun({tstop:g})"
        )
    return steps


def _steps_of_solve(t: float, dt: float, end: float) -> int:
    steps = int((end - t) / dt + 1e-9)
    if steps > FEW:
        return steps
    return int(np.searchsorted(clock(t, dt, FEW + 1), end - dt, side="right"))


def _steps_before(t: float, dt: float, end: float) -> int:
    most = max(math.ceil((end - t) / dt), 0) + FEW
    return int(np.searchsorted(clock(t, dt, most), end))
