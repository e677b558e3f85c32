"""The measure `variants`: channels in NEURON's language, and a small run of all of it."""

import json

import numpy as np
import pytest

from bench import neurons
from bench.measures import variants as measure
from bench.peers import variants, variants_neuron


@pytest.fixture
def short(monkeypatch, measured_on):
    """A cell of a soma and few dendrites, with four mechanisms."""
    cable = neurons.cable_of("l5pc", neurons.small())
    monkeypatch.setattr(neurons, "cable_of", lambda *_: cable)
    few = {name: neurons.FIRING[name] for name in ("pas", "nata", "skv", "im")}
    monkeypatch.setattr(neurons, "FIRING", few)
    return measured_on


def test_a_small_run(short, tmp_path):
    given = ["--variants", "2", "--stop", "20", "--peers", "--out", str(tmp_path), "--batch", "1"]
    measure.main([*given, "--dtype", "float64"])
    (path,) = tmp_path.glob("variants-*.json")
    measure.main([*given, "--dtype", "float32", "--with", str(path)])
    double, single = json.loads(path.read_text())["variants"]
    assert (double["dtype"], single["dtype"]) == ("float64", "float32")
    assert double["first_variants"] == 1 and double["simulate_s"] > 0
    counts = np.array(double["features"]["spike_count"])
    assert counts.shape == (2, 3) and counts.min() >= 1
    assert single["against"] == "clhines float64" and single["apart"]["same_count"] == 1.0
    assert 0 < single["apart"]["voltage_base"] < 0.1  # mV


def test_other_spikes_than_neurons_end_the_measure():
    features = {name: [[1.0, 2.0, 3.0]] for name in variants.FEATURES}
    other = {**features, "spike_count": [[1.0, 2.0, 9.0]], "AHP_depth": [[1.5, 2.0, 0.0]]}
    rows = [
        {"name": "NEURON 9", "dtype": "float64", "variants": 1, "features": features},
        {"name": "clhines", "dtype": "float64", "variants": 1, "features": other},
    ]
    measure.compare(rows)
    assert rows[1]["apart"]["same_count"] == pytest.approx(2 / 3)
    assert rows[1]["apart"]["AHP_depth"] == 0.5  # of the traces with as many spikes
    with pytest.raises(SystemExit, match="67% of the traces have NEURON's spikes"):
        measure.check(rows)


def test_channels_in_neurons_language():
    """A `where` is an if; units are gone."""
    text = variants_neuron.nmodl("kp")
    first, second = "175.03*exp(0.026*(v + 10))", "13*exp(-0.026*(v + 10))"
    cases = f"if (v < -60) {{ tau_m = 1.25 + {first} }} else {{ tau_m = 1.25 + {second} }}"
    assert cases in text
    assert "m' = (m_inf - m)*qt/tau_m" in text and "where" not in text
    for name in neurons.CHANNELS:
        assert "[" not in variants_neuron.nmodl(name), name
