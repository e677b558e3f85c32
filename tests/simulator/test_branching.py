"""Copies of networks with .mod files, against the simulation of one."""

import mod_files
import numpy as np
import pytest

from clhines import InputError, Mechanism, Network, Simulation
from clhines.simulator.network.groups import inside

CELLS, NODES, DT, COPIES = 2, 6, 0.1, 3
IONS = ("cai", "ica", "eca")
NOISY = """
NEURON { POINT_PROCESS noisy RANDOM r RANGE i, amp NONSPECIFIC_CURRENT i }
PARAMETER { amp = 0.05 }
ASSIGNED { i x }
INITIAL { x = 0 }
BREAKPOINT { i = -amp*x }
AFTER SOLVE { x = random_uniform(r) }
"""


def network(hh=None, fire=None):
    """Cells with ions, tables, pointers, self events, WATCH, random numbers and artificial cells.

    Two groups of one mechanism of artificial cells, so that instances are not copy after copy.
    """
    n, ours = CELLS * NODES, mod_files.ours
    parent = np.tile([-1, 0, 1, 1, 3, 4], CELLS) + NODES * np.repeat(np.arange(CELLS), NODES)
    parent[::NODES] = -1
    area = 200.0 + 150.0 * (np.arange(n) % 5)
    net = Network.from_arrays(parent, [0, 6, 12], area, 0.1 + np.zeros(n), 1e-5 * area)
    net.threshold = -20.0
    net.celsius, nodes = 17.0, np.arange(n)
    groups = {"hh": net.insert("hh", nodes, celsius=17.0, **(hh or {}))}
    for name in ("ext_cad", "ext_ca", "ext_kca", "ext_table"):
        parameters = {"gbar": np.repeat([3e-4, 6e-4], 6)} if name == "ext_ca" else {}
        groups[name] = net.insert(ours(name), nodes, **parameters)
    at = {"ext_nmda": 9, "ext_watch": 6, "ext_sum": [2, 2], "ext_gap": [5, 11], "ext_clamp": 6}
    groups |= {name: net.add(ours(name), at=where) for name, where in at.items()}
    groups["noisy"] = net.add(Mechanism.from_nmodl(NOISY), at=[3, 8])
    fire = net.add_artificial(ours("ext_fire"), 2, **(fire or {}))
    more = net.add_artificial(ours("ext_fire"), 1)
    groups |= {"ext_fire": fire, "more": more}
    net.set_pointer(groups["ext_gap"], "vgap", to=[11, 5])
    groups["clamp"] = net.add("iclamp", at=[0, 6], delay=2.0, dur=40.0, amp=[0.9, 0.6])
    net.play(groups["ext_clamp"], 0, "amp", [0, 5, 12.0, 30], [0, 0.0, 0.05, 0.02])
    cell, tip = net.add_detector(0, -10.0), net.add_detector([5, 11], -20.0, [0.0, 4.0])
    nmda, watch, added = groups["ext_nmda"], groups["ext_watch"], groups["ext_sum"]
    train = net.spike_source([[1.0, 9.99, 10.02, 17.0], [12.0]])
    for source, which, target, index, delay, *weights in (
        (cell, 0, nmda, 0, 1.0, 0.004, 1.5),
        (tip, 1, nmda, 0, 0.3, 0.002, 0.7),
        (fire, 0, nmda, 0, 0.0, 0.003, 1.0),
        (fire, 0, fire, 1, 0.001, 0.6),
        (fire, 1, fire, 0, 2.0, 0.55),
        (watch, 0, more, 0, 0.1, 1.2),
        (more, 0, fire, 1, 3.0, 0.8),
        (cell, 0, fire, 0, 6.7, 0.4),
        (cell, 0, added, 0, 5.0125, 0.002),
        (fire, 1, added, 1, 0.0125, 0.001),
        (train, 1, added, 1, 0.5, 0.0005),
        (train, 0, more, 0, 0.5, 0.9),
    ):
        net.connect(source, target, [index], [weights], delay, source_index=[which])
    net.add_event(groups["ext_sum"], [0, 1, 0], [3.0, 10.3, 14.0], 0.001)
    return net, groups


def records(sim, groups, copies=1):
    """Record variables of all kinds; return the records' numbers by name or group."""
    net, n = sim.network, CELLS * NODES
    numbers = {name: sim.record(name, np.arange(n * copies)) for name in ("v", *IONS)}
    kept = {"ext_nmda": "g", "ext_watch": "on", "ext_sum": "sum", "ext_fire": "m", "noisy": "i"}
    for group, name in kept.items():
        numbers[group] = sim.record(name, net.groups[groups[group].number])
    return numbers


def values(result, numbers, copies):
    return {k: result[n].reshape(len(result.t), copies, -1) for k, n in numbers.items()}


def events(result, sim, groups, copies, of):
    """Return the sorted event times per source in copy `of`."""
    net, times = sim.network, []
    for name in ("ext_fire", "more", "ext_watch"):
        group = net.groups[groups[name].number]
        numbers = net.source_numbers(group).reshape(copies, -1)[of]
        times += [np.sort(result.spike_time[result.spike_cell == k]) for k in numbers]
    for cell in range(CELLS):
        times.append(np.sort(result.spike_time[result.spike_cell == of * CELLS + cell]))
    return times


