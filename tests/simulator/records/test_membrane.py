"""Rows of i_membrane, and currents that cannot be recorded; `test_exact` compares with NEURON."""

import networks
import numpy as np
import pytest

from clhines import InputError, Simulation
from clhines.simulator.model.compiling import compile
from clhines.simulator.records import reduced
from clhines.simulator.records.membrane import Membrane

DT, ENGINES, EVERY = 0.025, ("reference", "steps", "epochs"), 4  # steps


@pytest.mark.parametrize("voltages", [False, True])
def test_epochs_write_only_rows_that_are_kept(fast_queue, needs, voltages):
    """Rows hold all voltages unless some are recorded as well; runs end between two rows."""
    needs(fast_queue, "float64")
    net, _ = networks.simple_network()
    net.insert("hh", np.setdiff1d(net.nodes(), net.soma))
    net.add("iclamp", at=net.soma, delay=0.2, dur=2.0, amp=np.linspace(0.1, 0.2, len(net.soma)))
    matrix = np.random.default_rng(4).normal(size=(3, len(net.nodes())))
    results = []
    for engine, chunk in (("reference", 1024), ("epochs-gpu", 1024), ("epochs-gpu", 7)):
        sim = Simulation(net, DT, queue=fast_queue, engine=engine, chunk=chunk)
        seen = sim.record("i_membrane", "all", every=EVERY * DT, matrix=matrix)
        v = sim.record("v", [0], every=2 * EVERY * DT) if voltages else seen
        runs = [sim.run(duration) for duration in (11 * DT, 30 * DT, DT, 40 * DT)]
        if engine == "epochs-gpu":
            kernels = sim.runner.kernels
            assert int(sim.runner.rows.arguments["whole"]) == (not voltages) and kernels.whole_rows
        results.append([np.concatenate([run[k] for run in runs]) for k in (seen, v)])
    for expected, ours, in_chunks in zip(*results, strict=True):
        np.testing.assert_array_equal(in_chunks, ours)
        assert np.abs(expected).max() > 0
        np.testing.assert_allclose(ours, expected, atol=1e-9 * np.abs(expected).max())


def test_nodes_that_are_recorded_often_are_counted_once(fast_queue, needs):
    """Rows with few of all voltages have a row for each step, however often a node is recorded."""
    needs(fast_queue, "float64")
    net, _ = networks.simple_network()
    net.insert("hh", np.setdiff1d(net.nodes(), net.soma))
    results = []
    for engine in ("reference", "epochs-gpu"):
        sim = Simulation(net, DT, queue=fast_queue, engine=engine)
        seen = sim.record("i_membrane", np.repeat(net.soma[:1], 1000), every=EVERY * DT)
        results.append(sim.run(40 * DT)[seen])
    assert sim.runner.rows.arguments["v_rows"].shape[0] == 40
    np.testing.assert_allclose(*results, atol=1e-9 * np.abs(results[0]).max())


@pytest.mark.parametrize("electrodes", [False, True])
def test_a_reset_copies_no_tables_again(fast_queue, needs, monkeypatch, electrodes):
    """A reset copies no tables, neither for the initial value nor for later rows."""
    needs(fast_queue, "float64")
    net, _ = networks.simple_network()
    net.insert("hh", np.setdiff1d(net.nodes(), net.soma))
    matrix = np.random.default_rng(4).normal(size=(3, len(net.nodes()))) if electrodes else None
    copied, to_device = [], reduced.to_device
    monkeypatch.setattr(
        reduced, "to_device", lambda q, a, *of: copied.append(np.size(a)) or to_device(q, a, *of)
    )
    sim = Simulation(net, DT, queue=fast_queue, engine="epochs-gpu")
    seen = sim.record("i_membrane", "all", matrix=matrix)
    first, count = sim.run(4 * DT)[seen], len(copied)
    assert count > 0
    for _ in range(2):
        sim.reset()
        np.testing.assert_array_equal(sim.run(4 * DT)[seen], first)
    assert not any(copied[count:])  # rows without current electrodes


