"""The COBA benchmark: 4,000 leaky neurons that excite and inhibit each other by conductances.

Brette et al. 2007, Journal of Computational Neuroscience 23, 349-398: benchmark 1.
"""

import numpy as np

import clhines
from clhines import draw

lif = """
    point lif
    current i = 0.01*(v + 60) [nA]     # uS, mV
    spike: v > -50 mV
    reset: v = -60 mV
    refractory: 5 ms
"""
rng = np.random.default_rng(1)
count, excitatory = 4000, 3200
cells = np.full(count, -1), np.arange(count + 1)  # a node each: no parents; where cells begin
net = clhines.Network.from_arrays(*cells, [2e4] * count, [0.0] * count, [0.2] * count)  # nF
net.add(lif, at=net.soma)

begins = {  # reversal potential [mV], decay [ms], weight [uS]; conductances at the start
    "excite": (0.0, 5.0, 0.006, rng.normal(0.04, 0.015, count)),
    "inhibit": (-80.0, 10.0, 0.067, rng.normal(0.2, 0.12, count)),
}
halves = np.arange(excitatory), np.arange(excitatory, count)
for own, (e, tau, weight, begin) in zip(halves, begins.values(), strict=True):
    synapse = net.add("expsyn", at=net.soma, e=e, tau=tau)
    source, target = np.nonzero(rng.random((len(own), count)) < 0.02)
    net.connect(own[source], synapse, target, weight=weight, delay=0.1)
    net.add_event(synapse, np.arange(count), time=0.0, weight=np.maximum(begin, 0.0))

sim = clhines.Simulation(net, dt=0.1, v_init=rng.normal(-65.0, 5.0, count))
result = sim.run(300.0)
print(f"{len(result.spike_time) / count / 0.3:.1f} spikes per second and neuron")

with draw.style():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.4))
    axes = figure.subplots()
    axes.plot(result.spike_time, result.spike_cell, ",", color="0.1")
    axes.axhline(excitatory, color="0.6", lw=0.8, ls="-")
    axes.set(xlabel="time [ms]", ylabel="neuron", xlim=(0, 300), ylim=(0, count))
    axes.set_title("3,200 excitatory neurons, and 800 inhibitory ones above them")
    figure.savefig("coba.png")
