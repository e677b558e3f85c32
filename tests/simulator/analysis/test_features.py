"""Features of a run: the windows to sum, and features from these sums alone."""

import numpy as np
import pytest
from traces import END, START, made_traces

from clhines import InputError
from clhines.simulator.analysis import FEATURES, Features, extract
from clhines.simulator.analysis.features import WindowSums
from clhines.simulator.analysis.segments import segments_of


def test_sums_of_windows_and_segments_are_enough():
    """Window sums, minima and maxima give the same features as `extract` with the traces."""
    t, v, current = made_traces(30, 0.25)
    window = {"stim_start": START, "stim_end": END, "stimulus_current": current}
    features = Features(FEATURES, **window)
    begin, end = features.windows(t, 30)
    assert begin.shape == end.shape and (begin >= 0).all() and (end <= len(t)).all()
    kept = np.full((3, *begin.shape), np.nan)
    for k, row in np.argwhere(begin < end):
        part = v[row, begin[k, row] : end[k, row]]
        kept[:, k, row] = part.sum(), part.min(), part.max()
    values = features.of_windows(t, WindowSums(segments_of(v, features.threshold), *kept))
    expected = extract(v, t, FEATURES, **window)
    assert list(values) == [*FEATURES]
    for name in FEATURES:
        mine, theirs = (getattr(x[name], "values", x[name]) for x in (values, expected))
        # sums over up to 1,200 samples of 100 mV, in another order
        np.testing.assert_allclose(mine, theirs, 1e-11, 1e-11, err_msg=name)


def test_a_run_that_failed_has_none():
    features = Features(["spike_count", "AHP_depth"], stim_start=1.0, stim_end=2.0).nothing(3)
    assert np.isnan(features["spike_count"]).all() and features["spike_count"].shape == (3,)
    assert [len(one) for one in features["AHP_depth"]] == [0, 0, 0]


@pytest.mark.parametrize(
    ("names", "given", "text"),
    [
        ([], {}, "names is empty; expected some of "),
        (["spike_cuont"], {}, "no feature 'spike_cuont'; expected spike_count.*'spike_count'"),
        (["spike_count"], {"threshold": np.nan}, "threshold is nan; expected a finite number"),
    ],
)
def test_wrong_requests(names, given, text):
    with pytest.raises(InputError, match=text):
        Features(names, **given)


def test_windows_are_within_the_run():
    with pytest.raises(InputError, match="features of 2 samples; expected 3 or more"):
        Features(["spike_count"]).windows(np.arange(2.0), 1)
