"""The ring network of the 2018 report: one event goes round forty different cells."""

import clhines
from clhines import draw

net = clhines.ring.ring_network(clhines.ring.ring_cables(8, levels=3), 40)
sim = clhines.Simulation(net, dt=0.025)
cells = [0, 1, 2, 3]
v = sim.record("v", net.soma[cells])
result = sim.run(100.0)
draw.plot_result(result, title="a ring of 40 cells", path="ring.png")
