"""Windows: ranges of samples between times, of which features take means and extremes."""

from __future__ import annotations

import numpy as np

from clhines.analysis.traces import Traces

_PRECISION = 1e-10  # ms, eFEL's precision_threshold


def first_from(t: np.ndarray, times: np.ndarray) -> np.ndarray:
    """(m,) int64: the first sample at or after each time; ``len(t)`` where there is none."""
    return np.searchsorted(t, times, side="left")


def voltage_base(traces: Traces) -> np.ndarray:
    """Mean of the last tenth of the time from 0 to the stimulus."""
    start, t = traces.stim_start, traces.t
    begin = first_from(t, 0.9 * start)
    end = np.searchsorted(t, start + _PRECISION, side="left")
    return np.where(0.9 * start < start, traces.mean(begin, end), np.nan)


def steady_state_voltage_stimend(traces: Traces) -> np.ndarray:
    """Mean of the last tenth of the stimulus."""
    start, end = traces.stim_start, traces.stim_end
    begin = first_from(traces.t, end - 0.1 * (end - start))
    return traces.mean(begin, first_from(traces.t, end))


def steady_state_voltage(traces: Traces) -> np.ndarray:
    """Mean of all samples after the stimulus."""
    begin = np.searchsorted(traces.t, traces.stim_end, side="right")
    return traces.mean(begin, np.full_like(begin, len(traces.t)))


def voltage_after_stim(traces: Traces) -> np.ndarray:
    """Mean of the middle half of the time after the stimulus."""
    t, end = traces.t, traces.stim_end
    rest = t[-1] - end
    begin, last = end + rest * 0.25, end + rest * 0.75
    stop = np.minimum(np.searchsorted(t, last, side="right") + 1, len(t))
    found = traces.mean(first_from(t, begin), stop)
    return np.where(rest >= 0, found, np.nan)


def _stimulus(traces: Traces) -> tuple[np.ndarray, np.ndarray]:
    t, end = traces.t, np.minimum(traces.stim_end, traces.t[-1])
    begin = first_from(t, traces.stim_start)
    return begin, np.maximum(first_from(t, end), begin + 1)


def minimum_voltage(traces: Traces) -> np.ndarray:
    """Smallest voltage during the stimulus."""
    return traces.smallest(*_stimulus(traces))


def maximum_voltage(traces: Traces) -> np.ndarray:
    """Largest voltage during the stimulus: the peak of the trace there."""
    return traces.largest(*_stimulus(traces))


def voltage_deflection(traces: Traces) -> np.ndarray:
    """Five samples shortly before the end of the stimulus, minus the mean before it."""
    t = traces.t
    before = first_from(t, traces.stim_start)
    after = np.searchsorted(t, traces.stim_end, side="right")
    base = traces.mean(np.zeros_like(before), before)
    late = traces.mean(np.maximum(after - 10, 0), np.maximum(after - 5, 0))
    return np.where((after >= 10) & (after < len(t)), late - base, np.nan)
