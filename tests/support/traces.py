"""Traces of all kinds, and the comparison of their features with eFEL's."""

import numpy as np

from clhines.simulator.analysis import FEATURES

START, END, STOP = 100.0, 400.0, 500.0  # ms
INDICES = {"peak_indices", "min_AHP_indices"}


def made_traces(count, dt, seed=4):
    """Voltages of all kinds: silent, sagging, spiking before, in and after the stimulus, noisy.

    Some samples equal the threshold exactly, and some peaks are flat. Some traces begin above the
    threshold, and some end in a spike or within an afterhyperpolarisation. Voltages are multiples
    of 2**-10 mV: if `dt` is a power of 2, eFEL's interpolation is exact.
    """
    rng = np.random.default_rng(seed)
    t = np.arange(0, round(STOP / dt) + 1) * dt
    v = np.empty((count, len(t)))
    for row in v:
        current = rng.choice([-0.2, 0.0, 0.3])
        on = (t >= START) & (t < END)
        since = np.where(on, t - START, 0)
        tau = rng.uniform(5, 40)
        settled = 40 * current * (1 - np.exp(-since / tau))
        sag = 15 * current * np.exp(-since / 30) * (1 - np.exp(-since / 5))
        after = np.where(t >= END, np.exp(-(t - END) / tau) * 40 * current, 0)
        row[:] = rng.uniform(-85, -55) + np.where(on, settled + sag, after)
        for peak in rng.uniform(-2, STOP + 2, rng.integers(0, 15)):
            if rng.random() < 0.8 and not START <= peak <= END:
                continue
            x = t - peak
            row += rng.uniform(30, 110) * np.exp(-((x / rng.uniform(0.4, 1.5)) ** 2))
            row -= rng.uniform(0, 15) * np.where(x > 0, x / 4 * np.exp(1 - np.maximum(x, 0) / 4), 0)
        row += rng.choice([0.0, 0.02, 2.0]) * rng.normal(size=len(t))
        kind = rng.integers(0, 6)
        if kind == 0:
            row[:] = np.minimum(row, rng.uniform(-10, 20))  # flat peaks
        elif kind == 1:
            row[:] = np.round(row)  # ties, and samples that are the threshold
        elif kind == 2:
            row[: rng.integers(1, 20)] = 0.0  # begins above
    current = rng.choice([-0.2, 0.0, 0.3], count)
    return t, np.round(v * 1024) / 1024, current


def by_efel(efel, t, v, current, dt):
    """Return eFEL's features of each trace; it interpolates at `dt`, a power of 2: at samples."""
    efel.reset()
    efel.set_setting("interp_step", dt)
    stimulus = {"T": t, "stim_start": [START], "stim_end": [END]}
    traces = [{**stimulus, "V": row, "stimulus_current": [amp]} for row, amp in zip(v, current)]
    values = efel.get_feature_values(traces, list(FEATURES), raise_warnings=False)
    efel.reset()
    return values


def matched(name, mine, theirs):
    """Assert that one trace's feature equals eFEL's."""
    if theirs is None or (len(theirs) == 1 and np.isnan(theirs[0])):
        assert np.size(mine) == 0 or np.isnan(mine).all(), (name, mine)
        return
    mine = np.atleast_1d(mine)
    assert mine.shape == theirs.shape, (name, mine, theirs)
    if name in INDICES:
        assert mine.tolist() == theirs.tolist()
        return
    # eFEL adds up some 3,000 samples of 100 mV one after another; ratios lose digits by
    # cancellation
    np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-10, err_msg=name)
