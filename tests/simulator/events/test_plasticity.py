"""Weights that change with spikes: the device against pair sums and traces in NumPy."""

import numpy as np
import pyopencl.array as cla
import pytest
from deliveries import DT, PlasticDevice

from bench.made import random_connections
from clhines.core.errors import InputError
from clhines.simulator.events.grid import ALGORITHMS, Delivery
from clhines.simulator.events.plasticity import Plasticity
from clhines.simulator.model.connections import GridConnections
from clhines.simulator.network.plasticity import STDP
from clhines.solver.device.devices import has_atomics

pytestmark = pytest.mark.optimised
RULE = STDP(0.03, 0.035, tau_plus=4.0, tau_minus=7.0, w_min=0.0, w_max=1.0)
CELLS, TARGETS, STEPS = 12, 30, 40


class Reference:
    """Advance one step and one connection after the other, in plain Python."""

    def __init__(self, connections, rule, dt, cell_of_target, plastic, slots, scale):
        self.c, self.rule, self.dt, self.slots, self.scale = connections, rule, dt, slots, scale
        self.cell = np.asarray(cell_of_target)[connections.target]
        self.plastic = np.broadcast_to(plastic, connections.count) & (self.cell >= 0)
        self.weight = connections.weight.copy()
        self.trace = {k: np.zeros(connections.num_sources) for k in ("x", "y")}
        self.last = {k: np.zeros(connections.num_sources, int) for k in ("x", "y")}
        taus = {"x": rule.tau_plus, "y": rule.tau_minus}
        self.decay = {k: STDP.decay(tau, dt) for k, tau in taus.items()}
        self.incoming = np.zeros((slots, len(cell_of_target)), np.int64)

    def value(self, which, cell, step):
        gone = step - self.last[which][cell]
        decay = self.decay[which]
        return self.trace[which][cell] * decay[gone] if gone < len(decay) else 0.0

    def bump(self, which, cell, step):
        self.trace[which][cell] = self.value(which, cell, step) + 1.0
        self.last[which][cell] = step

    def change(self, k, amount):
        if self.plastic[k]:
            w = self.weight[k] + amount
            self.weight[k] = min(max(w, self.rule.w_min), self.rule.w_max)

    def step(self, fired, step):
        c = self.c
        for s in fired:
            for k in np.flatnonzero(c.source == s):
                self.change(k, -self.rule.a_minus * self.value("y", self.cell[k], step))
                slot = (step + 1 + c.delay[k]) % self.slots
                self.incoming[slot, c.target[k]] += round(self.weight[k] / self.scale)
            self.bump("x", s, step)
        for s in fired:
            for k in np.flatnonzero(self.cell == s):
                self.change(k, self.rule.a_plus * self.value("x", c.source[k], step))
            self.bump("y", s, step)


def network(seed=3, **more):
    rng = np.random.default_rng(seed)
    connections = random_connections(CELLS, TARGETS, 0.4, seed, (0.2, 0.8), (1, 6), **more)
    trains = rng.random((STEPS, CELLS)) < 0.3
    return connections, np.arange(TARGETS) % (CELLS + 1) - 1, trains


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_bits_of_numpy(queue, needs, algorithm):
    needs(queue, np.float64)
    if algorithm != "pull" and not has_atomics(queue.device):
        pytest.skip("no 64-bit atomics")
    connections, cells, trains = network()
    plastic = np.arange(connections.count) % 5 != 0
    ran = PlasticDevice(queue, connections, RULE, cells, plastic, algorithm, 64)
    scale = ran.delivery.incoming_scale
    expected = Reference(connections, RULE, DT, cells, plastic, 64, scale)
    rng = np.random.default_rng(1)
    for first, steps in ((0, 1), (1, 1), (2, 6), (8, 10)):
        ran.epoch(trains, first, steps, rng)
        for step in range(first, first + steps):
            expected.step(np.flatnonzero(trains[step]), step)
    assert np.array_equal(ran.plasticity.weight, expected.weight)
    assert np.array_equal(ran.incoming.get().reshape(64, TARGETS), expected.incoming)
    changed = expected.weight != connections.weight
    assert changed[plastic].mean() > 0.5 and not changed[~plastic].any()
    assert (expected.weight == 0).any() or (expected.weight == 1).any()  # a weight reached a bound
    ran.delivery.check()


