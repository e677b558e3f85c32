"""A network divided among ranks: bounds by cost, and parts that add up to the whole."""

from itertools import pairwise

import numpy as np
import pytest
from networks import CABLES, DT, mixed_network
from rank_program import busy_network

from clhines import InputError, Network, Simulation
from clhines.simulator.model import compile
from clhines.simulator.ranks import partition


def test_split_by_hand():
    np.testing.assert_array_equal(partition.split(np.ones(8), 4), [0, 2, 4, 6, 8])
    np.testing.assert_array_equal(partition.split(np.array([6.0, 1, 1, 1, 1, 2]), 2), [0, 1, 6])
    np.testing.assert_array_equal(partition.split(np.array([1.0, 1, 9, 1]), 4), [0, 1, 2, 3, 4])
    np.testing.assert_array_equal(partition.split(np.array([100.0, 1, 1]), 2), [0, 1, 3])
    np.testing.assert_array_equal(partition.split(np.ones(5), 1), [0, 5])


@pytest.mark.parametrize("size", [2, 3, 7, 50])
def test_split_is_even(size):
    costs = np.random.default_rng(size).uniform(1, 9, 200)
    bounds = partition.split(costs, size)
    assert bounds[0] == 0
    assert bounds[-1] == 200
    assert (np.diff(bounds) >= 1).all()
    sums = np.add.reduceat(costs, bounds[:-1])
    assert sums.max() <= costs.sum() / size + costs.max()


def test_too_many_ranks():
    with pytest.raises(InputError, match="3 cells on 4 ranks; expected a cell for each"):
        partition.split(np.ones(3), 4)


def test_costs_count_states():
    net = Network(CABLES[:1], 2)
    net.insert("hh", "soma")
    net.insert("pas", "dendrites")
    costs = partition.cell_costs(compile(net))
    np.testing.assert_array_equal(costs, CABLES[0].num_nodes + 1 + 3 * 5)


def test_parts_make_up_the_whole():
    whole = compile(mixed_network()[0], DT, seed=7)
    bounds = partition.split(partition.cell_costs(whole), 3)
    shares = [partition.Share(whole, *bounds[[r, r + 1]].tolist()) for r in range(3)]
    parts = [share.model() for share in shares]
    for name in ("u", "capacitance", "constant_d", "threshold", "v_init"):
        joined = np.concatenate([getattr(p, name) for p in parts])
        np.testing.assert_array_equal(joined, getattr(whole, name))
    for share, part in zip(shares, parts, strict=True):
        targets = share.targets
        assert part.num_targets == len(targets)
        np.testing.assert_array_equal(part.cell_of_target(), whole.cell_of_target()[targets])
        mine = share.on_grid
        np.testing.assert_array_equal(
            targets[part.connections.target], whole.connections.target[mine]
        )
        np.testing.assert_array_equal(part.connections.source, whole.connections.source[mine])
        for k, (kind, of) in enumerate(zip(part.kinds, whole.kinds, strict=True)):
            low, high = share.instances[k].start, share.instances[k].stop
            assert kind.mechanism == of.mechanism
            assert kind.first_instance == of.first_instance + low
            np.testing.assert_array_equal(kind.node + share.low, of.node[low:high])
            for p in of.mechanism.parameters:
                np.testing.assert_array_equal(kind.arrays()[p], of.arrays()[p][low:high])
    assert sum(len(p.events.step) for p in parts) == len(whole.events.step)


def test_a_state_cut_and_joined_is_the_same():
    for build in (mixed_network, busy_network):
        sim = Simulation(build()[0], DT, engine="reference", seed=7)
        sim.run(2.0)
        saved = sim.runner.save()
        for size in (1, 2, 5):
            bounds = partition.split(partition.cell_costs(sim.model), size).tolist()
            parts = [partition.Share(sim.model, *b) for b in pairwise(bounds)]
            cut = [part.cut(saved) for part in parts]
            joined = partition.join(parts, cut)
            assert set(joined) == set(saved)
            for name, values in saved.items():
                np.testing.assert_array_equal(joined[name], values, err_msg=name)
