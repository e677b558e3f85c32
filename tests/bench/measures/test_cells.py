"""The measure `cells`: neurons with many channels, their regions, and a small run of all of it."""

import json

import numpy as np
import pytest

from bench import neurons
from bench.measures import cells


def test_the_large_neuron_is_like_the_published_one():
    """642 compartments with 3,663 gates: within 20 % of these, 14 gates in the soma."""
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
    given = ["--cells", "granule", "--copies", "2", "--dtype", "float32", "--engines", engine]
    cells.main([*given, "--steps", "8", "--check", "0.5", "--out", str(tmp_path)])
    (path,) = tmp_path.glob("cells-*.json")
    (row,) = json.loads(path.read_text())["cells"]
    assert row["engine"] == engine
    assert row["seconds"] > 0
    assert row["good"]


def test_a_wrong_result_ends_the_measure(monkeypatch, tmp_path, fast_queue):
    monkeypatch.setattr(cells.record, "queue", lambda device, dtypes: fast_queue)
    monkeypatch.setattr(cells, "truth", lambda *_: np.zeros(21))
    given = ["--cells", "granule", "--copies", "1", "--dtype", "float32", "--steps", "4"]
    with pytest.raises(SystemExit, match="mV from the reference"):
        cells.main([*given, "--engines", "steps", "--check", "0.5", "--out", str(tmp_path)])
