"""Features of a run: the request, and their values from sums and segments of its traces."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.checks import as_number, as_real
from clhines.core.errors import InputError
from clhines.simulator.analysis.extract import (
    FEATURES,
    check_stimulus,
    known_features,
    min_ahp_values,
    peak_voltage,
)
from clhines.simulator.analysis.segments import TraceSegments
from clhines.simulator.analysis.spikes import (
    RaggedArray,
    Traces,
    checked_stimuli,
    min_ahp_indices,
    peak_indices,
)
from clhines.simulator.common.checks import names_parameters


@dataclass(frozen=True, eq=False)
class WindowSums:
    """Sums and extremes, (windows, m) float64, mV, of the windows of `Features.windows`."""

    segments: TraceSegments
    sums: np.ndarray
    smallest: np.ndarray
    largest: np.ndarray


@dataclass(frozen=True, eq=False)
class _WindowsOnly(Traces):
    """Traces without samples, which note the requested windows."""

    requested: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    def _note(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        self.requested.append((begin, end))
        return np.full(len(self.stim_start), np.nan)

    mean = smallest = largest = _note


@dataclass(frozen=True, eq=False, kw_only=True)
class _WindowedTraces(Traces):
    """Traces whose windows a run has summed, in the order in which features request them."""

    window_sums: WindowSums
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def _next(self, begin: np.ndarray, end: np.ndarray) -> tuple[int, np.ndarray]:
        return next(self.numbers), begin < end

    def mean(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        k, some = self._next(begin, end)
        return np.where(some, self.window_sums.sums[k] / np.where(some, end - begin, 1), np.nan)

    def smallest(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        k, some = self._next(begin, end)
        return np.where(some, self.window_sums.smallest[k], np.nan)

    def largest(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        k, some = self._next(begin, end)
        return np.where(some, self.window_sums.largest[k], np.nan)


class Features:
    """Features of voltages that a run computes: ``sim.record("v", nodes, reduce=Features(...))``.

    They are those of `extract`, by eFEL's definitions, without interpolation, of the trace that a
    run would record at every step. All of them come from sums and extremes in windows and from a
    few samples of each spike, which the device finds as the run goes: no trace is kept.

    Parameters
    ----------
    names : iterable of str
        Keys of `FEATURES`, eFEL's names.
    stim_start, stim_end : float or (m,), ms, optional
        Of the stimulus of each of the m recorded places. Not needed for features of the whole
        trace, as ``spike_count``.
    stimulus_current : float or (m,), nA, optional
        Needed for input resistances.
    threshold : float, mV
        Of spikes, which are peaks above it: eFEL's default, not `Network.threshold`.

    Attributes
    ----------
    names : tuple of str
        The keys of the features in a result.

    Raises
    ------
    InputError
        There is no such feature, or a value is not finite.
    """

    @names_parameters
    def __init__(
        self,
        names: Iterable[str],
        *,
        stim_start: ArrayLike | None = None,
        stim_end: ArrayLike | None = None,
        stimulus_current: ArrayLike | None = None,
        threshold: float = -20.0,
    ) -> None:
        wanted = known_features(names)
        if not wanted:
            raise InputError(f"names is empty; expected some of {', '.join(FEATURES)}")
        self.names = tuple(dict.fromkeys(wanted))
        self.threshold = as_number("threshold", threshold, "mV")
        check_stimulus(self.names, stim_start, stim_end)
        self._begin = None if stim_start is None else as_real("stim_start", stim_start, "ms")
        self._end = None if stim_end is None else as_real("stim_end", stim_end, "ms")
        self._current = None
        if stimulus_current is not None:
            self._current = as_real("stimulus_current", stimulus_current, "nA")

    def __repr__(self) -> str:
        return f"Features({', '.join(self.names)})"

    def windows(self, t: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the first sample of each window, and the one after its last.

        Parameters
        ----------
        t : (k,) float64, ms
            Times of the samples.
        count : int
            Traces.

        Returns
        -------
        begin, end : (windows, count) int64

        Raises
        ------
        InputError
            A stimulus is not within the run.
        """
        if len(t) < 3:
            raise InputError(f"features are of {len(t)} samples; expected 3 or more, a longer run")
        traces = _WindowsOnly(*self._arguments(t, count))
        self._of_none(traces)
        begin, end = (np.zeros((len(traces.requested), count), np.int64) for _ in range(2))
        for k, (first, last) in enumerate(traces.requested):
            begin[k], end[k] = first, last
        return begin, end

    def of_windows(self, t: np.ndarray, sums: WindowSums) -> dict[str, np.ndarray | RaggedArray]:
        """Return (m,) arrays or `RaggedArray` by name; see `extract`."""
        segments, length = sums.segments, len(t)
        traces = _WindowedTraces(*self._arguments(t, segments.count), window_sums=sums)
        spike_values = segments.peaks(), segments.peak_voltages(), *segments.minima(length)
        names = peak_indices, peak_voltage, min_ahp_indices, min_ahp_values
        traces.done.update(zip(names, spike_values, strict=True))
        return self._computed(traces)

    def nothing(self, count: int) -> dict[str, np.ndarray | RaggedArray]:
        """Return NaN and empty lists, for a run that has failed."""
        v, t, none = np.zeros((count, 0)), np.arange(3.0), np.zeros(count)
        values = self._of_none(_WindowsOnly(v, t, none, np.ones(count), none, self.threshold))
        return {
            name: value if isinstance(value, RaggedArray) else np.full(np.shape(value), np.nan)
            for name, value in values.items()
        }

    def _of_none(self, traces: _WindowsOnly) -> dict[str, np.ndarray | RaggedArray]:
        """Compute features of traces without samples, to see which windows they request."""
        none = RaggedArray(np.zeros(len(traces.stim_start) + 1, np.int64), np.zeros(0, np.int64))
        values = RaggedArray(none.offsets, np.zeros(0))
        traces.done.update({peak_indices: none, min_ahp_indices: none})
        traces.done.update({peak_voltage: values, min_ahp_values: values})
        return self._computed(traces)

    def _arguments(
        self, t: np.ndarray, count: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray | None, float]:
        """Return the arguments of `Traces` without samples."""
        stimuli = checked_stimuli(t, count, self._begin, self._end, self._current)
        return np.zeros((count, 0)), t, *stimuli, self.threshold

    def _computed(self, traces: Traces) -> dict[str, np.ndarray | RaggedArray]:
        with np.errstate(divide="ignore", invalid="ignore"):  # peaks that coincide: inf and NaN
            return {name: traces.of(FEATURES[name]) for name in self.names}
