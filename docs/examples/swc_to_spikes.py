"""From an SWC file to spikes: a current into the soma, voltages at the soma and at a tip."""

from pathlib import Path

import numpy as np

import clhines
from clhines import draw

Path("example.swc").write_text(
    "1 1 0 0 0 8 -1\n2 4 0 10 0 1.5 1\n3 4 0 120 0 1.2 2\n4 4 60 200 0 0.8 3\n"
    "5 4 -70 210 0 0.7 3\n6 3 0 -12 0 1.1 1\n7 3 20 -150 0 0.6 6\n"
)
cable = clhines.discretise(clhines.read_swc("example.swc"), max_length=20)
net = clhines.Network(cable)
net.insert("hh", at="soma")
net.insert("pas", at="dendrites", g=1e-4, e=-65.0)
net.add("iclamp", at=net.soma, delay=5.0, dur=40.0, amp=0.3)
net.threshold = -20.0

tip = int(np.argmax(np.linalg.norm(cable.xyz, axis=1)))
sim = clhines.Simulation(net, dt=0.025)
v = sim.record("v", [net.soma[0], tip])
result = sim.run(60.0)
title = f"{len(result.spike_time)} spikes of a cell of {cable.num_nodes} nodes"
draw.plot_result(result, names=["soma", "tip"], title=title, path="swc_to_spikes.png")
