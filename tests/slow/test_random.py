"""Random networks of NEURON's own mechanisms: each spike is NEURON's."""

import json
import subprocess
import sys
from pathlib import Path

import mod_files
import pytest

pytest.importorskip("neuron", reason="NEURON is not installed")
pytestmark = pytest.mark.neuron
PROGRAM = Path(__file__).with_name("random") / "neuron_random.py"


@pytest.mark.parametrize(
    ("first", "count", "stop"),  # ms
    [(1, 1, 200.0), pytest.param(1, 12, 500.0, marks=pytest.mark.slow)],
)
def test_spikes_are_those_of_neuron(first, count, stop):
    command = [sys.executable, str(PROGRAM), str(first), str(count), str(stop), "steps"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert not done.returncode, done.stderr[-2000:]
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(rows) == count
    assert sum(row["spikes"] for row in rows) > 0.1 * stop * count
    for row in rows:
        assert row["differs"] is None and row["ours"] == row["spikes"], row


@pytest.mark.slow
def test_random_models_agree_with_neuron(fast_queue, tmp_path):
    """Forty models of all mechanisms of tests/mod in NEURON's memory."""
    from bench import __main__ as bench

    words = ["--seeds", "40", "--library", str(mod_files.library()), "--out", str(tmp_path)]
    assert bench.main(["random", *words]) == 0
    (path,) = tmp_path.glob("random-*.json")
    assert len(json.loads(path.read_text("utf-8"))["rows"]) == 40
