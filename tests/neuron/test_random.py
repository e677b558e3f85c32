"""Random networks of NEURON's own mechanisms: each spike is NEURON's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("neuron", reason="NEURON is not installed")
pytestmark = [pytest.mark.neuron, pytest.mark.slow]
PROGRAM = Path(__file__).parents[1] / "support" / "neuron_random.py"
SEEDS, TOGETHER, STOP = 3, 3, 500.0  # ms


@pytest.mark.parametrize("first", range(1, SEEDS + 1, TOGETHER))
def test_spikes_are_those_of_neuron(first):
    command = [sys.executable, str(PROGRAM), str(first), str(TOGETHER), str(STOP), "steps"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert not done.returncode, done.stderr[-2000:]
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(rows) == TOGETHER
    assert sum(row["spikes"] for row in rows) > 50 * TOGETHER
    for row in rows:
        assert row["differs"] is None and row["ours"] == row["spikes"], row
