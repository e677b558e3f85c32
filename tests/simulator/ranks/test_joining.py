"""One network from several processes' networks has the bits of the same network made at once."""

import numpy as np
import pytest

import clhines
from clhines.core.errors import InputError
from clhines.simulator.engines.reference import start_model
from clhines.simulator.network import inside
from clhines.simulator.ranks.joining import Ends, join_networks
from clhines.simulator.ranks.parts import RankLayout, RankPart, put_all
from clhines.simulator.state.sources import wires_of

PASSIVE, ACTIVE, SYNAPSE = {"g": 1e-4, "e": -65.0}, {}, {"tau": 2.0}
NONE = np.zeros(0, np.int64)


def cells(count):
    """Return cells with three nodes and channels; the first receives a current."""
    parent = np.tile([-1, 0, 1], count) + np.repeat(3 * np.arange(count), 3) * np.tile(
        [0, 1, 1], count
    )
    area, axial = np.tile([1200.0, 600.0, 600.0], count), np.tile([0.0, 0.01, 0.02], count)
    net = clhines.Network.from_arrays(parent, 3 * np.arange(count + 1), area, axial, 1e-5 * area)
    inside(net).added.exact = True
    return net


def filled(net, amps, first=0):
    """Add mechanisms to a network; return detectors and synapses."""
    net.insert("hh", 3 * np.arange(net.num_cells))
    net.insert("pas", np.setdiff1d(np.arange(3 * net.num_cells), 3 * np.arange(net.num_cells)))
    net.add("iclamp", 3 * np.arange(net.num_cells), delay=1.0, dur=2.0, amp=amps)
    synapses = net.add("expsyn", 3 * np.arange(net.num_cells) + 1, tau=2.0 + first)
    return net.add_detector(3 * np.arange(net.num_cells), -20.0), synapses


def parts():
    """Return two networks: cell 0 in one and cell 2 in the other excite the other network."""
    nets = cells(2), cells(3)
    ends = []
    for k, (net, amps) in enumerate(zip(nets, ([1.0, 0.0], [0.0, 0.0, 0.8]), strict=True)):
        detectors, synapses = filled(net, amps, k)
        train = net.spike_source([[]])
        net.connect(train, synapses, weight=0.03, delay=1.3 + k)
        sources = net.source_numbers(detectors, [0 if k == 0 else 2])
        heard = net.source_numbers(train)
        nodes = (range(6), range(6, 15))[k]
        ends.append(Ends(sources, np.array([k]), heard, np.array([1 - k]), nodes, NONE))
    return nets, ends


def at_once():
    net = cells(5)
    detectors, synapses = filled(net, [1.0, 0.0, 0.0, 0.0, 0.8])
    synapses.parameters["tau"] = np.array([2.0, 2.0, 3.0, 3.0, 3.0])
    net.connect(detectors, synapses, index=[0, 1], weight=0.03, delay=1.3, source_index=[4, 4])
    net.connect(detectors, synapses, index=[2, 3, 4], weight=0.03, delay=2.3, source_index=[0] * 3)
    return net


def run(net):
    sim = clhines.Simulation(net, engine="reference")
    v = sim.record("v", at=np.arange(net.forest.num_nodes))
    return sim.run(15.0)[v]


def test_a_joined_network_has_the_bits_of_one_made_at_once():
    nets, ends = parts()
    whole, numbers = join_networks(nets, ends)
    assert [part.node for part in numbers] == [0, 6] and [part.cell for part in numbers] == [0, 2]
    joined, wanted = run(whole), run(at_once())
    assert np.array_equal(joined, wanted)
    assert (wanted[:, 9] > 0).any()  # a cell of the second fires for the first's spike
    alone = run(nets[1])
    assert not np.array_equal(alone, wanted[:, 6:])


def test_states_of_ranks_make_the_state_of_the_whole_and_come_back():
    nets, ends = parts()
    whole, numbers = join_networks(nets, ends)
    sims = [clhines.Simulation(net, engine="reference") for net in (whole, *nets)]
    models = [sim.model for sim in sims]
    ranks = [
        RankPart(models[0], number, RankLayout.of(model))
        for number, model in zip(numbers, models[1:], strict=True)
    ]
    starts = [start_model(model, wires_of(model))[0].save() for model in models]
    empty = {key: np.zeros_like(values) for key, values in starts[0].items()}
    made = put_all(ranks, [(arrays, NONE) for arrays in starts[1:]], empty)
    for key, values in starts[0].items():
        assert np.array_equal(made[key], values), key
    sims[0].run(6.0)
    state = sims[0].runner.save()
    cut = [part.cut(state, 6.0) for part in ranks]
    again = put_all(ranks, [(arrays, NONE) for arrays in cut], empty)
    assert state["count"].sum() > 0
    for key, values in state.items():
        if key != "ring":
            assert np.array_equal(again[key], values), key


def other_temperature(nets):
    nets[1].celsius = 20.0


def bins(nets):
    inside(nets[1]).added.bins = True


def shared(nets):
    inside(nets[1]).added.last[0] = 0


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (other_temperature, "celsius differs between ranks"),
        (bins, "CVode.queue_mode differs between ranks"),
        (shared, "a mechanism has variables that all instances share and set"),
    ],
)
def test_networks_that_cannot_be_one(change, line):
    nets, ends = parts()
    change(nets)
    with pytest.raises(InputError, match=line):
        join_networks(nets, ends)
