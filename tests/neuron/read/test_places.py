"""Find sections, synapses and connections by their NEURON objects."""

import pytest
from forked import found_by

pytestmark = pytest.mark.neuron


AT = """
soma, dendrite = make_section("soma", "hh"), make_section("dendrite", nseg=3)
dendrite.connect(soma(0.5))
synapse, other = h.ExpSyn(dendrite(0.9)), h.ExpSyn(dendrite(0.1))
netcon = h.NetCon(soma(0.5)._ref_v, synapse, sec=soma)
netcon.weight[0] = 0.01
h.finitialize(-61)
model = clhines.from_neuron(engine="reference")
sim = model.simulation
v = sim.record("v", [model[soma(0.5)], model[dendrite(0.9)]])
group, index = model[other]
refused = []
for thing, copy in ((soma(0.5), 1), (dendrite, -1), (netcon, 1), (synapse, 0.5)):
    try:
        model[thing, copy]
    except clhines.InputError as error:
        refused.append(str(error)[:8])
source, number, connection = model[netcon]
found = {
    "v": sim.run(1)[v][0].tolist(),
    "node": int(group.nodes[index]) == model[dendrite(0.1)],
    "nodes": model[dendrite].tolist() == [model[s] for s in dendrite],
    "source": int(source.node[number]) == model[soma(0.5)],
    "connection": connection,
    "refused": refused,
    "t": h.t,
}
"""


def test_at_finds_things_and_a_simulation_starts_from_the_present_state():
    result = found_by(AT)
    assert result["v"] == [-61.0, -61.0]
    assert result["node"] and result["nodes"] and result["source"]
    assert result["connection"] == 0 and result["refused"] == ["copy is "] * 4
    assert result["t"] == 0  # NEURON's own time stays
