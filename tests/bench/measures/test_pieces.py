"""Pieces of runs of NEURON's models are checked and timed, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("neuron", reason="NEURON is not installed")
pytestmark = pytest.mark.neuron
BENCH = Path(__file__).parents[3] / "bench"


def test_pieces_are_timed(measured_on, tmp_path):
    command = [sys.executable, str(BENCH), "pieces", "--rounds", "1", "--stop", "10"]
    done = subprocess.run(
        [*command, "--segments", "1", "--out", str(tmp_path)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr[-2000:]
    (path,) = tmp_path.glob("pieces-*.json")
    rows = json.loads(path.read_text("utf-8"))["rows"]
    assert [(r["model"], r["piece"]) for r in rows] == [
        *((model, piece) for model in ("ring", "cell") for piece in (0.1, 1.0, 10.0, 10.0)),
        ("cell 1", 100.0),
        ("cell 1", 1000.0),
    ]
    assert all(r["neuron_seconds"] > 0 < r["ours_seconds"] for r in rows)
