"""Connections, and spikes delivered along them: every algorithm against NumPy, to the last bit."""

import numpy as np
import pyopencl.array as cla
import pytest
from mock_queue import MockQueue

from bench.made import random_connections
from clhines.core import errors
from clhines.core.errors import InputError, SpikeOverflowError
from clhines.simulator.events import grid as simulate_delivery
from clhines.simulator.events.grid import ALGORITHMS, Delivery
from clhines.simulator.model.connections import GridConnections
from clhines.solver.device.devices import has_atomics


class Lists:
    """A list of spikes on the device, the sums, and NumPy's expected sums."""

    def __init__(self, queue, capacity, slots, num_targets):
        self.queue, self.capacity = queue, capacity
        self.slots, self.num_targets = slots, num_targets
        self.source = cla.to_device(queue, np.full(capacity, -7, np.int32))
        self.step = cla.to_device(queue, np.full(capacity, -7, np.int32))
        self.count = cla.to_device(queue, np.zeros(1, np.int32))
        self.incoming = cla.to_device(queue, np.zeros(slots * num_targets, np.int64))
        self.expected = np.zeros((slots, num_targets), np.int64)

    @property
    def arrays(self):
        return (self.source, self.step, self.count), self.incoming

    def append(self, found, delivery):
        """Append (source, step) pairs as a kernel would, and add them up in NumPy."""
        held = int(self.count.get()[0])
        kept = [(s, t) for s, t in found][: self.capacity - held]
        for array, column in ((self.source, 0), (self.step, 1)):
            values = array.get()
            values[held : held + len(kept)] = [pair[column] for pair in kept]
            array.set(values)
        self.count.set(np.array([held + len(found)], np.int32))
        c, weight = delivery.connections, delivery.quantise(delivery.connections.weight)
        for source, step in kept:
            here = np.flatnonzero(c.source == source)
            slot = (step + 1 + c.delay[here]) % self.slots
            np.add.at(self.expected, (slot, c.target[here]), weight[here])

    def assert_delivered(self):
        assert np.array_equal(self.incoming.get().reshape(self.expected.shape), self.expected)


