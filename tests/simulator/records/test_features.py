"""Features computed in a run: against `analysis.extract` on its traces, and against eFEL."""

import networks
import numpy as np
import pyopencl.array as cla
import pytest
from traces import END, START, by_efel, made_traces, matched

from clhines import Network, Simulation, discretise, sample_cells
from clhines.core.errors import InputError, SimulationError
from clhines.simulator.analysis import FEATURES, Features, extract
from clhines.simulator.records.features import DeviceFeatures, FeatureWindows, HostFeatures

DT = 0.025


def taken(features, t, v, cuts, device=None):
    """Return features of traces in chunks; on a device, with another column beside them."""
    windows = FeatureWindows(features, *features.windows(t, len(v)), 0)
    if device is None:
        host = HostFeatures(windows)
        chunks = [host.take(v[:, a:b].T) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
        return windows.values(chunks, t)
    queue, dtype = device
    device_features, chunks = DeviceFeatures(windows, queue, dtype), []
    for a, b in zip(cuts[:-1], cuts[1:], strict=True):
        rows = np.ascontiguousarray(np.vstack([np.full((1, b - a), 99.0), v[:, a:b]]).T)
        chunks.append(device_features.take(cla.to_device(queue, rows.astype(dtype)), b - a, 1, a))
    return windows.values(chunks, t)


def traces_and_stimuli(count, dt):
    """Return traces, some of which jump at the threshold so that crossings do not alternate."""
    t, v, current = made_traces(count, dt)
    rng = np.random.default_rng(5)
    v[: count // 4] = rng.choice([-21.0, -20.0, -20.0, -18.0], (count // 4, len(t)))
    window = {"stim_start": START, "stim_end": END, "stimulus_current": current}
    return t, v, window


def test_traces_of_all_kinds(double_queue):
    """Compare chunks of 1 sample and more, on the device and the host, with `extract`."""
    t, v, given = traces_and_stimuli(40, 0.25)
    expected = extract(v, t, FEATURES, **given)
    features = Features(FEATURES, **given)
    cuts = [0, 1, 2, 5, 700, 701, len(t)]
    for device in (None, (double_queue, np.float64)):
        result = taken(features, t, v, cuts, device)
        for name in FEATURES:
            for mine, theirs in zip(result[name], expected[name], strict=True):
                matched(name, mine, np.atleast_1d(theirs))
        alone = taken(Features(["spike_count"], **given), t, v, cuts, device)  # without windows
        np.testing.assert_array_equal(alone["spike_count"], expected["spike_count"])
    assert expected["spike_count"].max() > 100  # more spikes than the first buffer of a chunk holds


@pytest.mark.filterwarnings("ignore")  # eFEL's own
def test_they_are_efels(double_queue):
    """Compare all features with eFEL on few traces; `python -m bench features` takes a thousand."""
    efel = pytest.importorskip("efel")
    dt = 0.0625
    t, v, given = traces_and_stimuli(60, dt)
    result = taken(Features(FEATURES, **given), t, v, [0, 1000, len(t)], (double_queue, np.float64))
    for k, theirs in enumerate(by_efel(efel, t, v, given["stimulus_current"], dt)):
        for name in FEATURES:
            matched(name, result[name][k], theirs[name])


@pytest.fixture(scope="module")
def driven():
    """Return four cells, of which the last spikes several times."""
    net = Network(discretise(sample_cells()[0], max_length=200), num_cells=4)
    net.insert("hh")
    amp = np.linspace(-0.2, 3.0, 4)
    net.add("iclamp", at=net.soma, delay=2.0, dur=20.0, amp=amp)
    return net, {"stim_start": 2.0, "stim_end": 22.0, "stimulus_current": amp}


@pytest.mark.parametrize(
    ("engine", "dtype", "chunk"),
    [("epochs", "float64", 100), ("steps", "float32", 1024), ("reference", "float64", 1024)],
)
def test_runs(typed_queue, driven, engine, dtype, chunk):
    net, given = driven
    sim = Simulation(net, DT, dtype, queue=typed_queue, engine=engine, chunk=chunk)
    v, some = sim.record("v", net.soma), sim.record("v", net.soma[:0], reduce=Features(
        ["spike_count"], stim_start=5.0, stim_end=9.0))  # fmt: skip
    features = sim.record("v", net.soma, reduce=Features(FEATURES, **given))
    result = sim.run(26.0)
    expected = extract(result[v].T, result.t, FEATURES, **given)
    values = result.features[features]
    tolerance = 1e-9 if dtype == "float64" else 1e-5  # sums of float32 voltages
    for name in FEATURES:
        for mine, theirs in zip(values[name], expected[name], strict=True):
            np.testing.assert_allclose(mine, theirs, tolerance, 100 * tolerance, err_msg=name)
    spikes = values["spike_count"].tolist()
    assert spikes[0] == 0 and spikes[-1] > 1
    assert result[v].shape[0] == len(result.t) and len(result.features[some]["spike_count"]) == 0
    with pytest.raises(InputError, match=r"record 2 has features; expected result.features\[2\]"):
        result[features]


def test_features_of_spikes_alone_need_no_window(double_queue, driven):
    net, given = driven
    sim = Simulation(net, DT, np.float64, queue=double_queue)
    v = sim.record("v", net.soma)
    counts = sim.record("v", net.soma, reduce=Features(["spike_count"], **given))
    result = sim.run(26.0)
    expected = extract(result[v].T, result.t, ["spike_count"], **given)["spike_count"]
    assert expected.max() > 1
    assert np.array_equal(result.features[counts]["spike_count"], expected)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"names": "spikes"}, "no feature 'spikes'; expected spike_count"),
        ({"names": []}, "names is empty"),
        ({"stim_start": [1.0, 2.0]}, r"stim_start has shape \(2,\); expected a number or \(4,\)"),
        ({"names": "ohmic_input_resistance"}, "stimulus_current is None; expected nA"),
    ],
)
def test_what_cannot_be_computed_is_rejected(driven, given, message):
    net, _ = driven
    given = {"names": ["spike_count"], "stim_start": 1.0, "stim_end": 2.0, **given}
    sim = Simulation(net, DT, engine="reference")
    with pytest.raises(InputError, match=message):
        sim.record("v", net.soma, reduce=Features(**given))
        sim.run(10.0)


@pytest.mark.parametrize("engine", ["epochs", "reference"])
def test_a_run_that_fails(double_queue, engine):
    net = Network.from_arrays([-1], [0, 1], [500.0], [0.0], [0.005])
    net.insert("density fails\ncurrent i = 1e-4*sqrt(1 - t)*(v + 60) [mA/cm2]")
    sim = Simulation(net, queue=double_queue, engine=engine)
    sim.record("v", 0, reduce=Features(["peak_voltage"]))
    with pytest.raises(SimulationError, match="not finite at t = 1.025 ms"):
        sim.run(2.0)


def test_other_variables_have_none():
    net, _ = networks.mixed_network()
    sim = Simulation(net, DT, engine="reference")
    features = Features(["spike_count"], stim_start=1.0, stim_end=2.0)
    with pytest.raises(
        InputError, match=r"reduce=Features\(...\) of i_membrane; expected a record of"
    ):
        sim.record("i_membrane", [0], reduce=features)
