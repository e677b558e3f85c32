"""Orders of weights in memory: costs by hand, chunks of a graph cut, spikes of a network."""

from functools import partial

import numpy as np
import pytest

from bench.weight_order import cost, graph_cut, group_numbers, sorted_places
from clhines import STDP, Network, Simulation
from clhines.simulator.events import grid_run
from clhines.simulator.events.grid import Delivery


def pairs(rng, cells, share):
    return np.nonzero(rng.random((cells, cells)) < share)


def test_by_hand():
    """Two cells with four targets each, chunks with four: rows, columns, and two-by-two tiles."""
    source, target = np.repeat([0, 1, 2, 3], 4), np.tile([7, 5, 3, 1], 4)
    forward, backward = group_numbers(source, np.ones(16, int)), group_numbers(target)
    assert forward.tolist() == source.tolist() and backward.tolist() == [3, 2, 1, 0] * 4
    rows, columns = sorted_places(source, target), sorted_places(target, source)
    assert rows.tolist() == [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12]
    assert [cost(rows, g, 4) for g in (forward, backward)] == [4, 16]
    assert [cost(columns, g, 4) for g in (forward, backward)] == [16, 4]
    cut = graph_cut(forward, backward, 4)
    assert [cost(cut, g, 4) for g in (forward, backward)] == [8, 8]


@pytest.mark.parametrize("chunk", [4, 16])
@pytest.mark.parametrize("share", [0.05, 0.3, 1.0])
def test_a_graph_cut_is_in_fewer_chunks_than_either_direction(chunk, share):
    rng = np.random.default_rng(3)
    source, target = pairs(rng, 128, share)
    source = rng.permutation(128)[source]
    delay = rng.integers(1, 3, len(source)) if share < 1 else np.ones(len(source), int)
    groups = group_numbers(source, delay), group_numbers(target)
    cut = graph_cut(*groups, chunk)
    np.testing.assert_array_equal(np.sort(cut), np.arange(len(source)))
    brute = sum(len({(g, p // chunk) for g, p in zip(one, cut)}) for one in groups)
    total = {name: sum(cost(place, g, chunk) for g in groups) for name, place in (
        ("source", sorted_places(source, delay, target)),
        ("target", sorted_places(target)), ("cut", cut),
    )}  # fmt: skip
    assert total["cut"] == brute
    assert total["cut"] < 0.95 * min(total["source"], total["target"])
    if share == 1.0:  # squares of a chunk's root
        assert total["cut"] == 2 * 128 * 128 / np.sqrt(chunk)


def test_nothing_and_many_synapses_of_a_pair():
    none = np.zeros(0, int)
    assert len(graph_cut(none, none)) == 0
    many = np.zeros(70, int)
    assert sorted(graph_cut(many, many)) == [*range(70)]
    assert cost(graph_cut(many, many), many) == 5


@pytest.mark.parametrize("rule", [None, STDP(0.01, 0.012, tau_plus=20.0, tau_minus=20.0)])
@pytest.mark.parametrize("order", ["target", "cut"])
def test_the_same_spikes(double_queue, monkeypatch, order, rule):
    """Compare a network of point neurons whose weights lie in another order, bit by bit."""
    places = []

    def delivery(queue, c, *given, **more):
        source, delay, target = (a[c.order] for a in (c.source, c.delay, c.target))
        groups = group_numbers(source, delay), group_numbers(target)
        places.append(sorted_places(target) if order == "target" else graph_cut(*groups))
        return Delivery(queue, c, *given, place=places[-1], **more)

    rng = np.random.default_rng(6)
    source, target = pairs(rng, 60, 0.2)
    weight = rng.uniform(0.02, 0.1, len(source))
    delay = 0.1 * rng.integers(5, 9, len(source))
    results = []
    for make in (Delivery, delivery):
        monkeypatch.setattr(grid_run, "Delivery", partial(make))
        net = Network.from_arrays(
            np.full(60, -1), np.arange(61), [300.0] * 60, [0.0] * 60, [0.2] * 60
        )
        neurons = net.add(
            """point lif
            state s = 0 [nA]
            ds/dt = -s/5
            current i = 0.01*(v + 60) - s
            on event: s += weight
            spike: v > -50
            reset: v = -60
            refractory: 2 ms
            method exact""",
            at=net.soma,
        )
        net.connect(
            source, neurons, target, weight, delay, **({} if rule is None else {"rule": rule})
        )
        net.add("iclamp", at=net.soma, dur=1e9, amp=0.12)
        sim = Simulation(
            net, 0.1, engine="steps", queue=double_queue, v_init=-60 + 9 * (np.arange(60) % 7) / 7
        )
        result = sim.run(60.0)
        results.append((result.spike_time, result.spike_cell, sim.weights()))
    assert places and (np.diff(places[0]) != 1).any() and len(results[0][0]) > 100
    assert rule is None or (results[0][2] != weight).mean() > 0.5
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
