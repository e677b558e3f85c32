"""The measure `variants`: a small complete run, and errors that end it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bench import neurons
from bench.measures import variants as measure
from bench.peers import variants


@pytest.fixture
def short(monkeypatch, measured_on):
    """A cell of a soma and few dendrites, with four mechanisms."""
    neuron = neurons.NEURONS[variants.CELL]
    few = {name: neuron.densities[name] for name in ("pas", "nata", "skv", "im")}
    small = replace(neuron, densities=few, morphology=neurons.small)
    monkeypatch.setitem(neurons.NEURONS, variants.CELL, small)
    return measured_on


def test_a_small_run(short, tmp_path):
    words = ["--variants", "2", "--stop", "20", "--peers", "--out", str(tmp_path), "--batch", "1"]
    measure.main([*words, "--dtype", "float64"])
    (path,) = tmp_path.glob("variants-*.json")
    measure.main([*words, "--dtype", "float32", "--with", str(path)])
    double, single = json.loads(path.read_text())["variants"]
    assert (double["dtype"], single["dtype"]) == ("float64", "float32")
    assert double["first_variants"] == 1 and double["simulate_s"] > 0
    counts = np.array(double["features"]["spike_count"])
    assert counts.shape == (2, 3) and counts.min() >= 1
    assert (
        single["against"] == "clhines float64, 2 variants" and single["apart"]["same_count"] == 1.0
    )
    assert double["set_s"] > 0 and double["where"].split()[1:] in ([], ["cores"])
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
    assert rows[1]["apart"]["AHP_depth"] == 0.5  # only traces with as many spikes
    with pytest.raises(SystemExit, match="67% of the traces have NEURON's spikes"):
        measure.check(rows)
