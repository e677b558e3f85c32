"""Features by hand, and against eFEL on a thousand traces if it is installed."""

import numpy as np
import pytest
from traces import END, START, by_efel, made_traces, matched

from clhines import InputError
from clhines.simulator.analysis import FEATURES, Features, extract
from clhines.simulator.analysis.definitions import WITHOUT_STIMULUS


@pytest.mark.filterwarnings("ignore")  # eFEL's own
def test_every_feature_is_efels():
    """Compare all features with eFEL at the samples."""
    count, dt = 700, 0.0625
    efel = pytest.importorskip("efel")
    t, v, current = made_traces(count, dt)
    ours = extract(v, t, FEATURES, stim_start=START, stim_end=END, stimulus_current=current)
    seen = dict.fromkeys(FEATURES, 0)
    for k, theirs in enumerate(by_efel(efel, t, v, current, dt)):
        for name in FEATURES:
            seen[name] += theirs[name] is not None
            try:
                matched(name, ours[name][k], theirs[name])
            except AssertionError as error:
                raise AssertionError(f"trace {k}: {error}") from error
    assert all(result > count // 20 for result in seen.values()), seen


def test_stimuli_of_their_own():
    t, v, current = made_traces(20, 0.1, seed=5)
    rng = np.random.default_rng(6)
    begin, end = rng.uniform(50, 150, 20), rng.uniform(300, 480, 20)
    window = {"stim_start": begin, "stim_end": end, "stimulus_current": current}
    together = extract(v, t, FEATURES, **window)
    for k in range(20):
        alone = extract(v[k], t, FEATURES, **{name: a[k] for name, a in window.items()})
        for name, values in together.items():
            np.testing.assert_array_equal(alone[name][0], values[k], err_msg=name)


def test_by_hand():
    """Check peaks at 120, 140, 180 and 430 ms, one sample each, and a minimum 2 ms after each."""
    t = np.arange(0, 5001) * 0.1
    v = np.full(len(t), -70.0)
    for at, top, low in ((120, 10, -80), (140, 20, -81), (180, 30, -82), (430, 40, -83)):
        v[at * 10] = top
        v[at * 10 + 20] = low
        v[at * 10 + 1 : at * 10 + 20] = np.linspace(-30, low + 1, 19)
    features = extract(v, t, FEATURES, stim_start=100, stim_end=400, stimulus_current=0.5)
    assert features["spike_count"].tolist() == [4]
    assert features["spike_count_stimint"].tolist() == [3]
    np.testing.assert_allclose(features["peak_time"][0], [120, 140, 180, 430], rtol=1e-12)
    assert features["peak_voltage"][0].tolist() == [10, 20, 30, 40]
    assert features["min_AHP_values"][0].tolist() == [-80, -81, -82, -83]
    assert features["AHP_depth"][0].tolist() == [-10, -11, -12, -13]
    scalars = {
        "time_to_first_spike": 20,
        "time_to_last_spike": 330,
        "mean_frequency": 3 * 1000 / 80,
        "ISI_CV": np.std([40, 250], ddof=1) / 145,
        "irregularity_index": 210,
        "inv_first_ISI": 50,
        "voltage_base": -70,
        "steady_state_voltage_stimend": -70,
        "minimum_voltage": -82,
        "maximum_voltage": 30,
        "voltage_deflection_vb_ssse": 0,
        "ohmic_input_resistance_vb_ssse": 0,
        "sag_amplitude": 12,
        "sag_ratio1": 1,
        "adaptation_index": np.nan,  # three spikes in the stimulus
    }
    for name, value in scalars.items():
        np.testing.assert_allclose(features[name], [value], rtol=1e-10, atol=1e-10, err_msg=name)


def test_no_spikes_at_all():
    t, v = np.arange(0, 100, 0.5), np.full((3, 200), -65.0)
    features = extract(v, t, FEATURES, stim_start=20, stim_end=80, stimulus_current=0.0)
    assert features["spike_count"].tolist() == [0, 0, 0]
    assert [len(one) for one in features["AHP_depth"]] == [0, 0, 0]
    assert np.isnan(features["ohmic_input_resistance"]).all()  # no current


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"v": np.zeros((2, 9))}, r"v has shape \(2, 9\); expected \(m, 10\)"),
        ({"t": np.zeros(10)}, r"t has shape \(10,\); expected \(k,\) ascending"),
        ({"v": np.full((2, 10), np.nan)}, r"v\[0, 0\] is nan"),
        ({"names": ["AP_height_of_all"]}, "no feature 'AP_height_of_all'; expected spike_count"),
        ({"stim_start": 9.5}, "stimulus of trace 0 is from 9.5 to 6 ms"),
        ({"stim_end": [6.0, 1.0]}, "stimulus of trace 1 is from 2 to 1 ms"),
        ({"stim_end": [6.0] * 3}, r"stim_end has shape \(3,\); expected a number or \(2,\)"),
        ({"threshold": np.inf}, "threshold is inf; expected a finite number"),
        ({"names": "ohmic_input_resistance"}, "stimulus_current is None; expected nA"),
    ],
)
def test_what_cannot_be_done_is_refused(changed, text):
    arguments = {"v": np.zeros((2, 10)), "t": np.arange(10.0), "names": ["spike_count"]}
    arguments |= {"stim_start": 2.0, "stim_end": 6.0, **changed}
    with pytest.raises(InputError, match=text):
        extract(arguments.pop("v"), arguments.pop("t"), arguments.pop("names"), **arguments)


def test_features_of_whole_traces_need_no_stimulus():
    """Features that no stimulus changes need none; refusals of others name the missing values."""
    t, v, current = made_traces(40, 0.1, seed=3)
    names = list(WITHOUT_STIMULUS)
    features = extract(v, t, names)
    for begin, end in ((START, END), (5.0, 6.0)):
        expected = extract(v, t, names, stim_start=begin, stim_end=end)
        for name in names:
            a, b = features[name], expected[name]
            np.testing.assert_array_equal(getattr(a, "values", a), getattr(b, "values", b))
    one, other = (
        extract(v, t, FEATURES, stim_start=a, stim_end=b, stimulus_current=current)
        for a, b in ((START, END), (5.0, 6.0))
    )
    for name in set(FEATURES) - set(names):
        a, b = (getattr(x[name], "values", x[name]) for x in (one, other))
        assert a.shape != b.shape or not np.array_equal(a, b, equal_nan=True), name
        with pytest.raises(InputError, match=f"{name} needs a stimulus; expected stim_start and"):
            extract(v, t, ["spike_count", name])
        with pytest.raises(InputError, match=f"{name} needs a stimulus; expected stim_start and"):
            Features([name])
    with pytest.raises(InputError, match="stim_end is None; expected ms"):
        extract(v, t, ["spike_count"], stim_start=1.0)
