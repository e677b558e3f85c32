"""A ring network: one event goes round sixteen cells of six shapes."""

import numpy as np

import clhines
from clhines import draw

net = clhines.Network([clhines.discretise(cell) for cell in clhines.sample_cells()], 16)
net.insert("hh", at="soma")
net.insert("pas", at="dendrites", g=1e-4, e=-65.0)
synapses = net.add("expsyn", at=net.soma, tau=2.0)
net.connect(np.roll(np.arange(16), 1), synapses, weight=0.05, delay=5.0)
net.add_event(synapses, index=0, time=1.0, weight=0.05)
net.threshold = -20.0  # mV
sim = clhines.Simulation(net, dt=0.025)
v = sim.record("v", net.soma[[0, 1, 2, 3]])
result = sim.run(100.0)
draw.plot_result(result, title="a ring of 16 cells", path="ring.png")
