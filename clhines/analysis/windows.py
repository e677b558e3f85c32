"""Windows: ranges of samples between times, and means and extremes of them."""

from __future__ import annotations

import numpy as np

from clhines.analysis.traces import Traces

_PRECISION = 1e-10  # ms, eFEL's precision_threshold


def first_from(t: np.ndarray, times: np.ndarray) -> np.ndarray:
    """(m,) int64: the first sample at or after each time; ``len(t)`` where there is none."""
    return np.searchsorted(t, times, side="left")


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
    """(m,) float64, mV: mean of ``v[k, begin[k]:end[k]]``; NaN where it is empty.

    Samples are added one after another, as eFEL does and a lane of a kernel would.
    """
    found, size = np.full(len(v), np.nan), v.shape[1] + 1
    windows, which = np.unique(begin * size + end, return_inverse=True)
    for k, (first, last) in enumerate(zip(*np.divmod(windows, size), strict=True)):
        rows = np.flatnonzero(which == k)
        if first < last:
            added = np.add.accumulate(v[rows, first:last], axis=1)[:, -1]
            found[rows] = added / (last - first)
    return found


def voltage_base(traces: Traces) -> np.ndarray:
    """Mean of the last tenth of the time from 0 to the stimulus."""
    start, t = traces.stim_start, traces.t
    begin = first_from(t, 0.9 * start)
    end = np.searchsorted(t, start + _PRECISION, side="left")
    return np.where(0.9 * start < start, mean(traces.v, begin, end), np.nan)


def steady_state_voltage_stimend(traces: Traces) -> np.ndarray:
    """Mean of the last tenth of the stimulus."""
    start, end = traces.stim_start, traces.stim_end
    begin = first_from(traces.t, end - 0.1 * (end - start))
    return mean(traces.v, begin, first_from(traces.t, end))


def steady_state_voltage(traces: Traces) -> np.ndarray:
    """Mean of all samples after the stimulus."""
    begin = np.searchsorted(traces.t, traces.stim_end, side="right")
    return mean(traces.v, begin, np.full_like(begin, len(traces.t)))


def voltage_after_stim(traces: Traces) -> np.ndarray:
    """Mean of the middle half of the time after the stimulus."""
    t, end = traces.t, traces.stim_end
    rest = t[-1] - end
    begin, last = end + rest * 0.25, end + rest * 0.75
    stop = np.minimum(np.searchsorted(t, last, side="right") + 1, len(t))
    found = mean(traces.v, first_from(t, begin), stop)
    return np.where(rest >= 0, found, np.nan)


def _stimulus(traces: Traces) -> tuple[np.ndarray, np.ndarray]:
    t, end = traces.t, np.minimum(traces.stim_end, traces.t[-1])
    begin = first_from(t, traces.stim_start)
    return begin, np.maximum(first_from(t, end), begin + 1)


def minimum_voltage(traces: Traces) -> np.ndarray:
    """Smallest voltage during the stimulus."""
    return reduced(np.minimum, traces.v, *_stimulus(traces))


def maximum_voltage(traces: Traces) -> np.ndarray:
    """Largest voltage during the stimulus: the peak of the trace there."""
    return reduced(np.maximum, traces.v, *_stimulus(traces))


def voltage_deflection(traces: Traces) -> np.ndarray:
    """Five samples shortly before the end of the stimulus, minus the mean before it."""
    t = traces.t
    before = first_from(t, traces.stim_start)
    after = np.searchsorted(t, traces.stim_end, side="right")
    base = mean(traces.v, np.zeros_like(before), before)
    late = mean(traces.v, np.maximum(after - 10, 0), np.maximum(after - 5, 0))
    return np.where((after >= 10) & (after < len(t)), late - base, np.nan)