@pytest.mark.optimised
@pytest.mark.parametrize("engine", ["reference", "steps"])
def test_copies_run_as_the_simulation(engine, double_queue):
    net, groups = network()
    sim = Simulation(net, DT, queue=double_queue, engine=engine)
    sim.set(groups["ext_ca"], gbar=np.repeat([4e-4, 6e-4], 6))
    several = sim.replicate(COPIES)
    single, each = records(sim, groups), records(several, groups, COPIES)
    alone, copied = sim.run(20.0), several.run(20.0)
    one, all_of_them = values(alone, single, 1), values(copied, each, COPIES)
    for name, expected in one.items():
        np.testing.assert_array_equal(all_of_them[name], np.repeat(expected, COPIES, 1), name)
    assert one["v"].max() > -20 and one["ext_nmda"].max() > 0 and np.ptp(one["noisy"]) > 0.02
    count = 0
    for copy in range(COPIES):
        pairs = zip(events(alone, sim, groups, 1, 0),
                    events(copied, several, groups, COPIES, copy), strict=True)  # fmt: skip
        for a, b in pairs:
            np.testing.assert_array_equal(a, b)
            count += len(a)
    assert count > 4 * COPIES
    weights = sim.weights()
    np.testing.assert_array_equal(several.weights(), np.tile(weights, COPIES))
    sim.set(weight=weights)  # events from outside have other weights
    np.testing.assert_array_equal(sim.weights(), weights)


@pytest.mark.parametrize("engine", ["reference", "steps"])
def test_copies_with_values_of_their_own(engine, double_queue):
    """Compare with a network built with each value."""
    net, groups = network()
    several = Simulation(net, DT, queue=double_queue, engine=engine).replicate(COPIES)
    gkbar, taus = np.array([0.02, 0.036, 0.06]), np.array([3.0, 5.0, 8.0])
    several.set(groups["hh"], gkbar=np.repeat(gkbar, CELLS * NODES))
    several.set(groups["ext_fire"], tau=np.repeat(taus, 2))
    numbers = records(several, groups, COPIES)
    result = values(several.run(20.0), numbers, COPIES)
    for copy in range(COPIES):
        built, own = network(hh={"gkbar": gkbar[copy]}, fire={"tau": taus[copy]})
        other = Simulation(built, DT, queue=double_queue, engine=engine)
        single = records(other, own)
        for name, expected in values(other.run(20.0), single, 1).items():
            bound = 1e-12 * max(np.abs(expected).max(), 1e-300)
            np.testing.assert_allclose(result[name][:, [copy]], expected, 0, bound, err_msg=name)
    assert (np.ptp(result["v"], axis=1)[-1] > 0.1).any()
    assert np.ptp(result["ext_fire"], axis=1).max() > 0.01


def test_parameters_that_blocks_set(double_queue):
    """A user's value precedes INITIAL, changes like a state later, and holds for all copies.

    The oracle is the same text with the value as its default.
    """
    text = """
        NEURON { POINT_PROCESS leaky RANGE tau, i, amp NONSPECIFIC_CURRENT i }
        PARAMETER { tau = TAU amp = 0.3 }
        ASSIGNED { i }
        STATE { x }
        INITIAL { x = 1 if (tau < 1) { tau = 1 } }
        BREAKPOINT { SOLVE go METHOD cnexp i = -amp*x }
        DERIVATIVE go { x' = -x/tau }
    """

    def simulation(engine, default, **options):
        area = np.full(2, 500.0)
        net = Network.from_arrays([-1, -1], [0, 1, 2], area, np.zeros(2), 1e-5 * area)
        net.insert("pas", [0, 1], g=1e-4)
        text_of = text.replace("TAU", str(default))
        group = net.add(Mechanism.from_nmodl(text_of), at=[0, 1], **options)
        inside(net).added.exact = True
        return Simulation(net, DT, queue=double_queue, engine=engine), group

    for engine in ("reference", "steps"):
        truth = {}
        for tau in (0.5, 2.0, 7.0):
            other = simulation(engine, tau)[0]
            other.record("v", [0, 1])
            truth[tau] = other.run(3.0)[0][:, 0]
        assert np.abs(truth[2.0] - truth[7.0]).max() > 0.1
        sim, group = simulation(engine, 4.0, tau=[2.0, 0.5])
        sim.record("v", [0, 1])
        expected = np.stack([truth[2.0], truth[0.5]], axis=1)
        np.testing.assert_allclose(sim.run(3.0)[0], expected, 0, 1e-12 * 65)
        sim.reset()
        np.testing.assert_allclose(sim.run(3.0)[0], expected, 0, 1e-12 * 65)
        sim.set(group, tau=[7.0, 2.0])
        with pytest.raises(InputError, match=r"of a state at t = 3 ms; expected it before"):
            sim.replicate(2)
        sim.reset()
        several = sim.replicate(2)
        several.record("tau", several.network.groups[group.number])
        assert several.run(DT)[0][-1].tolist() == [7.0, 2.0, 7.0, 2.0]
        expected = np.stack([truth[7.0], truth[2.0]], axis=1)
        np.testing.assert_allclose(sim.run(3.0)[0], expected, 0, 1e-12 * 65)
