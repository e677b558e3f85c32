"""GLOBAL variables that instances set in turn: all cells read the last instance's value."""

import numpy as np
import pytest
from networks import turning_network

from clhines import InputError, Mechanism, Simulation
from clhines.simulator.cpu import blocks
from clhines.simulator.cpu.plan import blocks_of, work_of
from clhines.simulator.model import compile
from clhines.solver.device import devices

DT, STOP = 0.05, 15.0
EPS = 100 * (STOP / DT) * np.finfo(np.float64).eps  # some roundings per step
PRIVATE = """
NEURON { SUFFIX private NONSPECIFIC_CURRENT i RANGE g GLOBAL minf }
PARAMETER { g = 1e-5 (S/cm2) }
ASSIGNED { v (mV) i (mA/cm2) minf }
STATE { m }
INITIAL { minf = 1/(1 + exp(-(v + 40)/7)) m = minf }
BREAKPOINT { SOLVE states METHOD cnexp i = g*m*(v + 65) }
DERIVATIVE states { minf = 1/(1 + exp(-(v + 40)/7)) m' = (minf - m)/5 }
"""


def advanced(net, groups, pieces, **options):
    """Return the simulation, records of all pieces side by side, and spike times."""
    sim = Simulation(net, DT, **options)
    numbers = [sim.record("v", np.arange(net.forest.num_nodes))]
    numbers += [sim.record("m", group) for group in groups.values() if len(group)]
    results = [sim.run(STOP * piece) for piece in pieces]
    rows = [np.concatenate([r[k] for r in results]) for k in numbers]
    return sim, np.concatenate(rows, axis=1), np.concatenate([r.spike_time for r in results])


@pytest.fixture
def engine_of(fast_queue, needs, monkeypatch):
    """Return options of an engine; ``3 blocks`` means ``epochs-cpu`` with one block first."""

    def options(name):
        needs(fast_queue, "float64")
        if name in ("epochs-cpu", "3 blocks") and not devices.is_cpu(fast_queue.device):
            pytest.skip("an engine of CPUs")
        if name == "3 blocks":
            monkeypatch.setattr(
                blocks, "plan_blocks", lambda m, w, *_: blocks_of(m, w, work_of(m), 3, 1.0)
            )
        return {"queue": fast_queue, "engine": "epochs-cpu" if name == "3 blocks" else name}

    return options


@pytest.mark.parametrize("of_cells", [((0, 1, 2, 3, 4), ()), ((0, 1), (2, 3, 4))])
@pytest.mark.parametrize("engine", ["steps", "epochs-cpu", "3 blocks", "epochs-gpu"])
def test_all_cells_read_the_last_values(engine_of, tmp_path, engine, of_cells):
    options, (net, groups) = engine_of(engine), turning_network(of_cells)
    assert "last_instances" in compile(net, DT).needs
    _, expected, spikes = advanced(net, groups, [1], engine="reference")
    assert len(spikes) > 5
    for pieces in ([1], [0.1, 0.01, 0.89]):
        _, result, times = advanced(net, groups, pieces, **options)
        np.testing.assert_allclose(result, expected, 0, EPS * np.abs(expected).max())
        np.testing.assert_allclose(times, spikes, 0, 1e-9)
    sim, *_ = advanced(net, groups, [0.4], engine="reference")
    sim.save(tmp_path / "state.npz")
    sim = Simulation(net, DT, **options)
    sim.restore(tmp_path / "state.npz")
    number = sim.record("m", groups["nmlast"])
    rest = sim.run(0.6 * STOP)[number]
    n = net.forest.num_nodes
    values = expected[-len(rest) :, n : n + rest.shape[1]]
    np.testing.assert_allclose(rest, values, 0, EPS * np.abs(values).max())
    _, single, _ = advanced(net, groups, [0.2], **options, dtype="float32")
    np.testing.assert_allclose(single, expected[: len(single)], 0, 0.05)


@pytest.mark.parametrize("engine", ["epochs-cpu", "3 blocks", "epochs-gpu"])
def test_last_values_of_cells_that_read_each_others(engine_of, engine):
    """Both cells share the first block on CPUs; epochs on GPUs refuse the network."""
    options, (net, groups) = engine_of(engine), turning_network(((0, 1, 2), (1, 2, 3)))
    if engine == "epochs-gpu":
        with pytest.raises(InputError, match="nmother: minf, which is one for all, is set last in"):
            Simulation(net, DT, **options)
        return
    _, expected, _ = advanced(net, groups, [1], engine="reference")
    _, result, _ = advanced(net, groups, [1], **options)
    np.testing.assert_allclose(result, expected, 0, EPS * np.abs(expected).max())


def test_a_variable_that_is_set_before_it_is_read_is_private(engine_of):
    net, groups = turning_network(((), ()))
    groups = {"private": net.insert(Mechanism.from_nmodl(PRIVATE), np.arange(12))}
    assert "last_instances" not in compile(net, DT).needs
    _, expected, _ = advanced(net, groups, [1], engine="reference")
    for engine in ("steps", "epochs", "epochs-gpu"):
        _, result, _ = advanced(net, groups, [1], **engine_of(engine))
        np.testing.assert_allclose(result, expected, 0, EPS * np.abs(expected).max())
