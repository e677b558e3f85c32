"""Engines in turn in one process: kernels of one engine must not change another's results."""

import importlib.util
import itertools
import json
import os
from pathlib import Path

import pytest
from processes import output_of

from clhines.solver.device import devices

TESTS = Path(__file__).parents[1]
# Voltages up to 100 mV after 400 steps with some roundings each, which a spike's upstroke
# (about e^5) amplifies; NEURON's conductances are also differences over 0.001 mV
# (tests/neuron/test_entry.py).
TOLERANCES = {"texts": 1e-8, "mod": 1e-8, "neuron": 1e-7}  # mV
ALL = [f"{model}:{engine}" for engine in ("epochs", "steps") for model in TOLERANCES]
PAIRS = [
    [f"{model}:{engine}" for engine in order]
    for model in TOLERANCES
    for order in itertools.permutations(("steps", "epochs"))
]
TURNS = [ALL, ALL[::-1], *(pytest.param(runs, marks=pytest.mark.slow) for runs in PAIRS)]
WIDTHS = [0, *(pytest.param(w, marks=pytest.mark.slow) for w in (16, 32, 64))]  # bytes; 0: its own


@pytest.mark.optimised
@pytest.mark.parametrize("turns", TURNS, ids="-".join)
@pytest.mark.parametrize("width", WIDTHS)
def test_each_engine_after_others(double_queue, tmp_path, width, turns):
    if width > devices.limits(double_queue.device).trusted_bytes:
        pytest.skip(f"vectors of {width} bytes are wider than this device computes right")
    if None in map(importlib.util.find_spec, ("neuron", "clhines.neuron")):
        turns = [run for run in turns if not run.startswith("neuron")]
        if not turns:
            pytest.skip("NEURON is not installed")
    index = next(i for i, d in devices.all_devices() if d == double_queue.device)
    folder = str(tmp_path / "cache")
    (tmp_path / "cache").mkdir()
    paths = [str(TESTS / "support"), os.environ.get("PYTHONPATH", "")]
    more = {"POCL_CACHE_DIR": folder, "XDG_CACHE_HOME": folder, "CUDA_CACHE_PATH": folder}
    for _ in ("compiled", "cached"):
        more["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        program = TESTS / "simulator/engine_turns.py"
        out = output_of(program, index, width, *turns, timeout=300, **more)
        for run, (difference, scale) in json.loads(out.splitlines()[-1]).items():
            assert scale > 50, run  # at least one spike
            assert difference <= TOLERANCES[run.partition(":")[0]], (run, difference)
