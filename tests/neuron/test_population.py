"""Compare a population of a NEURON model with NEURON, which runs its sets in turn."""

import pytest
from processes import output_of

pytestmark = pytest.mark.neuron

PROGRAM = """
import clhines, numpy as np
from neuron import h
h.load_file("stdrun.hoc")
soma, dend = h.Section("soma"), h.Section("dend")
soma.L = soma.diam = 20
soma.insert("hh")
dend.connect(soma)
dend.L, dend.diam, dend.nseg = 200, 2, 5
dend.insert("pas")
synapse, stim = h.Exp2Syn(dend(0.5)), h.NetStim()
synapse.tau1, synapse.tau2 = 1, 4  # INITIAL may set tau1, and noise below
stim.number, stim.start, stim.interval, stim.noise = 3, 2, 3, 0.5
stim.ranvar.set_ids(1, 2, 3)
connection = h.NetCon(stim, synapse)
connection.weight[0], connection.delay = 0.002, 0.5
h.v_init, h.dt, h.steps_per_ms = -70, 0.05, 20
h.finitialize(h.v_init)
model = clhines.from_neuron(engine="reference")
sim = model.simulation
node = int(model[soma(0.5)])
step = {"stop": 8.0, "stimuli": [{"amp": 0.3, "delay": 1.0, "dur": 5.0, "at": node}]}
population = clhines.Population(
    sim.network, {"gna": ("hh", "gnabar"), "rise": ("Exp2Syn", "tau1")}, {"step": step},
    record=node, engine="reference",
)
sets = np.array([[0.1, 1], [0.15, 0.5]])
found = population.evaluate(sets)
clamp = h.IClamp(soma(0.5))
clamp.amp, clamp.delay, clamp.dur = 0.3, 1, 5
v = h.Vector().record(soma(0.5)._ref_v)
for k, (conductance, rise) in enumerate(sets):
    soma(0.5).hh.gnabar, synapse.tau1 = conductance, rise
    h.finitialize(h.v_init)
    h.continuerun(8)
    late = clhines.from_neuron(engine="reference").simulation
    refused = 0
    for what in (
        late.reset, lambda: late.replicate(2).reset(),
        lambda: clhines.Population(late.network, {"gna": ("hh", "gnabar")}, {"step": step}),
    ):
        try:
            what()
        except clhines.InputError as error:
            refused += "read from NEURON at t = 8 ms" in str(error)
    assert refused == 3  # events on their way, concentrations: not those of a start
    print(np.abs(np.array(v) - found.v[k, 0]).max(), found.num_spikes[k, 0], max(v))
"""


def test_sets_are_those_of_neuron():
    lines = output_of("-c", PROGRAM).splitlines()[-2:]
    rows = [[float(x) for x in line.split()] for line in lines]
    for difference, spikes, highest in rows:
        # as in `test_run`: 1e-9 of the largest value, about 65 mV, at the upstroke of a spike
        assert difference < 65e-9 and spikes == 1 and highest > 20
    assert rows[0][2] + 1 < rows[1][2]  # another conductance, another spike
