"""Features: functions of `Traces`, and the table of their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeVar, cast

import numpy as np

from clhines.core.checks import shown
from clhines.core.errors import InputError, meant
from clhines.simulator.analysis.spikes import RaggedArray, lists_of

_PRECISION = 1e-10  # ms, eFEL's precision_threshold
_Value = TypeVar("_Value")


@dataclass(frozen=True, eq=False)
class Window:
    """Sum, smallest and largest sample in one window for each trace, (m,) float64, mV."""

    sums: np.ndarray
    smallest: np.ndarray
    largest: np.ndarray


@dataclass(frozen=True, eq=False)
class Traces:
    """Input of features for m traces: times, stimuli, spikes, and sums in windows.

    `t`, ms, are all samples' times, ascending. For each trace, `peaks` has its spikes' samples, and
    `minima` the sample of the minimum after each. A feature may need sums of v in windows of
    samples. So features are computed twice: without `windows` they are NaN, and `requested`
    collects the begins and ends; then `windows` has the sums in the same order.
    """

    t: np.ndarray
    stim_start: np.ndarray
    stim_end: np.ndarray
    current: np.ndarray | None
    peaks: RaggedArray
    peak_v: RaggedArray
    minima: RaggedArray
    minima_v: RaggedArray
    windows: tuple[Window, ...] = ()
    requested: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    done: dict[object, object] = field(default_factory=dict)

    def _window(self, begin: np.ndarray, end: np.ndarray) -> Window:
        self.requested.append((begin, end))
        none = np.full(len(self.stim_start), np.nan)
        return self.windows[len(self.requested) - 1] if self.windows else Window(none, none, none)

    def mean(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Return the mean of ``v[k, begin[k]:end[k]]`` for each trace k, mV; NaN if empty."""
        nonempty, sums = begin < end, self._window(begin, end).sums
        return np.where(nonempty, sums / np.where(nonempty, end - begin, 1), np.nan)

    def smallest(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Return the smallest of ``v[k, begin[k]:end[k]]`` for each trace k, mV; NaN if empty."""
        return np.where(begin < end, self._window(begin, end).smallest, np.nan)

    def largest(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Return the largest of ``v[k, begin[k]:end[k]]`` for each trace k, mV; NaN if empty."""
        return np.where(begin < end, self._window(begin, end).largest, np.nan)

    def of(self, feature: Callable[[Traces], _Value]) -> _Value:
        if feature not in self.done:
            self.done[feature] = feature(self)
        return cast("_Value", self.done[feature])


def first_from(t: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return the first sample at or after each of `times`, (m,) int64; ``len(t)`` if none."""
    return np.searchsorted(t, times, side="left")


def voltage_base(traces: Traces) -> np.ndarray:
    """Mean over the last tenth of the time before the stimulus, mV."""
    start, t = traces.stim_start, traces.t
    begin = first_from(t, 0.9 * start)
    end = np.searchsorted(t, start + _PRECISION, side="left")
    return np.where(0.9 * start < start, traces.mean(begin, end), np.nan)


def steady_state_voltage_stimend(traces: Traces) -> np.ndarray:
    """Mean over the last tenth of the stimulus."""
    start, end = traces.stim_start, traces.stim_end
    begin = first_from(traces.t, end - 0.1 * (end - start))
    return traces.mean(begin, first_from(traces.t, end))


def steady_state_voltage(traces: Traces) -> np.ndarray:
    """Mean of all samples after the stimulus."""
    begin = np.searchsorted(traces.t, traces.stim_end, side="right")
    return traces.mean(begin, np.full_like(begin, len(traces.t)))


def voltage_after_stim(traces: Traces) -> np.ndarray:
    """Mean over the middle half of the time after the stimulus."""
    t, end = traces.t, traces.stim_end
    rest = t[-1] - end
    begin, last = end + rest * 0.25, end + rest * 0.75
    stop = np.minimum(np.searchsorted(t, last, side="right") + 1, len(t))
    means = traces.mean(first_from(t, begin), stop)
    return np.where(rest >= 0, means, np.nan)


def _stimulus(traces: Traces) -> tuple[np.ndarray, np.ndarray]:
    t, end = traces.t, np.minimum(traces.stim_end, traces.t[-1])
    begin = first_from(t, traces.stim_start)
    return begin, np.maximum(first_from(t, end), begin + 1)


def minimum_voltage(traces: Traces) -> np.ndarray:
    """Smallest voltage during the stimulus."""
    return traces.smallest(*_stimulus(traces))


def maximum_voltage(traces: Traces) -> np.ndarray:
    """Largest voltage during the stimulus."""
    return traces.largest(*_stimulus(traces))


def voltage_deflection(traces: Traces) -> np.ndarray:
    """Mean of five samples near the end of the stimulus, minus the mean before the stimulus, mV."""
    t = traces.t
    before = first_from(t, traces.stim_start)
    after = np.searchsorted(t, traces.stim_end, side="right")
    base = traces.mean(np.zeros_like(before), before)
    end_mean = traces.mean(np.maximum(after - 10, 0), np.maximum(after - 5, 0))
    return np.where((after >= 10) & (after < len(t)), end_mean - base, np.nan)


Feature = Callable[[Traces], "np.ndarray | RaggedArray"]
_SKIPPED_FRACTION, _SKIPPED_MOST = 0.1, 2  # spikes that adaptation_index skips


def _during(traces: Traces) -> RaggedArray:
    times = traces.of(peak_time)
    rows = times.rows
    after = times.values >= traces.stim_start[rows]
    return times.where(after & (times.values <= traces.stim_end[rows]))


def spike_count(traces: Traces) -> np.ndarray:
    return traces.peaks.counts


def spike_count_stimint(traces: Traces) -> np.ndarray:
    return traces.of(_during).counts


def peak_time(traces: Traces) -> RaggedArray:
    return RaggedArray(traces.peaks.offsets, traces.t[traces.peaks.values])


def time_to_first_spike(traces: Traces) -> np.ndarray:
    """Time from the start of the stimulus to the first peak, ms; negative if it comes before."""
    return traces.of(peak_time).at(0) - traces.stim_start


def time_to_last_spike(traces: Traces) -> np.ndarray:
    """Time from the start of the stimulus to the last peak, ms."""
    return traces.of(peak_time).at(-1) - traces.stim_start


def inv_time_to_first_spike(traces: Traces) -> np.ndarray:
    """Inverse of `time_to_first_spike`, Hz."""
    return 1000.0 / traces.of(time_to_first_spike)


def mean_frequency(traces: Traces) -> np.ndarray:
    """Spikes during the stimulus, divided by the time until the last one, Hz."""
    during = traces.of(_during)
    last = np.where(during.counts > 0, during.at(-1), 0.0)
    elapsed = last - traces.stim_start
    has_spikes = (traces.of(spike_count) > 0) & (elapsed != 0)
    return np.where(has_spikes, during.counts * 1000 / np.where(elapsed == 0, 1.0, elapsed), np.nan)


def _intervals(times: RaggedArray) -> RaggedArray:
    rows = times.rows
    within = np.flatnonzero(rows[1:] == rows[:-1])
    return lists_of(rows[within], np.diff(times.values)[within], len(times))


def all_isi_values(traces: Traces) -> RaggedArray:
    """Intervals between peaks, ms."""
    return _intervals(traces.of(peak_time))


def isi_values(traces: Traces) -> RaggedArray:
    """Intervals between peaks, ms, without the first one."""
    every = traces.of(all_isi_values)
    kept = np.ones(len(every.values), bool)
    kept[every.offsets[:-1][every.counts > 0]] = False
    return every.where(kept)


def isi_cv(traces: Traces) -> np.ndarray:
    """Coefficient of variation of `ISI_values`, if there are two or more."""
    intervals = traces.of(isi_values)
    count = np.maximum(intervals.counts, 1)
    mean = intervals.reduced(np.add) / count
    squares = RaggedArray(intervals.offsets, (intervals.values - mean[intervals.rows]) ** 2)
    deviation = np.sqrt(squares.reduced(np.add) / np.maximum(count - 1, 1))
    return np.where(intervals.counts > 1, deviation / mean, np.nan)


def irregularity_index(traces: Traces) -> np.ndarray:
    """Mean absolute difference of successive `ISI_values`, ms."""
    changes = _intervals(traces.of(isi_values))
    absolute = RaggedArray(changes.offsets, np.abs(changes.values))
    return absolute.reduced(np.add) / np.maximum(absolute.counts, 1)


def inv_first_isi(traces: Traces) -> np.ndarray:
    return 1000.0 / traces.of(all_isi_values).at(0)


def doublet_isi(traces: Traces) -> np.ndarray:
    return traces.of(all_isi_values).at(0)


def adaptation_index(traces: Traces) -> np.ndarray:
    """Mean ``(b - a) / (b + a)`` of successive intervals a, b; skips the first tenth of spikes."""
    during = traces.of(_during)
    skipped = (during.counts * _SKIPPED_FRACTION + 0.5).astype(np.int64)
    skipped = np.minimum(skipped, _SKIPPED_MOST)
    number = np.arange(len(during.values)) - during.offsets[:-1][during.rows]
    spikes = during.where(number >= skipped[during.rows])
    isi = _intervals(spikes)
    rows = isi.rows
    within = np.flatnonzero(rows[1:] == rows[:-1])
    before, after = isi.values[within], isi.values[within + 1]
    each = lists_of(rows[within], (after - before) / (after + before), len(isi))
    means = each.reduced(np.add) / np.maximum(each.counts, 1)
    return np.where(spikes.counts >= 4, means, np.nan)


def ahp_depth(traces: Traces) -> RaggedArray:
    """Minimum after each peak, minus `voltage_base`, mV; empty if `voltage_base` is NaN."""
    base, minima = traces.of(voltage_base), traces.minima_v
    depth = RaggedArray(minima.offsets, minima.values - base[minima.rows])
    return depth.where(~np.isnan(depth.values))


def voltage_deflection_vb_ssse(traces: Traces) -> np.ndarray:
    """`steady_state_voltage_stimend` minus `voltage_base`, mV."""
    return traces.of(steady_state_voltage_stimend) - traces.of(voltage_base)


def _per_current(traces: Traces, deflection: np.ndarray) -> np.ndarray:
    if traces.current is None:
        raise InputError("stimulus_current is None; expected nA, for the input resistance")
    flows = traces.current != 0
    return np.where(flows, deflection / np.where(flows, traces.current, 1.0), np.nan)


def ohmic_input_resistance(traces: Traces) -> np.ndarray:
    """`voltage_deflection` / current, MΩ."""
    return _per_current(traces, traces.of(voltage_deflection))


def ohmic_input_resistance_vb_ssse(traces: Traces) -> np.ndarray:
    """`voltage_deflection_vb_ssse` / current, MΩ."""
    return _per_current(traces, traces.of(voltage_deflection_vb_ssse))


def sag_amplitude(traces: Traces) -> np.ndarray:
    """`steady_state_voltage_stimend` minus `minimum_voltage`, mV; NaN for positive deflections."""
    sag = traces.of(steady_state_voltage_stimend) - traces.of(minimum_voltage)
    return np.where(traces.of(voltage_deflection_vb_ssse) <= 0, sag, np.nan)


def _per_fall(traces: Traces, numerator: np.ndarray) -> np.ndarray:
    fall = traces.of(voltage_base) - traces.of(minimum_voltage)
    return np.where(fall != 0, numerator / np.where(fall == 0, 1.0, fall), np.nan)


def sag_ratio1(traces: Traces) -> np.ndarray:
    """`sag_amplitude`, divided by the fall from `voltage_base` to `minimum_voltage`."""
    return _per_fall(traces, traces.of(sag_amplitude))


def sag_ratio2(traces: Traces) -> np.ndarray:
    """Fall from `voltage_base` to the steady state, divided by the fall to `minimum_voltage`."""
    return _per_fall(traces, -traces.of(voltage_deflection_vb_ssse))


FEATURES: dict[str, Feature] = {  # by eFEL's names
    "spike_count": spike_count,
    "spike_count_stimint": spike_count_stimint,
    "peak_indices": attrgetter("peaks"),
    "peak_time": peak_time,
    "peak_voltage": attrgetter("peak_v"),
    "time_to_first_spike": time_to_first_spike,
    "time_to_last_spike": time_to_last_spike,
    "inv_time_to_first_spike": inv_time_to_first_spike,
    "mean_frequency": mean_frequency,
    "all_ISI_values": all_isi_values,
    "ISI_values": isi_values,
    "ISI_CV": isi_cv,
    "irregularity_index": irregularity_index,
    "inv_first_ISI": inv_first_isi,
    "doublet_ISI": doublet_isi,
    "adaptation_index": adaptation_index,
    "min_AHP_indices": attrgetter("minima"),
    "min_AHP_values": attrgetter("minima_v"),
    "AHP_depth_abs": attrgetter("minima_v"),
    "AHP_depth": ahp_depth,
    "voltage_base": voltage_base,
    "steady_state_voltage": steady_state_voltage,
    "steady_state_voltage_stimend": steady_state_voltage_stimend,
    "voltage_after_stim": voltage_after_stim,
    "minimum_voltage": minimum_voltage,
    "maximum_voltage": maximum_voltage,
    "voltage_deflection": voltage_deflection,
    "voltage_deflection_vb_ssse": voltage_deflection_vb_ssse,
    "ohmic_input_resistance": ohmic_input_resistance,
    "ohmic_input_resistance_vb_ssse": ohmic_input_resistance_vb_ssse,
    "sag_amplitude": sag_amplitude,
    "sag_ratio1": sag_ratio1,
    "sag_ratio2": sag_ratio2,
}


WITHOUT_STIMULUS = (  # whole-trace features
    "spike_count peak_indices peak_time peak_voltage all_ISI_values ISI_values ISI_CV"
    " irregularity_index inv_first_ISI doublet_ISI min_AHP_indices min_AHP_values AHP_depth_abs"
).split()


def check_stimulus(names: Iterable[str], start: object, end: object) -> None:
    """Raise InputError if a feature needs a stimulus that is missing or incomplete."""
    missing = [n for n, v in (("stim_start", start), ("stim_end", end)) if v is None]
    needs = [name for name in names if name in FEATURES and name not in WITHOUT_STIMULUS]
    if len(missing) == 1:
        raise InputError(f"{missing[0]} is None; expected ms, like the other end of the stimulus")
    if missing and needs:
        raise InputError(
            f"{needs[0]} needs a stimulus; expected stim_start and stim_end, ms (available "
            f"without: {', '.join(WITHOUT_STIMULUS)})"
        )


def known_features(names: Iterable[str]) -> list[str]:
    if not isinstance(names, Iterable):
        raise InputError(f"features are {shown(names)}; expected a list of names")
    requested = [names] if isinstance(names, str) else list(names)
    for name in requested:
        if not isinstance(name, str) or name not in FEATURES:
            raise InputError(
                f"there is no feature {shown(name)}; expected {', '.join(FEATURES)}"
                f"{meant(name, FEATURES)}"
            )
    return requested
