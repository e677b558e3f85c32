"""The window of spike-timing-dependent plasticity, from pairs of spikes in 41 pairs of cells."""

import numpy as np

import clhines
from clhines import draw

cable = clhines.discretise(clhines.sample_cells()[0], max_length=500)
lags = np.linspace(-40.0, 40.0, 41)  # ms, of the second cell after the first
net = clhines.Network(cable, num_cells=2 * len(lags))
net.insert("hh", at="soma")
net.insert("pas", at="dendrites", g=1e-4, e=-65.0)
net.threshold = -20.0

first, second = np.arange(0, net.num_cells, 2), np.arange(1, net.num_cells, 2)
kick = np.zeros(net.num_cells)
kick[first], kick[second] = 60.0, 60.0 + lags
net.add("iclamp", at=net.soma, delay=kick, dur=1.0, amp=3.0)
synapse = net.add("expsyn", at=net.soma[second], tau=2.0)
rule = clhines.STDP(a_plus=1e-4, a_minus=1.2e-4, tau_plus=10.0, tau_minus=20.0)
net.connect(first, synapse, weight=1e-3, delay=0.1, rule=rule)

sim = clhines.Simulation(net, dt=0.025)
result = sim.run(130.0)
change = (sim.weights() - 1e-3) * 1e3
time = np.full(net.num_cells, np.nan)
time[result.spike_cell[::-1]] = result.spike_time[::-1]  # the first of each cell

with draw.style():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.4))
    axes = figure.subplots()
    axes.plot(time[second] - time[first], change, "o", ms=4)
    axes.axhline(0.0, color="0.6", lw=0.8, ls="-")
    axes.set(xlabel="spike of the target after that of the source [ms]", ylabel="change [nS]")
    axes.set_title("change of the weight after one pair of spikes")
    figure.savefig("stdp.png")
