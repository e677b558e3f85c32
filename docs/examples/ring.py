"""The ring network of the 2018 report: one event goes round forty different cells."""

import clhines
from clhines import draw

net = clhines.ring.ring_network(clhines.ring.ring_cables(8, levels=3), 40)
sim = clhines.Simulation(net, dt=0.025)
cells = [0, 1, 2, 3]
v = sim.record("v", net.soma[cells])
result = sim.run(100.0)
names = [f"cell {k}" for k in cells]
spikes = result.spike_time, result.spike_cell
draw.activity(spikes, 40, (result.t, result[v], names), "a ring of 40 cells", "ring.png")
