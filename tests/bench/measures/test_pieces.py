"""Runs of NEURON models in pieces are checked and timed, in a separate process."""

import json
from pathlib import Path

import pytest
from processes import output_of

pytestmark = pytest.mark.neuron
BENCH = Path(__file__).parents[3] / "bench"


def rows_of(folder, *words):
    output_of(BENCH, "pieces", "--rounds", "1", *words, "--out", folder, timeout=300)
    (path,) = folder.glob("pieces-*.json")
    return json.loads(path.read_text("utf-8"))["rows"]


def test_pieces_are_timed(measured_on, tmp_path):
    rows = rows_of(tmp_path, "--stop", "10", "--segments", "1")
    assert [(r["model"], r["piece"]) for r in rows] == [
        *((model, piece) for model in ("ring", "cell") for piece in (0.1, 1.0, 10.0, 10.0)),
        ("cell 1", 100.0),
        ("cell 1", 1000.0),
    ]
    assert all(r["neuron_seconds"] > 0 < r["ours_seconds"] for r in rows)
