"""Recorded values against NumPy on all rows; i_membrane against NEURON."""

import logging

import networks
import numpy as np
import pytest

from clhines import InputError, Network, Simulation

DT, ENGINES = 0.025, ("reference", "steps", "epochs")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_of_no_steps(double_queue, engine):
    net, _ = networks.simple_network()
    sim = Simulation(net, DT, queue=double_queue, engine=engine)
    numbers = {name: sim.record("v", [0], reduce=name) for name in ("max", "mean", "integral")}
    count = sim.record("v", [0], reduce="count", threshold=0.0)
    result = sim.run(0.0)
    assert np.isnan(result[numbers["max"]]).all() and np.isnan(result[numbers["mean"]]).all()
    assert result[numbers["integral"]].tolist() == [0.0] and result[count].tolist() == [0]
    assert np.isfinite(sim.run(DT)[numbers["mean"]]).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_computed_records_follow_set(double_queue, engine, caplog):
    """After `set`, currents of electrodes and mechanisms follow the new values without planning."""
    caplog.set_level(logging.INFO, "clhines")
    results = []
    for amps in ([0.3], [0.1, 0.3]):
        net, syn = networks.simple_network()
        clamp = net.add("iclamp", at=net.soma[:1], delay=0.2, dur=5.0, amp=[amps[0]])
        sim = Simulation(net, DT, queue=double_queue, engine=engine)
        numbers = [sim.record("i_membrane", net.soma), sim.record("i", clamp), sim.record("i", syn)]
        for amp in amps[1:]:
            sim.run(1.0)
            sim.set(clamp, amp=amp)
            sim.reset()
        result = sim.run(1.0)
        results.append([result[k] for k in numbers])
    assert engine == "reference" or not [m for m in caplog.messages if "planned again" in m]
    assert (results[0][1][20:] == -0.3).all()
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, 0, 1e-11)


def test_expressions_and_constant_parameters_are_rejected():
    net = Network(networks.CABLES[0], 3)
    hh, leak = net.insert("hh", net.soma), net.insert("pas", g=1e-4)
    sim = Simulation(net, DT, engine="reference")
    for what, where in (("ina = gnabar*m^3*h*(v - 50)", hh), ("x = v", net.soma), ("=", leak)):
        with pytest.raises(InputError, match="is an expression; expected a name: record its var"):
            sim.record(what, where)
    said = "'gnabar' of hh is constant during a run; expected v, i, m, h, n"
    with pytest.raises(InputError, match=said):
        sim.record("gnabar", hh)
    with pytest.raises(InputError, match="'g' of pas is constant during a run; expected v$"):
        sim.record("g", leak)


def test_an_index_without_a_group_is_refused(fast_queue):
    net = Network.from_arrays([-1, 0, 1], [0, 3], [10.0] * 3, [0.01] * 3, [1e-4] * 3)
    net.add("iclamp", at=net.soma, amp=0.1)
    sim = Simulation(net, queue=fast_queue)
    for what in ("v", "i_membrane"):
        with pytest.raises(InputError, match=r"index is \[0\] for nodes; expected None"):
            sim.record(what, net.soma, index=[0])


def test_a_result_has_the_records_made_before_its_run(fast_queue):
    net = Network.from_arrays([-1, 0, 1], [0, 3], [10.0] * 3, [0.01] * 3, [1e-4] * 3)
    net.add("iclamp", at=net.soma, amp=0.1)
    sim = Simulation(net, queue=fast_queue)
    none = sim.run(0.1)
    with pytest.raises(InputError, match=r"result\[0\]: the run has 0 records; expected a call of"):
        none[0]
    first = sim.record("v", net.soma)
    one = sim.run(0.1)
    later = sim.record("v", [1, 2])
    with pytest.raises(InputError, match=r"result\[1\]: the run has 1 record; expected 0 to 0: re"):
        one[later]
    with pytest.raises(InputError, match=r"result\[-2\]: the run has 1 record"):
        one[-2]
    assert one[-1] is one[first]
    assert [a.shape for a in one] == [(4, 1)]
    assert [a.shape for a in none] == []


