"""Records with times of their own, as adapters read them."""

import importlib.util

import numpy as np
import pytest

import clhines
from clhines import InputError


def test_rows_of_every(simulated, tmp_path):
    """Tables and signals have the times of their record."""
    net = simulated[0]
    sim = clhines.Simulation(net, dt=0.025, engine="reference")
    v, some = sim.record("v", net.soma), sim.record("v", net.soma, every=0.5)
    gone = sim.record("v", net.soma, to=tmp_path / "rows.npz")
    result = sim.run(2.0)
    if importlib.util.find_spec("pandas") is not None:
        import clhines.simulator.analysis.pandas as tables

        table = tables.record(result, some)
        assert table.index.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
        np.testing.assert_array_equal(table.to_numpy(), result[v][::20])
        with pytest.raises(InputError, match="without reduce and to"):
            tables.record(result, gone)
    if importlib.util.find_spec("neo") is not None:
        import clhines.simulator.analysis.neo as signals

        made = signals.segment(result, net.num_cells, units={some: "mV"})
        (signal,) = made.analogsignals
        np.testing.assert_array_equal(signal.magnitude, result[v][::20])
        times = signal.times.rescale("ms").magnitude
        np.testing.assert_allclose(times, [0.0, 0.5, 1.0, 1.5, 2.0], rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("name", "package"), [("bluepyopt", "BluePyOpt"), ("sbi", "PyTorch"), ("sonata", "h5py")]
)
def test_a_package_that_is_missing_is_named_in_one_line(name, package, monkeypatch):
    import importlib
    import sys

    for module in ("bluepyopt", "torch", "h5py"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"clhines.simulator.analysis.{name}", raising=False)
    with pytest.raises(ImportError, match=rf"^clhines.analysis.{name} needs {package} ") as error:
        importlib.import_module(f"clhines.simulator.analysis.{name}")
    assert "\n" not in str(error.value) and "pip install" in str(error.value)
