"""Diverging voltages cause one warning per run, with cell and time."""

import warnings

import numpy as np
import pytest

from clhines import InputError, Network, Simulation, SimulationError
from clhines.solver.device import devices

DT = 0.025
ENGINES = ["reference", "steps", "epochs-cpu", "epochs-gpu"]


def passive(cells, nodes=3, exact=False, g=1e-4):
    """Return cells of 0.2 nF per node that leak; an ion makes their times exact."""
    bounds, n = nodes * np.arange(cells + 1), nodes * cells
    parent = np.arange(-1, n - 1)
    parent[bounds[:-1]] = -1
    net = Network.from_arrays(parent, bounds, [2e4] * n, [0.1] * n, [0.2] * n)
    net.insert("pas", g=g, e=-65.0)
    if exact:
        net.ion("ca")
    return net


def simulation(net, queue, needs, engine, dtype="float64", **options):
    if engine == "reference":
        if dtype == "float32":
            pytest.skip("float64 alone")
        return Simulation(net, DT, engine=engine, **options)
    needs(queue, dtype)
    if engine == "epochs-cpu" and not devices.is_cpu(queue.device):
        pytest.skip("for CPUs")
    return Simulation(net, DT, dtype, queue=queue, engine=engine, **options)


def crossing(v):
    """Return the cell and the time at the end of the first step with 1e6 mV."""
    step, cell = np.nonzero(np.abs(v) >= 1e6)
    return cell[0], step[0] * DT


def warned(run):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(w.message) for w in caught if "beyond 1e+06 mV" in str(w.message)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_current_of_a_wrong_unit_is_told(fast_queue, needs, engine, exact, dtype):
    """Warn of 1e6 mV even if v has decayed when the run ends."""
    net = passive(9, exact=exact)
    clamp = net.add("iclamp", at=net.soma[[4, 6]], delay=[1.0, 2.0], dur=1.0, amp=[-1e7, 1e7])
    sim = simulation(net, fast_queue, needs, engine, dtype)
    v = sim.record("v", net.soma)
    results = []
    said = warned(lambda: results.append(sim.run(60.0)))
    cell, t = crossing(results[0][v])
    assert cell == 4 and 1.0 < t < 1.1 and np.abs(results[0][v][-1]).max() < 1e6
    assert len(said) == 1
    assert said[0].startswith(f"the voltage of cell 4 is beyond 1e+06 mV at t = {t:g} ms")
    assert warned(lambda: sim.run(1.0)) == []
    sim.set(clamp, amp=0.0)
    sim.reset()
    assert warned(lambda: sim.run(5.0)) == []
    sim.set(clamp, amp=1e7)
    sim.reset()
    said = warned(lambda: sim.run(5.0))
    assert len(said) == 1 and f"cell 4 is beyond 1e+06 mV at t = {t:g} ms" in said[0]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_negative_conductance_is_told(fast_queue, needs, engine, exact, tmp_path):
    """Warn once per run of a diverging voltage; the state can be saved and run on."""
    net = passive(3, nodes=2, exact=exact, g=np.repeat([1e-4, -1e-4, 1e-4], 2))
    sim = simulation(net, fast_queue, needs, engine, chunk=40, v_init=-60.0)
    v = sim.record("v", net.soma)
    results = []
    said = warned(lambda: results.append(sim.run(150.0)))
    cell, t = crossing(results[0][v])
    assert cell == 1 and len(said) == 1 and f"cell 1 is beyond 1e+06 mV at t = {t:g} ms" in said[0]
    sim.save(tmp_path / "state.npz")
    other = simulation(net, fast_queue, needs, engine, chunk=40, v_init=-60.0)
    other.restore(tmp_path / "state.npz")
    said = warned(lambda: other.run(20.0))
    assert len(said) == 1 and "cell 1" in said[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_not_finite_is_an_error_still(fast_queue, needs, engine):
    net = passive(3)
    net.add("iclamp", at=net.soma[1], delay=1.0, dur=3.0, amp=1e308)
    sim = simulation(net, fast_queue, needs, engine)
    v = sim.record("v", net.soma)
    with pytest.raises(SimulationError, match="voltage of cell 1") as raised:
        sim.run(10.0)
    assert raised.value.time > 1.0 and np.isfinite(raised.value.result[v]).all()
    with pytest.raises(InputError, match="is not finite"):
        sim.run(1.0)
