"""Compare each spike of random models in NEURON's memory with NEURON's."""

import json

import mod_files
import pytest

pytestmark = pytest.mark.neuron


@pytest.mark.parametrize(
    ("engine", "first", "seeds", "duration"),  # ms
    [
        ("auto", 3, 4, 100),
        ("switch", 3, 4, 100),
        pytest.param("auto", 1, 40, 500, marks=pytest.mark.slow),
        pytest.param("switch", 1, 100, 200, marks=pytest.mark.slow),
    ],
)
def test_random_models_agree_with_neuron(fast_queue, tmp_path, engine, first, seeds, duration):
    """Models have mechanisms of NEURON and of all files in tests/mod."""
    from bench import __main__ as bench

    words = ["--first", first, "--seeds", seeds, "--duration", duration, "--out", tmp_path]
    words += ["--engine", engine]
    assert bench.main(["random", *map(str, words), "--library", str(mod_files.library())]) == 0
    (path,) = tmp_path.glob("random-*.json")
    rows = json.loads(path.read_text("utf-8"))["rows"]
    assert len(rows) == seeds and any(row.get("spikes") for row in rows)
