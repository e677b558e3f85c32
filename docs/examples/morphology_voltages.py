"""A spike runs into the dendrites: voltages on the branches at four times."""

import numpy as np

import clhines
from clhines import draw

cable = clhines.discretise(clhines.read_swc(clhines.sample_swc()[0]), max_length=15)
net = clhines.Network(cable)
net.insert("hh", at="soma", gnabar=0.5, gkbar=0.1)
net.insert("pas", at="dendrites", g=1e-4, e=-65.0)
net.add("iclamp", at=net.soma, delay=1.0, dur=1.0, amp=2.0)

sim = clhines.Simulation(net, dt=0.025)
everywhere = sim.record("v", np.arange(cable.num_nodes))
result = sim.run(12.0)
when = np.array([1.5, 2.5, 4.0, 8.0])  # ms
rows = result[everywhere][np.searchsorted(result.t, when - 1e-9)]
titles = [f"{t:g} ms" for t in when]
draw.plot_morphology(cable, rows, "voltage [mV]", titles, path="morphology_voltages.png")
