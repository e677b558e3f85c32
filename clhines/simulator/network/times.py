"""Delays and event times in steps, rounded as in NEURON."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from clhines.core.arrays import half_steps
from clhines.core.checks import as_number
from clhines.core.errors import InputError

ROUNDING = 1e-9  # fraction of a step by which a delay may be shorter than one step
SPIKE_LATE = 1e-10  # ms that NEURON adds to the time of a spike
_CLOCK_STEPS = 2**22  # up to here, middles of steps are added up as NEURON does
LAST_STEP = 2**30  # of any run, and of any delay, so that an event's step fits int32
MAX_SLOTS = 2**20  # steps in a ring of events


def as_step(dt: object) -> float:
    step = as_number("dt", dt, "ms")
    if not step > 0:
        raise InputError(f"dt is {step:g} ms; expected above 0")
    return step


def delay_steps(delay: np.ndarray, dt: float) -> np.ndarray:
    """Round delays, ms, as NEURON does: return the steps from a spike to its event, (m,) int64.

    A spike's time is the end of its step plus 1e-10 ms, which NEURON adds. An event acts in the
    first step whose middle is not before the event: a delay of n + 1/2 steps takes n + 1.
    """
    return np.ceil((delay + SPIKE_LATE) / dt - 0.5).astype(np.int64)


def event_steps(time: np.ndarray, dt: float) -> np.ndarray:
    """Return the first step whose middle is not before an external event, (m,) int64.

    `time` is in ms. NEURON's clock adds half steps; its rounding decides about events at a middle:
    at dt = 0.1 ms an event at 0.25 ms acts in step 2, one at 0.45 ms in step 5. Up to step 2**22,
    middles are computed here by the same sums.
    """
    step = np.maximum(np.ceil(time / dt - 0.5 - ROUNDING), 0).astype(np.int64)
    early = np.flatnonzero(step < _CLOCK_STEPS - 1)
    if len(early):
        middles = half_steps(0.0, dt, 2 * int(step[early].max()) + 3)[::2] + 0.5 * dt
        step[early] = np.searchsorted(middles, time[early])
    return step


@lru_cache(maxsize=4)
def _ends(dt: float, steps: int) -> np.ndarray:
    return half_steps(0.0, dt, 2 * steps)[2::2]


def ends_of(step: np.ndarray, dt: float) -> np.ndarray:
    """Return the ends of steps, (m,) float64, ms.

    Up to step 2**22 they are sums of half steps, as NEURON's clock.
    """
    last = int(step.max(initial=0))
    if last >= _CLOCK_STEPS:
        return (step + 1) * dt
    return _ends(dt, 1 << (last + 1).bit_length())[step]


def refractory_steps(time: float | np.ndarray, dt: float) -> np.ndarray:
    """Round refractory times, ms, to whole steps; halves, within rounding error, go up."""
    rounded: np.ndarray = np.floor(np.asarray(time) / dt + (0.5 + 1e-9))
    return rounded


def whole_steps(duration: object, dt: float) -> int | None:
    """Return the steps of `dt` ms in `duration` ms; None if it is not a valid number of steps."""
    try:
        time = duration if type(duration) is float else as_number("duration", duration, "ms")
    except InputError:
        return None
    ratio = time / dt
    if not 0 <= ratio <= LAST_STEP:
        return None
    steps = round(ratio)
    return None if abs(ratio - steps) > min(1e-6 * max(ratio, 1), 1e-3) else steps
