"""A thousand variants of one cell at once: the rate over current and sodium density."""

import numpy as np

import clhines
from clhines import draw

currents, densities = np.linspace(0.1, 4.0, 40), np.linspace(0.08, 0.2, 25)
current, density = (a.reshape(-1) for a in np.meshgrid(currents, densities))
cable = clhines.discretise(clhines.sample_cells()[0], max_length=200)
net = clhines.Network(cable, num_cells=len(current))
membrane = int(np.count_nonzero(cable.area))
net.insert("hh", gnabar=np.repeat(density, membrane))
net.add("iclamp", at=net.soma, delay=2.0, dur=1000.0, amp=current)
net.threshold = -20.0

result = clhines.Simulation(net, dt=0.025, dtype=np.float32).run(102.0)
spikes = np.bincount(result.spike_cell, minlength=len(current))
rate = spikes.reshape(len(densities), len(currents)) / 0.1  # Hz, in 100 ms

with draw.style():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.6))
    axes = figure.subplots()
    image = axes.pcolormesh(currents, densities, rate, shading="nearest")
    figure.colorbar(image, label="rate [Hz]")
    axes.set(xlabel="current [nA]", ylabel="sodium density [S/cm²]")
    axes.set_title(f"{len(current)} variants of a cell of {cable.num_nodes} nodes")
    figure.savefig("thousand_variants.png")
