"""Delays and event times in steps, rounded as in NEURON."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.checks import as_number
from clhines.core.errors import InputError

ROUNDING = 1e-9  # fraction of a step by which a delay may be shorter than one step
SPIKE_LATE = 1e-10  # ms that NEURON adds to a spike's time
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

    `time` is in ms. The rounding of NEURON's clock decides about events at a middle: at dt = 0.1 ms
    an event at 0.25 ms acts in step 2, one at 0.45 ms in step 5. Events after the last step of any
    run act in `LAST_STEP`.
    """
    time = np.minimum(time, begins_of(LAST_STEP, dt))
    step = np.maximum(np.ceil(time / dt - 0.5 - ROUNDING), 0).astype(np.int64)
    while (late := begins_of(step, dt) + 0.5 * dt < time).any():
        step[late] += 1
    while (early := (step > 0) & (begins_of(step - (step > 0), dt) + 0.5 * dt >= time)).any():
        step[early] -= 1
    return step


def begins_of(step: ArrayLike, dt: float) -> np.ndarray:
    """Return the begins of steps by NEURON's clock, ms: it adds half steps, and rounds each sum."""
    first, time, addend = _clock_pieces(dt)
    halves = 2 * np.asarray(step, np.int64)
    piece = np.searchsorted(first, halves, "right") - 1
    begins: np.ndarray = time[piece] + (halves - first[piece]) * addend[piece]
    return begins


def last_middle(step: int, dt: float) -> float:
    """Return the middle of the step before `step`, ms; -inf for step 0."""
    return float(begins_of(step - 1, dt)) + 0.5 * dt if step else -math.inf


@lru_cache(maxsize=64)
def _clock_pieces(dt: float) -> tuple[np.ndarray, ...]:
    """Cut NEURON's clock into pieces of equal addends: first half step, time and addend, ms.

    Between two powers of 2 all times are multiples of one unit, and a half step is rounded to one
    of its multiples. It is always the same one, except perhaps for the first sum, which makes the
    time an even multiple if the half step is a tie. So the times in a piece are its first time plus
    multiples of its addend, without a rounding error.
    """
    pieces, half, count, time = [], 0.5 * dt, 0, 0.0
    while count < 2 * LAST_STEP + 4 and math.isfinite(time):
        pieces.append((count, time, 0.0))
        before, time, count = time, time + half, count + 1
        exponent = math.frexp(time)[1]
        if math.frexp(before)[1] == exponent and math.isfinite(time):
            unit = max(math.ldexp(1.0, exponent - 53), math.ulp(0.0))
            addend = time + half - time
            room = 2**53 - 1 - int(time / unit)
            pieces.append((count, time, addend))
            sums = room // max(int(addend / unit), 1)  # up to the next power of 2
            count, time = count + sums, time + sums * addend
    first, times, addends = zip(*pieces, strict=True)
    return np.array(first), np.array(times), np.array(addends)


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
