"""From an SWC file to spikes: a current into the soma, voltages at the soma and at a tip."""

import numpy as np

import clhines
from clhines import draw

cable = clhines.discretise(clhines.read_swc(clhines.sample_swc()[1]))
net = clhines.Network(cable)
net.insert("hh", at="soma", gnabar=0.5, gkbar=0.1)
net.insert("pas", at="dendrites", g=1e-4, e=-65.0)
net.add("iclamp", at=net.soma, delay=5.0, dur=80.0, amp=0.3)
net.threshold = -20.0

tip = int(np.argmax(cable.distance))
sim = clhines.Simulation(net, dt=0.025)
v = sim.record("v", [net.soma[0], tip])
result = sim.run(100.0)
title = f"{len(result.spike_time)} spikes of a cell of {cable.num_nodes} nodes"
draw.plot_result(result, names=["soma", "tip"], title=title, path="swc_to_spikes.png")