def test_a_matrix_for_voltages_and_electrodes():
    """Compare with sums of long doubles, within a bound by the sums of absolute values."""
    net, _ = networks.simple_network()
    net.add("iclamp", at=net.soma, dur=2.0, amp=np.linspace(0.1, 0.2, len(net.soma)))
    model = compile(net, DT)
    nodes = np.append(np.arange(1, net.forest.num_nodes, 2), net.soma)  # some, and some twice
    membrane, rng = Membrane(model, nodes), np.random.default_rng(4)
    matrix = rng.normal(size=(3, len(nodes)))
    v, clamps = (rng.normal(-65, 5, n) for n in (len(membrane.sampled), len(net.soma)))
    of_node = [
        np.repeat(np.arange(len(nodes)), np.diff(b)) for b in (membrane.begin, membrane.clamp_begin)
    ]
    exact = np.zeros((3, 1), np.longdouble)
    flow = np.longdouble(v)[membrane.neighbour_column] - v[membrane.node_column]
    exact += (matrix[:, of_node[0]] * (membrane.g * flow)).sum(axis=1, keepdims=True)
    exact += (matrix[:, of_node[1]] * np.longdouble(clamps)[membrane.clamp]).sum(
        axis=1, keepdims=True
    )
    folded = membrane.folded(matrix)
    ours = folded[0] @ v + folded[1] @ clamps
    largest = np.abs(folded[0]) @ np.abs(v) + np.abs(folded[1]) @ np.abs(clamps)
    bound = (len(v) + len(clamps) + 8) * np.finfo(float).eps * largest
    assert (np.abs(ours - exact[:, 0]) <= bound).all() and np.abs(exact).min() > 1e3 * bound.max()
    assert np.abs(folded[0].sum(axis=1)).max() < bound.max()  # equal voltages drive no current


def test_i_membrane_of_second_order_is_rejected():
    """With secondorder, the currents in a step differ from the recorded ones."""
    net, _ = networks.simple_network()
    sim = Simulation(net, DT, engine="reference", secondorder=True)
    with pytest.raises(InputError, match="expected secondorder=False"):
        sim.record("i_membrane", [0])


def test_i_membrane_at_an_electrode_that_is_played_is_rejected():
    """No kernel computes the played electrode's current of each step."""
    net, _ = networks.simple_network()
    clamp = net.add("iclamp", at=net.soma, delay=1.0, dur=2.0)
    net.play(clamp, 0, "amp", [0.0, 3.0], [0.1, 0.6])
    sim = Simulation(net, DT, engine="reference")
    with pytest.raises(InputError, match="where iclamp is, an electrode with a parameter that is"):
        sim.record("i_membrane", net.soma)


def test_currents_that_cannot_be_recorded_are_rejected():
    """Refuse currents of constant conductances, an instance twice, and crossings of currents."""
    net, syn = networks.simple_network()
    passive = net.insert("pas", "soma", g=1e-4, e=-65.0)
    sim = Simulation(net, DT, engine="reference")
    with pytest.raises(InputError, match="current of pas is not recorded"):
        sim.record("i", passive)
    with pytest.raises(InputError, match="an instance of expsyn twice"):
        sim.record("i", syn, [0, 0])
    with pytest.raises(InputError, match="of a current; expected a voltage or a state"):
        sim.record("i", syn, reduce="count", threshold=0.0)


def test_i_membrane_at_a_voltage_clamp_is_rejected():
    """`vclamp` is an electrode, as NEURON's SEClamp."""
    net, _ = networks.simple_network()
    net.add("vclamp", net.soma, rs=5.0, dur1=9.0, amp1=-40.0)
    sim = Simulation(net, DT, engine="reference")
    with pytest.raises(InputError, match="where vclamp is, an electrode whose current depends on"):
        sim.record("i_membrane", net.soma)
