"""A model read from NEURON runs elsewhere, without NEURON."""

import json

import pytest
from forked import found_by
from processes import output_of

pytestmark = pytest.mark.neuron


SAVED = """
soma, dendrite = h.Section(name="soma"), h.Section(name="dendrite")
dendrite.connect(soma), soma.insert("hh"), dendrite.insert("pas")
dendrite.nseg, soma.L, h.celsius, h.dt = 3, 20, 18.5, 0.05
stim, cell, synapse = h.NetStim(), h.IntFire1(), h.ExpSyn(dendrite(0.5))
stim.noise, stim.number, stim.interval, stim.start = 0.5, 1e9, 3, 1
stim.noiseFromRandom123(1, 2, 3)
near, far = h.NetCon(stim, synapse), h.NetCon(stim, cell)
near.weight[0], far.weight[0], far.delay = 0.02, 0.6, 0.3
back = h.NetCon(cell, synapse)
back.weight[0] = 0.01
spikes = h.NetCon(soma(0.5)._ref_v, cell, sec=soma)
h.finitialize(-63)
clhines.neuron.run(2)
model = clhines.from_neuron(engine="steps")
sim = model.simulation
sim.network.save(FOLDER + "/network.npz")
sim.save(FOLDER + "/state.npz")
result = sim.run(30)
found = [sim.voltages().tolist(), result.spike_cell.tolist(), result.spike_time.tolist()]
"""


LOADED = """
import json, sys
import clhines
net = clhines.Network.load(FOLDER + "/network.npz")
s = net.settings
given = {"v_init": s["v_init"], "secondorder": int(s["secondorder"])}
sim = clhines.Simulation(net, s["dt"], engine="steps", **given)
sim.restore(FOLDER + "/state.npz")
result = sim.run(30)
assert not any(name.split(".")[0] == "neuron" for name in sys.modules)
print(json.dumps([sim.voltages().tolist(), result.spike_cell.tolist(), result.spike_time.tolist()]))
"""


def test_a_model_runs_elsewhere_without_neuron(tmp_path):
    """Run a network and a state from files in another process: the bits are the same."""
    folder = f"FOLDER = {str(tmp_path)!r}\n"
    expected = found_by(folder + SAVED)
    assert json.loads(output_of("-c", folder + LOADED).splitlines()[-1]) == expected
    assert len(expected[2]) > 5
