"""States and currents that kernels of epochs record, against `reference`, in whole epochs."""

import functools

import numpy as np
import pytest
from networks import CABLES, DT, blocks, mixed_network, noisy_network

from clhines import Network, Simulation
from clhines.solver.device.devices import is_cpu, limits

STEPS = 32
STOP = STEPS * DT
LEAST = {"mixed": 1, "long": STEPS, "noisy": 2}  # steps per epoch


def long_network():
    """Return a network with long epochs: no connection, outside events, all kinds of mechanisms."""
    net = Network(CABLES, 7)
    net.insert("hh", "soma")
    net.insert("pas", "dendrites", g=1e-4, e=-65.0)
    syn = net.add("expsyn", at=np.repeat(net.soma, 2), tau=np.linspace(1, 2, 14), e=0.0)
    net.add_event(syn, np.arange(14), np.linspace(0.1, 0.7, 14), 0.002)
    net.add("inoise", at=net.soma[:3] + 1, mean=0.02, std=0.02)
    net.add("iclamp", at=net.soma, dur=5.0, amp=np.linspace(0.1, 0.8, 7))
    return net, syn


BUILDS = {"mixed": mixed_network, "long": long_network, "noisy": noisy_network}


def record_all(sim):
    """Record voltages, states, some twice, and currents, some reduced."""
    numbers = [sim.record("v", sim.network.soma)]
    for group in sim.network.groups:
        kind = sim.model.instances[group.number][0]
        some = np.arange(len(group))[::-2]
        if kind < 0:
            continue
        for state in group.mechanism.states:
            numbers.append(sim.record(state, group, np.append(some, some[:1])))
        numbers.append(sim.record("v", group, some))
        numbers.append(sim.record("i", group, some))
        numbers.append(sim.record("i", group, reduce="integral"))
    return numbers


def apart(queue):
    """Return the largest relative difference that additional records may cause in voltages.

    On CPUs the bits are equal. A compiler for GPUs may fuse another product with a sum if the
    kernel also stores a factor: one rounding of v in each step, and the errors may add up.
    """
    return 0 if is_cpu(queue.device) else STEPS * np.finfo(np.float64).eps


@functools.cache
def reference(name):
    net, _ = BUILDS[name]()
    sim = Simulation(net, DT, engine="reference", seed=7)
    numbers, result = record_all(sim), sim.run(STOP)
    return [result[k] for k in numbers]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mixed", None),
        ("long", None),
        ("long", {"by_node": False}),
        ("long", {"by_node": True}),
        ("noisy", {"by_node": False}),
    ],
)
def test_states_and_currents(double_queue, name, options):
    engine = "epochs" if options is None else blocks(limits(double_queue.device), **options)
    net, _ = BUILDS[name]()
    sims = [Simulation(net, DT, queue=double_queue, engine=engine, seed=7, chunk=20) for _ in "ab"]
    numbers, steps = record_all(sims[0]), []
    sims[1].record("v", net.soma)
    for sim in sims:
        executor = sim.runner
        advance, taken = executor.advance, []

        def counted(first, count, row, advance=advance, taken=taken):
            taken.append(count)
            advance(first, count, row)

        executor.advance = counted
        steps.append(taken)
    result, plain = (sim.run(STOP) for sim in sims)
    most = min(sims[0].runner.max_steps, max(20, sims[0].runner.decisions.epoch))
    assert steps[0] == steps[1] and max(steps[0]) == min(most, STEPS) >= LEAST[name]
    np.testing.assert_allclose(result[0], plain[0], 0, apart(double_queue) * np.abs(plain[0]).max())
    for k, expected in zip(numbers, reference(name), strict=True):
        # states follow voltages, which agree to 1e-7 mV; currents are up to 1 mA/cm2 or nA
        np.testing.assert_allclose(result[k], expected, rtol=1e-6, atol=1e-8)
        assert result[k].size and np.isfinite(result[k]).all()


def test_samples_are_dropped_again(double_queue):
    """A simulation without such records, after one with them, has the kernel without."""
    net, syn = mixed_network()
    sim = Simulation(net, DT, queue=double_queue, engine="epochs")
    number = sim.record("g", syn)
    first = sim.run(1.0)[number]
    sim.reset()
    again = sim.run(1.0)
    np.testing.assert_array_equal(again[number], first)
