"""Segments of traces: the values kept per chunk give the whole trace's peaks and minima."""

import numpy as np
import pytest
from traces import made_traces

from clhines.simulator.analysis.segments import DOWN, FIRST, UP, joined, packed, segments_of

THRESHOLD = -20.0


def test_segments_by_hand():
    v = np.array([[-70.0, -72.0, 10.0, 30.0, 30.0, -60.0, -75.0, -70.0, -70.0], [-70.0] * 9])
    parts = segments_of(v, THRESHOLD)
    assert parts.row.tolist() == [0, 0, 0, 1] and parts.kind.tolist() == [FIRST, UP, DOWN, FIRST]
    assert parts.begin.tolist() == [0, 2, 5, 0]
    assert parts.top.tolist() == [0, 3, 5, 0]  # the first one if several are equal
    assert parts.top_v.tolist() == [-70.0, 30.0, -60.0, -70.0]
    assert parts.after.tolist() == [1, 3, 6, 0] and parts.after_v[2] == -75.0
    assert [one.tolist() for one in parts.peaks()[0]] == [[3], []]
    samples, voltages = parts.minima(9)
    assert [one.tolist() for one in samples] == [[6], []]
    assert [one.tolist() for one in voltages] == [[-75.0], []]


def peaks_and_minima(v):
    """Return peaks and minima by eFEL's definitions, sample after sample in one trace."""
    ups = [k for k in range(1, len(v)) if v[k] > THRESHOLD > v[k - 1]]
    downs = [k for k in range(1, len(v)) if v[k] < THRESHOLD < v[k - 1] and ups and k >= ups[0]]
    peaks = [a + int(np.argmax(v[a : b + 1])) for a, b in zip(ups, downs) if a <= b]
    minima = []
    for k, end in zip(peaks, [*peaks[1:], len(v)]):
        rest = (j for j in range(k, end - 2) if v[j] <= min(v[j + 1], v[j + 2]))
        place = next(rest, k + int(np.argmin(v[k:end])) if k < end else k)
        minima += [place] * (place != len(v) - 1)
    return peaks, minima


@pytest.mark.parametrize("seed", range(3))
def test_peaks_and_minima_are_those_of_the_traces(seed):
    t, v, _ = made_traces(60, 0.25, seed)
    segments = segments_of(v, THRESHOLD)
    (peaks, voltages), (minima, _) = segments.peaks(), segments.minima(len(t))
    assert len(peaks.values) > 50
    for k in range(60):
        assert (peaks[k].tolist(), minima[k].tolist()) == peaks_and_minima(v[k])
    row = np.repeat(np.arange(60), np.diff(peaks.offsets))
    assert np.array_equal(voltages.values, v[row, peaks.values])


def test_packed_segments_come_back():
    """Unpacking returns the segments of a run in one chunk."""
    _, v, _ = made_traces(20, 0.5)
    segments = segments_of(v, THRESHOLD)
    again = joined([packed(segments)])
    for name in ("row", "kind", "begin", "top", "before", "after", "rest", "top_v", "rest_v"):
        np.testing.assert_array_equal(getattr(again, name), getattr(segments, name), name)
    assert again.count == 20
