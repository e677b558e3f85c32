"""The measure `cells`: neurons with many channels, their regions, and a small complete run."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bench import neurons
from bench.measures import cells


def test_the_large_neuron_is_like_the_published_one():
    """Hay's cell: 642 compartments and 3,663 gates, to within 20 %; 14 gates in the soma."""
    cable = neurons.cable_of("l5pc")
    network = neurons.neurons("l5pc", cable, 1)
    gates = np.zeros(cable.num_nodes, int)
    for group in network.groups:
        gates[group.nodes] += len(group.mechanism.states)
    assert abs((cable.area > 0).sum() / 642 - 1) < 0.2
    assert abs(gates.sum() / 3663 - 1) < 0.2
    assert gates[cable.soma] == 14
    assert set(np.unique(gates)) == {0, 1, 9, 14}  # junctions and axon, basal, apical, soma


@pytest.mark.parametrize("engine", ["epochs", "steps"])
def test_a_small_run(monkeypatch, tmp_path, fast_queue, engine):
    monkeypatch.setattr(cells.record, "queue", lambda device, dtypes: fast_queue)
    words = ["--cells", "granule", "--copies", "2", "--dtype", "float32", "--engines", engine]
    words += ["--peers", "--steps", "8", "--check", "0.5", "--out", str(tmp_path)]
    cells.main(words)
    (path,) = tmp_path.glob("cells-*.json")
    (row,) = json.loads(path.read_text())["cells"]
    assert row["engine"] == engine
    assert row["seconds"] > 0
    assert row["good"]


def test_a_wrong_result_ends_the_measure(monkeypatch, tmp_path, fast_queue):
    monkeypatch.setattr(cells.record, "queue", lambda device, dtypes: fast_queue)
    monkeypatch.setattr(cells, "truth", lambda *_: np.zeros(21))
    words = ["--cells", "granule", "--copies", "1", "--dtype", "float32", "--steps", "4"]
    words += ["--engines", "steps", "--peers", "--check", "0.5", "--out", str(tmp_path)]
    with pytest.raises(SystemExit, match="mV from the reference"):
        cells.main(words)


def test_files_and_texts_are_the_same_neuron(monkeypatch):
    """Without tables, rates differ by an ulp through other series at 0/0: far less than 1 nV."""
    neuron = neurons.NEURONS["granule"]
    files = replace(neuron, from_files=True, ions=neurons.NEURONS["l5pc-table"].ions)
    monkeypatch.setitem(neurons.NEURONS, "files", files)
    cable = neurons.cable_of("granule")
    v, expected = (cells.truth(name, cable, 3.0) for name in ("files", "granule"))
    assert np.abs(v - expected).max() < 1e-6  # mV
    assert np.ptp(expected) > 1


def test_spikes_are_compared_by_their_times():
    t = np.arange(40) * neurons.DT
    expected = 300 * t - 150  # mV, at -20 mV after 130/300 ms
    assert cells.spikes_apart(np.array([expected, expected]), expected) == 0
    late = expected - 15  # 15 mV at 300 mV/ms
    assert cells.spikes_apart(np.array([late]), expected) == pytest.approx(0.05)
    assert cells.spikes_apart(np.array([expected - 1e3]), expected) == np.inf


def test_the_choice_is_held_against_the_fastest_engine(monkeypatch):
    case = {"cell": "granule", "copies": 1, "dtype": "float32", "name": "clhines"}
    rows = [{**case, "engine": "epochs", "seconds": 2.0}, {**case, "engine": "steps", "seconds": 3}]
    monkeypatch.setattr(cells, "choice", lambda *_: "steps")
    (choice,) = cells.choices(None, rows)
    assert choice["over_fastest"] == 1.5
    assert "0 of 1 cases, at worst 1.50" in cells.about_choices([choice])[0]


def test_the_large_neuron_has_2000_compartments_and_kinetic_schemes():
    cable = neurons.cable_of("purkinje")
    assert (cable.area > 0).sum() >= 2000
    names = neurons.NEURONS["purkinje"].densities.keys() - {"pas"}
    text = "".join((neurons.MODS / f"{name}.mod").read_text() for name in names)
    assert text.count("KINETIC scheme") == 3
    assert "TABLE" in text
    assert "TABLE" not in neurons.without_tables(text)
