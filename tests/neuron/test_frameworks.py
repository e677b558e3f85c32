"""Compare unmodified examples of frameworks with the switch on and off, in processes."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from bench.measures import frameworks

pytestmark = [pytest.mark.neuron, pytest.mark.slow]
EXAMPLES = {  # package -> names of `frameworks.SCRIPTS`
    "netpyne": ("netpyne tut3", "netpyne tut_gap"),
    "LFPy": ("LFPy EEG", "LFPy ECoG", "LFPy ECoG_4sphere"),
    "bluepyopt": ("BluePyOpt simplecell", "BluePyOpt metaparameters"),
    "bmtk": ("BMTK bio_1cell", "BMTK bio_14cells"),
    "efel": ("eFEL eval2",),
    "hnn_core": (
        "hnn-core firing_pattern",
        "hnn-core simulate_alpha",
        "hnn-core record_extracellular_potentials",
    ),
}


@pytest.mark.parametrize("name", [name for names in EXAMPLES.values() for name in names])
def test_an_example_gives_what_it_gives_in_neuron(name):
    """Compare the step of each spike, and voltages (for hnn-core dipoles) within rounding.

    Each step may round otherwise here. The growth of that is measured in NEURON by nudges of the
    least amount, one a ms. NEURON's conductances, differences over 0.001 mV, round by some thousand
    times more than a voltage. So the bound is the number of steps times the effect of the nudges.
    """
    package = next(p for p, names in EXAMPLES.items() if name in names)
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    folder = Path(os.environ.get("CLHINES_MODELS", "."))
    place = frameworks.SCRIPTS[name][0]
    if not (folder / place).is_dir():
        pytest.skip(f"CLHINES_MODELS names no folder with {place}")
    row = frameworks.row_of(name, folder, "cpu", sys.executable, turns=0, nudge=True)
    assert not {"failed", "neuron_failed"} & row.keys(), row
    runs = row["cells"] if package == "bluepyopt" else 1  # one per model
    assert row["steps"] >= 40 * runs
    assert row.get("spikes") == row.get("neuron_spikes") == row.get("same_step")
    assert row.get("nudged_same_step") == row.get("spikes")  # or the bound says nothing
    if "dv" in row:
        least = max(row["nudged_dv"], np.spacing(100.0))
        assert row["dv"] <= row["steps"] / runs * least
