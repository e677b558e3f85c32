"""Delays and event times in steps, rounded as in NEURON."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from clhines.core.arrays import half_steps
from clhines.core.checks import as_number
from clhines.core.errors import InputError

ROUNDING = 1e-9  # fraction of a step by which a delay may be shorter than one step
SPIKE_LATE = 1e-10  # ms that NEURON adds to a spike's time
CLOCK_STEPS = 2**26  # up to here, step times are added up as NEURON does
_BLOCK = 2**16  # steps whose times are added up at once
LAST_STEP = 2**30  # in any run, and for any delay, so that an event's step fits int32
MAX_SLOTS = 2**20  # steps in an event ring buffer


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
    at dt = 0.1 ms an event at 0.25 ms acts in step 2, one at 0.45 ms in step 5. Up to step 2**26,
    middles are computed here by the same sums. Events after the last step of any run act in
    `LAST_STEP`.
    """
    time = np.minimum(time, LAST_STEP * dt)
    steps = np.maximum(np.ceil(time / dt - 0.5 - ROUNDING), 0).astype(np.int64)
    on_clock = np.flatnonzero(steps < CLOCK_STEPS - 1)
    time, step = time[on_clock], steps[on_clock]
    while (late := begins_of(step, dt) + 0.5 * dt < time).any():
        step[late] += 1
    while (early := (step > 0) & (begins_of(step - (step > 0), dt) + 0.5 * dt >= time)).any():
        step[early] -= 1
    steps[on_clock] = step
    return steps


def ends_of(step: np.ndarray, dt: float) -> np.ndarray:
    """Return the ends of steps, ms; up to step 2**26 they are sums of half steps, as in NEURON."""
    ends = (step + 1) * dt
    on_clock = step < CLOCK_STEPS
    ends[on_clock] = begins_of(step[on_clock] + 1, dt)
    return ends


def begins_of(step: np.ndarray, dt: float) -> np.ndarray:
    """Return the steps' begins by NEURON's clock, (m,) float64, ms."""
    result, (block, within) = np.empty(len(step)), np.divmod(step, _BLOCK)
    for number in np.unique(block).tolist():
        here = block == number
        result[here] = _begins_in(dt, number)[within[here]]
    return result


@lru_cache(maxsize=64)
def _begins_in(dt: float, number: int) -> np.ndarray:
    """Return the begins of the steps in block `number`, and the block's end, ms."""
    begins, first = _block_begins(dt), number
    while first not in begins:
        first -= 1
    for k in range(first, number + 1):
        times = half_steps(begins[k], dt, 2 * _BLOCK)[::2]
        begins[k + 1] = times[-1]
    return times


@lru_cache(maxsize=4)
def _block_begins(dt: float) -> dict[int, float]:
    """Return a dict, which `_begins_in` fills, of the blocks' begins, ms, by number."""
    return {0: 0.0}


def refractory_steps(time: float | np.ndarray, dt: float) -> np.ndarray:
    """Round refractory times, ms, to whole steps; halves, within rounding error, go up."""
    rounded: np.ndarray = np.floor(np.asarray(time) / dt + (0.5 + 1e-9))
    return rounded


def whole_steps(duration: object, dt: float) -> int | None:
    """Return the steps of `dt` ms in `duration` ms; None if it is not a valid number of steps."""
    if type(duration) is float:
        return _steps_in(duration, dt)
    try:
        return _steps_in(as_number("duration", duration, "ms"), dt)
    except InputError:
        return None


@lru_cache(maxsize=64)
def _steps_in(time: float, dt: float) -> int | None:
    ratio = time / dt
    if not 0 <= ratio <= LAST_STEP:
        return None
    steps = round(ratio)
    return None if abs(ratio - steps) > min(1e-6 * max(ratio, 1), 1e-3) else steps