@pytest.mark.parametrize("engine", ["steps", "epochs-cpu", "epochs-gpu"])
def test_currents_of_texts_where_events_act_at_exact_times(double_queue, engine):
    """Compare currents of instances in shared and in separate vectors with `reference`."""
    results = []
    for name in ("reference", engine):
        net = Network.from_arrays([-1] * 9, range(10), [1e3] * 9, [0.0] * 9, [0.01] * 9)
        net.insert("hh")
        net.ion("ca")
        slow = net.insert("km_yamada", gbar=np.linspace(1e-4, 9e-4, 9))
        synapse = net.add("expsyn", net.soma[::2], tau=2.0)
        net.add_event(synapse, np.arange(5), time=np.arange(5) * 0.1, weight=0.01)
        sim = Simulation(net, DT, queue=double_queue, engine=name)
        numbers = [sim.record("i", group) for group in (net.groups[0], slow, synapse)]
        result = sim.run(1.0)
        results.append([result[k] for k in numbers])
    for expected, rows in zip(*results, strict=True):
        assert (np.ptp(expected[:, 0]) > 0) and np.isfinite(expected).all()
        np.testing.assert_allclose(rows, expected, 0, 1e-11 * np.abs(expected).max())


def test_masks_say_where_is_recorded():
    net = Network.from_arrays([-1, 0, 1], [0, 3], [10.0] * 3, [0.01] * 3, [1e-4] * 3)
    group = net.insert("hh", [2, 0])
    sim = Simulation(net, engine="reference")
    pairs = [
        (sim.record("v", [False, True, True]), sim.record("v", [1, 2], name="nodes")),
        (sim.record("hh.m", np.arange(3) == 2, name="m"), sim.record("hh.m", [2], name="m2")),
        (sim.record("m", group, [False, True], name="1"), sim.record("m", group, 1, name="is 1")),
    ]
    result = sim.run(1.0)
    for masked, by_number in pairs:
        np.testing.assert_array_equal(result[masked], result[by_number])
        assert result[masked].std() > 0
    with pytest.raises(InputError, match=r"at is a mask of shape \(2,\); expected \(3,\)"):
        sim.record("v", [True, False])
    with pytest.raises(InputError, match=r"index is a mask of shape \(3,\); expected \(2,\)"):
        sim.record("m", group, [True, False, True])


def test_what_to_record_instead_is_told():
    net = Network.from_arrays([-1], [0, 1], [10.0], [0.0], [1e-4])
    clamp = net.add("iclamp", at=0)
    net.insert("pas")
    with pytest.raises(InputError, match="t of amp is empty; expected one time or more"):
        net.play(clamp, 0, "amp", [], [])
    sim = Simulation(net, engine="reference")
    with pytest.raises(
        InputError, match="the current of pas is not recorded, because it depends on v"
    ):
        sim.record("pas.i", 0)
    with pytest.raises(
        InputError, match="'i' of nodes; expected 'v', 'i_membrane', a name such as 'hh"
    ):
        sim.record("i", 0)


def test_short_runs_after_a_long_one(double_queue):
    """Many shorter runs in a row get memory for fewer rows; values stay right."""
    net, _ = networks.simple_network()
    sims = [Simulation(net, DT, queue=double_queue, engine=e) for e in ("epochs", "reference")]
    numbers = [sim.record("v", net.soma) for sim in sims]
    rooms = []
    for steps in (40, *[1] * 16, 2, 1):
        rows, expected = (sim.run(steps * DT)[k] for sim, k in zip(sims, numbers, strict=True))
        np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-9)
        rooms.append(len(sims[0].runner.rows.arguments["v_rows"]))
    assert rooms == [40] * 16 + [1, 2, 2]


@pytest.mark.parametrize("what", ["cai", "ica"])
def test_variables_of_ions_are_recorded_at_nodes(what):
    net = networks.simple_network()[0]
    pool = net.insert(
        "density pool\nion ca\nstate cai = 1e-4 [mM]\ndcai/dt = -1e-3*ica - (cai - 1e-4)/80"
    )
    sim = Simulation(net, DT, engine="reference")
    words = f"{what} belongs to an ion, not to pool; expected nodes in place of the group"
    with pytest.raises(InputError, match=words):
        sim.record(what, pool)
    with pytest.raises(InputError, match=words):
        sim.record(f"pool.{what}", net.soma)
    assert sim.record(what, net.soma).unit == {"cai": "mM", "ica": "mA/cm2"}[what]
