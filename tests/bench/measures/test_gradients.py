"""The measure `gradients`, with a small neuron."""

import json

from bench.measures import gradients


def test_a_small_measure(tmp_path, monkeypatch):
    monkeypatch.setenv("CLHINES_DEVICE", "cpu")
    arguments = "--copies 2 --duration 0.5 --neurons granule --jaxley-steps 0"
    assert gradients.main([*arguments.split(), "--out", str(tmp_path)]) == 0
    [path] = tmp_path.glob("gradients-*.json")
    result = json.loads(path.read_text("utf-8"))
    [row] = result["rows"]
    assert row["neuron"] == "granule" and row["apart"] < 1e-10 and row["gradient"] > 0
    assert "granule" in gradients.text(result)
