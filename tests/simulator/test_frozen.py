"""Compare some runs with the files of `frozen`; its comparison can fail."""

import frozen
import numpy as np
import pytest

from clhines.solver.device import devices
from clhines.solver.plan.plan import Limits

VOLTAGE = 1e-9  # mV, before the first spike: processors differ in vectors and fused operations
pytestmark = pytest.mark.optimised


@pytest.mark.parametrize("only", ["somas", "busy, reference", "mixed, steps, f", "ions, steps"])
def test_runs_are_as_recorded(double_queue, only, capsys):
    if not frozen.path_of(double_queue.device).is_file():
        pytest.skip("this device has no record")
    assert frozen.check_runs(double_queue.device, False, VOLTAGE, only) == []
    assert "spikes" in capsys.readouterr().out


def test_limits_of_other_devices_are_seen_and_given_back(fast_queue):
    limits = devices.limits(fast_queue.device)
    with frozen.as_if(Limits(ptx=True)):
        assert devices.limits(fast_queue.device).ptx
        assert not devices.is_cpu(fast_queue.device)
    assert devices.limits(fast_queue.device) == limits


@pytest.fixture
def kept():
    record = np.load(frozen.FOLDER / "pocl.npz")
    return {k.split("/")[1]: record[k] for k in record.files if k.startswith("somas, epochs/")}


def test_a_voltage_before_the_first_spike_is_seen(kept):
    assert frozen.compared(kept, kept) == ("", 0.0, True)
    first, v = int(kept["step"][0]), kept["v"].copy()
    v[first - 1, 0] += 1e-10
    text, before, spikes = frozen.compared(kept, {**kept, "v": v})
    assert text.startswith("v 1e-10 mV before") and 0.9e-10 < before < 1.1e-10 and spikes
    v[first - 1, 0], v[first + 1, 0] = kept["v"][first - 1, 0], 0
    assert frozen.compared(kept, {**kept, "v": v})[1:] == (0.0, True)


def test_a_spike_of_another_step_or_cell_and_a_lost_one_are_seen(kept):
    for other in (
        {"step": kept["step"] + 1},
        {"source": kept["source"] + 1},
        {k: kept[k][1:] for k in ("step", "source", "time")},
        {"v": kept["v"][1:]},
    ):
        assert not frozen.compared(kept, {**kept, **other})[2]
