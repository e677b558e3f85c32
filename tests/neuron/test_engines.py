"""Compare every engine in both precisions with NEURON, with few kernels and few .mod files."""

from pathlib import Path

import forked
import mod_files
import pytest

from clhines.simulator.engines.table import ENGINES

pytestmark = [pytest.mark.neuron, pytest.mark.core]
PROGRAM = Path(__file__).with_name("engines_program.py")
SPIKES = 3  # the two cells' spikes in 20 ms


@pytest.fixture(scope="module")
def library():
    return str(mod_files.library(mod_files.FEW))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("engine", [engine.name for engine in ENGINES])
@pytest.mark.parametrize("model", ["memory", "texts"])
def test_every_engine_beside_neuron(library, model, engine, dtype):
    """Compare spikes and voltages of two cells with channels of .mod files, or of texts.

    NEURON divides differences of currents by 0.001 mV, a relative error of 1e-11 that the upstroke
    of a spike amplifies to less than 1e-6 mV. float32 has half the digits: the spikes are in the
    same steps, or in neighbouring ones.
    """
    if engine == "reference" and dtype == "float32":
        pytest.skip("the reference is in float64")
    result = forked.result_of(PROGRAM, model, engine, dtype, library)
    assert result["engine"] == engine
    assert len(result["theirs"]) >= SPIKES and len(result["ours"]) == len(result["theirs"])
    late = max(abs(a - b) for a, b in zip(result["ours"], result["theirs"]))
    if dtype == "float64":
        assert late < 1e-9
        assert result["apart"] < 1e-6
    else:
        assert late < 1.5 * result["dt"]
