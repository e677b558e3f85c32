"""The CUBA benchmark: 4,000 leaky neurons that excite and inhibit each other by currents.

Vogels and Abbott 2005, Journal of Neuroscience 25, 10786-10795; benchmark 2 of Brette et al. 2007.
"""

import numpy as np

import clhines
from clhines import Pairs, draw

lif = """
    point lif
    current i = 0.01*(v + 49) [nA]     # uS, mV
    spike: v > -50 mV
    reset: v = -60 mV
    refractory: 5 ms
"""
synapse = """
    point {name}                       # each event moves a current, which decays
    parameter tau = {tau} ms
    state a = 0 [nA]
    da/dt = -a/tau
    current i = -a [nA]
    on event: a += weight
"""
count, excitatory = 4000, 3200
cells = np.full(count, -1), np.arange(count + 1)  # a node each: no parents; where cells begin
net = clhines.Network.from_arrays(*cells, [2e4] * count, [0.0] * count, [0.2] * count)  # nF
net.add(lif, at=net.soma)
excite = net.add(synapse.format(name="excite", tau=5), at=net.soma)
inhibit = net.add(synapse.format(name="inhibit", tau=10), at=net.soma)
both = Pairs.bernoulli(0.02, seed=1)
net.connect(np.arange(excitatory), excite, both, weight=0.0162, delay=0.1)  # nA: 1.62 mV
net.connect(np.arange(excitatory, count), inhibit, both, weight=-0.09, delay=0.1)  # -9 mV

v_init = np.random.default_rng(1).uniform(-60.0, -50.0, count)
sim = clhines.Simulation(net, dt=0.1, v_init=v_init)
result = sim.run(1000.0)
print(f"{len(result.spike_time) / count:.1f} spikes per second and neuron")

with draw.style():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.4))
    axes = figure.subplots()
    axes.plot(result.spike_time, result.spike_cell, ",", color="0.1")
    axes.axhline(excitatory, color="0.6", lw=0.8, ls="-")
    axes.set(xlabel="time [ms]", ylabel="neuron", xlim=(0, 1000), ylim=(0, count))
    axes.set_title("3,200 excitatory neurons, and 800 inhibitory ones above them")
    figure.savefig("cuba.png")
