"""Traces: voltages at shared times, and the stimulus of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from clhines.checks import as_number, as_real, spread
from clhines.errors import InputError

_Value = TypeVar("_Value")


@dataclass(frozen=True, eq=False)
class Traces:
    """Voltages `v`, (m, k), mV, at times `t`, ms, ascending, and the stimulus of each, (m,)."""

    v: np.ndarray
    t: np.ndarray
    stim_start: np.ndarray
    stim_end: np.ndarray
    current: np.ndarray | None
    threshold: float
    done: dict[object, object] = field(default_factory=dict)

    def mean(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """(m,) float64, mV: mean of ``v[k, begin[k]:end[k]]``; NaN where it is empty."""
        return mean(self.v, begin, end)

    def smallest(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """(m,) float64, mV: smallest of ``v[k, begin[k]:end[k]]``; NaN where it is empty."""
        return reduced(np.minimum, self.v, begin, end)

    def largest(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """(m,) float64, mV: largest of ``v[k, begin[k]:end[k]]``; NaN where it is empty."""
        return reduced(np.maximum, self.v, begin, end)

    def of(self, feature: Callable[[Traces], _Value]) -> _Value:
        """Return a feature, computed once."""
        if feature not in self.done:
            self.done[feature] = feature(self)
        return cast("_Value", self.done[feature])


def reduced(ufunc: np.ufunc, v: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """(m,) float64: a reduction of ``v[k, begin[k]:end[k]]``; NaN where it is empty."""
    found, some = np.full(len(v), np.nan), np.flatnonzero(begin < end)
    length = v.shape[1]
    if not len(some):
        return found
    bounds = np.stack([begin[some], end[some]], axis=1) + (some * length)[:, None]
    flat = v.reshape(-1)
    ends_there = bounds[-1, 1] == flat.size  # `reduceat` goes to the end by itself
    places = bounds.reshape(-1)[: -1 if ends_there else None]
    found[some] = ufunc.reduceat(flat, places)[::2]
    return found


def mean(v: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """(m,) float64, mV: mean of ``v[k, begin[k]:end[k]]``, added in order as a lane does."""
    found, size = np.full(len(v), np.nan), v.shape[1] + 1
    windows, which = np.unique(begin * size + end, return_inverse=True)
    for k, (first, last) in enumerate(zip(*np.divmod(windows, size), strict=True)):
        rows = np.flatnonzero(which == k)
        if first < last:
            added = np.add.accumulate(v[rows, first:last], axis=1)[:, -1]
            found[rows] = added / (last - first)
    return found


def checked_traces(
    v: ArrayLike,
    t: ArrayLike,
    stim_start: ArrayLike,
    stim_end: ArrayLike,
    current: ArrayLike | None,
    threshold: float,
    interp_step: float | None,
) -> Traces:
    """Check and, on request, interpolate; see `extract`."""
    rows, times = np.atleast_2d(as_real("v", v, "mV")), as_real("t", t, "ms")
    if times.ndim != 1 or len(times) < 3 or not (np.diff(times) > 0).all():
        raise InputError(f"t has shape {times.shape}; expected (k,) ascending times, 3 or more")
    if rows.ndim != 2 or rows.shape[1] != len(times):
        raise InputError(f"v has shape {rows.shape}; expected (m, {len(times)}), as many as t")
    begin, end, amplitude = checked_stimuli(times, len(rows), stim_start, stim_end, current)
    level = as_number("threshold", threshold, "mV")
    if interp_step is not None:
        step = as_number("interp_step", interp_step, "ms")
        if not 0 < step <= times[-1] - times[0]:
            raise InputError(f"interp_step is {step:g}; expected above 0 and within the trace, ms")
        times, rows = interpolated(times, rows, step)
    return Traces(rows, as_real("t", times), begin, end, amplitude, level)


def checked_stimuli(
    t: np.ndarray, count: int, stim_start: ArrayLike, stim_end: ArrayLike, current: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """(count,) float64 each: begin and end of the stimuli, ms, and their amplitudes, nA."""
    begin = spread("stim_start", stim_start, count, unit="ms")
    end = spread("stim_end", stim_end, count, unit="ms")
    bad = np.flatnonzero(~((begin < end) & (begin >= t[0]) & (begin < t[-1])))
    if len(bad):
        m = int(bad[0])
        raise InputError(
            f"stimulus of trace {m} is from {begin[m]:g} to {end[m]:g} ms; expected an interval "
            f"that begins within {t[0]:g} to {t[-1]:g} ms"
        )
    return (
        begin,
        end,
        None if current is None else spread("stimulus_current", current, count, unit="nA"),
    )


def interpolated(t: np.ndarray, v: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Interpolate as eFEL does: at times that are added up, the last at or after the end."""
    count = int(np.ceil((t[-1] - t[0]) / step))
    grid = np.add.accumulate(np.concatenate([t[:1], np.full(count, step)]))
    grid = grid if grid[count - 1] < t[-1] else grid[:count]
    left = np.clip(np.searchsorted(t, grid, side="left") - 1, 0, len(t) - 2)
    slope = (v[:, left + 1] - v[:, left]) / (t[left + 1] - t[left])
    values = v[:, left] + slope * (grid - t[left])
    return grid, np.where(grid > t[-1], v[:, -1:], values)
