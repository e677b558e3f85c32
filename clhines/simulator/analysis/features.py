"""Features of a run: the request, and values from traces' sums and segments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.checks import as_number, as_real
from clhines.core.errors import InputError
from clhines.simulator.analysis.definitions import (
    FEATURES,
    Traces,
    Window,
    check_stimulus,
    known_features,
)
from clhines.simulator.analysis.segments import TraceSegments, segments_of
from clhines.simulator.analysis.spikes import (
    RaggedArray,
    checked_stimuli,
    checked_traces,
    reduced,
    summed,
)


@dataclass(frozen=True, eq=False)
class WindowSums:
    """Segments of m traces; sums and extremes in `Features.windows`, (windows, m) float64, mV."""

    segments: TraceSegments
    sums: np.ndarray
    smallest: np.ndarray
    largest: np.ndarray


class Features:
    """Features of voltages that a run computes: ``sim.record("v", nodes, reduce=Features(...))``.

    They equal the features that `extract` computes of a trace with a sample for every step. During
    the run the device keeps sums and extremes in windows and a few samples per spike, but no trace.

    Parameters
    ----------
    names : iterable of str
        Keys of `FEATURES`, eFEL's names.
    stim_start, stim_end : float or (m,), ms, optional
        Stimulus at each of the m recorded places. Not needed for features of the whole trace, such
        as ``spike_count``.
    stimulus_current : float or (m,), nA, optional
        Needed for input resistances.
    threshold : float, mV
        Spikes are peaks above it; the default is eFEL's, not `Network.threshold`.

    Attributes
    ----------
    names : tuple of str
        Keys of the features in a result.

    Raises
    ------
    InputError
        There is no such feature, or a value is not finite.
    """

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
        times = ("stim_start", stim_start, "ms"), ("stim_end", stim_end, "ms")
        stimulus = *times, ("stimulus_current", stimulus_current, "nA")
        self._stimulus = [None if one[1] is None else as_real(*one) for one in stimulus]

    def __repr__(self) -> str:
        return f"Features({', '.join(self.names)})"

    def windows(self, t: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the begin and end of each window of samples that the features need.

        Parameters
        ----------
        t : (k,) float64, ms
            Times of the samples.
        count : int
            Number of traces.

        Returns
        -------
        begin, end : (windows, count) int64

        Raises
        ------
        InputError
            A stimulus is not within the run.
        """
        if len(t) < 3:
            raise InputError(f"features of {len(t)} samples; expected 3 or more, a longer run")
        stimuli = checked_stimuli(t, count, *self._stimulus)
        traces = _without_spikes(t, *stimuli)
        self._computed(traces)  # collects the windows that features request
        begin, end = (np.zeros((len(traces.requested), count), np.int64) for _ in range(2))
        for k, (first, last) in enumerate(traces.requested):
            begin[k], end[k] = first, last
        return begin, end

    def of_windows(self, t: np.ndarray, sums: WindowSums) -> dict[str, np.ndarray | RaggedArray]:
        """Compute the features of m traces from `sums` in windows of their samples.

        `t`, ms, are all samples' times. Return arrays, (m,), and `RaggedArray`s by name.
        """
        segments = sums.segments
        stimuli = checked_stimuli(t, segments.count, *self._stimulus)
        spikes = *segments.peaks(), *segments.minima(len(t))
        windows = map(Window, sums.sums, sums.smallest, sums.largest)
        return self._computed(Traces(t, *stimuli, *spikes, tuple(windows)))

    def nothing(self, count: int) -> dict[str, np.ndarray | RaggedArray]:
        """Return the features of a failed run, by name: NaN or empty lists."""
        t, none = np.arange(3.0), np.zeros(count)
        values = self._computed(_without_spikes(t, none, np.ones(count), none))
        return {
            name: value if isinstance(value, RaggedArray) else np.full(np.shape(value), np.nan)
            for name, value in values.items()
        }

    def _computed(self, traces: Traces) -> dict[str, np.ndarray | RaggedArray]:
        with np.errstate(divide="ignore", invalid="ignore"):  # coincident peaks: inf and NaN
            return {name: traces.of(FEATURES[name]) for name in self.names}


def _without_spikes(
    t: np.ndarray, begin: np.ndarray, end: np.ndarray, current: np.ndarray | None
) -> Traces:
    offsets = np.zeros(len(begin) + 1, np.int64)
    samples, values = (RaggedArray(offsets, np.zeros(0, kind)) for kind in (np.int64, np.float64))
    return Traces(t, begin, end, current, samples, values, samples, values)


def extract(
    v: ArrayLike,
    t: ArrayLike,
    names: Iterable[str],
    *,
    stim_start: ArrayLike | None = None,
    stim_end: ArrayLike | None = None,
    stimulus_current: ArrayLike | None = None,
    threshold: float = -20.0,
) -> dict[str, np.ndarray | RaggedArray]:
    """Compute features of traces by eFEL's definitions, with its default settings.

    eFEL first interpolates each trace to steps of 0.1 ms; here the samples are used as they are.

    Parameters
    ----------
    v : (k,) or (m, k) float, mV
        Traces in rows: ``result[voltage].T``.
    t : (k,) float, ms
        Ascending times of the samples.
    names, stim_start, stim_end, stimulus_current, threshold
        As in `Features`, with one value for all traces or one for each.

    Returns
    -------
    dict of str to (m,) array or RaggedArray
        By name, in the order of `names`. NaN where eFEL has no value.
    """
    if not (requested := known_features(names)):
        return {}
    rows, times = checked_traces(v, t)
    features = Features(
        requested,
        stim_start=stim_start,
        stim_end=stim_end,
        stimulus_current=stimulus_current,
        threshold=threshold,
    )
    values = sums_of_windows(rows, *features.windows(times, len(rows)))
    return features.of_windows(times, WindowSums(segments_of(rows, features.threshold), *values))


def sums_of_windows(v: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return sums and extremes of m traces in windows of samples, (3, windows, m) float64, mV."""
    each = (
        [summed(v, *ends), *(reduced(f, v, *ends) for f in (np.minimum, np.maximum))]
        for ends in zip(begin, end, strict=True)
    )
    return np.array([*each]).reshape(len(begin), 3, len(v)).swapaxes(0, 1)