@pytest.mark.core
def test_sums_over_pairs(double_queue):
    """Far from the bounds, traces equal the sum over all pairs of spikes."""
    rule = STDP(1e-3, 2e-3, 4.0, 7.0, -10.0, 10.0)
    connections, cells, trains = network()
    ran = PlasticDevice(double_queue, connections, rule, cells, True, "pull", 64)
    ran.epoch(trains, 0, STEPS, np.random.default_rng(2))
    times = [np.flatnonzero(trains[:, c]) * DT for c in range(CELLS)]
    expected = connections.weight.copy()
    for k in range(connections.count):
        cell = cells[connections.target[k]]
        if cell >= 0:
            lag = times[cell][:, None] - times[connections.source[k]]
            expected[k] += 1e-3 * np.exp(-lag[lag >= 0] / 4.0).sum()
            expected[k] -= 2e-3 * np.exp(lag[lag < 0] / 7.0).sum()
    assert np.abs(ran.plasticity.weight - expected).max() < 1e-13


def test_one_pair_by_hand(double_queue):
    for before, after, expected in (
        (2, 5, 0.5 + 0.03 * np.exp(-3 * DT / 4.0)),
        (5, 2, 0.5 - 0.035 * np.exp(-3 * DT / 7.0)),
        (4, 4, 0.5 + 0.03),
    ):
        trains = np.zeros((8, 2), bool)
        trains[before, 0] = trains[after, 1] = True
        ran = PlasticDevice(
            double_queue, GridConnections([0], [0], 0.5, 1, 2), RULE, [1], True, "pull", 16
        )
        ran.epoch(trains, 0, 8, np.random.default_rng(0))
        assert ran.plasticity.weight == pytest.approx([expected], abs=1e-15)


def test_traces_that_are_long_gone(double_queue):
    """Beyond the end of the decay table a trace is 0."""
    ran = PlasticDevice(
        double_queue, GridConnections([0], [0], 0.5, 1, 2), RULE, [1], True, "pull", 16
    )
    far = len(STDP.decay(4.0, DT)) + 10
    trains = np.zeros((far + 1, 2), bool)
    trains[0, 0] = trains[far, 1] = True
    for first in range(0, far + 1, 16):
        steps = min(16, far + 1 - first)
        ran.epoch(trains, first, steps, np.random.default_rng(0))
    assert ran.plasticity.weight.tolist() == [0.5]


def test_going_on_from_a_saved_state(double_queue, monkeypatch):
    """Continue a restored state bit by bit, without PyOpenCL's fill (Intel's compiler warns)."""
    monkeypatch.delattr(cla.Array, "fill")
    connections, cells, trains = network(5)
    rng = np.random.default_rng(1)
    whole, first, second = (
        PlasticDevice(double_queue, connections, RULE, cells, True, "pull", 64) for _ in range(3)
    )
    whole.epoch(trains, 0, 40, rng)
    first.epoch(trains, 0, 17, rng)
    second.plasticity.restore(first.plasticity.state())
    second.incoming.set(first.incoming.get())
    second.epoch(trains, 17, 23, rng)
    assert np.array_equal(whole.plasticity.weight, second.plasticity.weight)
    assert np.array_equal(whole.incoming.get(), second.incoming.get())
    state = first.plasticity.state()
    state["plastic_weight"] = state["plastic_weight"][1:]
    with pytest.raises(InputError, match="weight is not of these connections"):
        second.plasticity.restore(state)


def test_no_connections(double_queue):
    ran = PlasticDevice(
        double_queue, GridConnections([], [], [], [], 3), RULE, [-1], True, "pull", 4
    )
    ran.epoch(np.ones((2, 3), bool), 0, 2, np.random.default_rng(0))
    assert ran.plasticity.weight.shape == (0,)
    assert not ran.incoming.get().any()


def test_weights_that_could_overflow_are_refused(double_queue):
    delivery = Delivery(double_queue, GridConnections([0, 1], [0, 1], [0.5, 0.8]), 2, 3, 5, "pull")
    with pytest.raises(InputError, match="the sums could overflow"):
        Plasticity(delivery, STDP(0.1, 0.1, w_max=64.0), DT, [1, 0])