def random_spikes(rng, count, sources, first, steps):
    pick = rng.choice(sources * steps, count, replace=False)
    return list(zip((pick % sources).tolist(), (first + pick // sources).tolist()))


def test_scale_leaves_no_room_for_overflow():
    rng = np.random.default_rng(1)
    for size in (1e-12, 1.0, 3e5):
        c = GridConnections(np.arange(300), np.zeros(300, int), rng.normal(0, size, 300))
        scale = c.scale()
        assert np.log2(scale) == round(np.log2(scale))
        total = sum(abs(round(w / scale)) for w in c.weight.tolist())
        assert 2**61 < total < 2**63  # safe, and no finer unit is safe
        assert scale <= 2.0**-40 * np.abs(c.weight).max()


def test_a_single_event_comes_out_as_its_weight(fast_queue):
    rng = np.random.default_rng(2)
    c = GridConnections(np.arange(1000), np.zeros(1000, int), rng.uniform(0.5, 1, 1000))
    delivery = Delivery(
        fast_queue, c, 1, 2, 10, "vpo" if has_atomics(fast_queue.device) else "pull"
    )
    back = delivery.quantise(c.weight) * delivery.incoming_scale
    assert np.abs(back / c.weight - 1).max() < 1e-15
    assert delivery.quantise(0.0) == 0


def test_the_largest_sum_does_not_wrap():
    c = GridConnections(np.arange(4), np.zeros(4, int), 2.0**40)
    assert 4 * round(2.0**40 / c.scale()) < 2**63
    assert c.scale(external=2.0**50) > c.scale()
    assert c.scale(largest=np.full(4, 2.0**41)) == 2 * c.scale()


def test_too_many_connections_at_a_target():
    c = GridConnections([0, 1], [0, 0], [1.0, 1.0])
    with pytest.raises(InputError, match="target 0 sum up to 1e.10, above .* no room for 40 bits"):
        c.scale(external=1e10)


def cases():
    """Yield name, connections, slots, and lists of spikes with each one's first step and steps."""
    rng = np.random.default_rng(11)
    one = random_connections(20, 50, 0.2, 1, weight=(-1.0, 2.0))
    yield "one delay", one, 3, [(random_spikes(rng, 9, 20, s, 1), s, 1) for s in (0, 1, 2, 7)]
    several = random_connections(20, 50, 0.3, 2, weight=(-1.0, 2.0), delay=(1, 9))
    yield "delays up to the limit", several, 10, [(random_spikes(rng, 12, 20, 5, 1), 5, 1)]
    many = random_spikes(rng, 90, 20, 33, 6)
    yield "several steps, any order", several, 16, [(many, 33, 6), ([], 39, 1)]
    long = random_spikes(rng, 70, 20, 3, 40)
    yield "more steps than a word has bits", several, 50, [(long, 3, 40)]
    same = [(4, s) for s in range(8)]
    yield "many spikes of one source", several, 12, [(same, 0, 8)]
    yield "an empty list", several, 10, [([], 0, 1)]
    yield "nothing is connected", GridConnections([], [], [], [], 20), 2, [([(3, 0)], 0, 1)]
    double = GridConnections([1] * 70, [3] * 70, np.arange(70.0), 2, 20, 4)
    yield "many connections of one pair", double, 4, [([(1, 0), (0, 0)], 0, 1), ([(1, 1)], 1, 1)]


CASES = {name: rest for name, *rest in cases()}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_gives_the_bits_of_numpy(queue, algorithm):
    if algorithm != "pull" and not has_atomics(queue.device):
        pytest.skip("no 64-bit atomics")
    for name, (connections, slots, lists) in CASES.items():
        targets = max(1, connections.num_targets) + 3
        delivery = Delivery(queue, connections, targets, slots, 200, algorithm, work_group=8)
        held = Lists(queue, 200, slots, targets)
        for spikes, first, steps in lists:
            held.append(spikes, delivery)
            delivery.enqueue(*held.arrays, first, steps)
        held.assert_delivered()
        delivery.check()
        assert delivery.algorithm == algorithm, name


def test_spikes_are_delivered_once_and_after_a_reset(queue):
    """Each spike is delivered once; the list stays for the host until `reset`."""
    connections, slots, _ = CASES["one delay"]
    delivery = Delivery(queue, connections, 50, slots, 6)
    held = Lists(queue, 6, slots, 50)
    for step in range(3):
        held.append([(step, step), (step + 9, step)], delivery)
        delivery.enqueue(*held.arrays, step)
        delivery.enqueue(*held.arrays, step)  # nothing new
    held.assert_delivered()
    assert held.count.get()[0] == 6 and held.step.get().tolist() == [0, 0, 1, 1, 2, 2]
    delivery.reset(held.count)
    assert held.count.get()[0] == 0
    held.append([(2, 3)], delivery)
    delivery.enqueue(*held.arrays, 3)
    held.assert_delivered()
    delivery.check()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_overflow_names_the_step(fast_queue, algorithm):
    if algorithm != "pull" and not has_atomics(fast_queue.device):
        pytest.skip("no 64-bit atomics")
    connections, slots, _ = CASES["one delay"]
    delivery = Delivery(fast_queue, connections, 50, slots, 5, algorithm)
    held = Lists(fast_queue, 5, slots, 50)
    for step, count in ((40, 3), (41, 2)):  # just full
        held.append([(k, step) for k in range(count)], delivery)
        delivery.enqueue(*held.arrays, step)
    delivery.check()
    held.append([(7, 42)], delivery)
    delivery.enqueue(*held.arrays, 42)
    delivery.enqueue(*held.arrays, 43)
    with pytest.raises(SpikeOverflowError, match=r"by step 42 .* room for, 5;") as error:
        delivery.check()
    assert error.value.step == 42
    held.assert_delivered()  # the five stored spikes
    delivery.reset(held.count)
    delivery.check()


def test_devices_without_atomics_pull(fast_queue, monkeypatch):
    connections = CASES["one delay"][0]
    monkeypatch.setattr(simulate_delivery, "has_atomics", lambda device: False)
    assert Delivery(fast_queue, connections, 50, 3, 9).algorithm == "pull"
    with pytest.raises(errors.DeviceError, match="no 64-bit atomics, which 'vpo' needs"):
        Delivery(fast_queue, connections, 50, 3, 9, "vpo")


def test_too_large_deliveries_are_refused():
    with pytest.raises(InputError, match="slots of 50 targets"):
        Delivery(MockQueue(), CASES["an empty list"][0], 50, 2**30, 5, "pull")


def test_unknown_algorithms_are_refused(fast_queue):
    words = "algorithm='csr'; expected auto, vpo, pull"
    with pytest.raises(InputError, match=words):
        Delivery(fast_queue, CASES["an empty list"][0], 50, 10, 5, "csr")


def test_more_steps_than_slots_are_refused(fast_queue):
    delivery = Delivery(fast_queue, CASES["one delay"][0], 50, 3, 9, "pull")
    held = Lists(fast_queue, 9, 3, 50)
    with pytest.raises(InputError, match="got 4 steps at once; expected 1 to 3"):
        delivery.enqueue(*held.arrays, 0, 4)
