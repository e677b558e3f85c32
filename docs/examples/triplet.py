"""Pairs of spikes at rising frequencies: the triplet rule of Pfister and Gerstner beside pairs.

Journal of Neuroscience 26, 9673-9682 (2006), the protocol of figure 4: 60 pairs, 10 ms apart.
"""

import numpy as np

import clhines
from clhines import draw

cell = """
    point cell                    # spikes at each event
    current i = 0.01*(v + 60) [nA]
    spike: v > -50 mV
    reset: v = -60 mV
    refractory: 5 ms
"""
frequencies = np.array([10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0])  # Hz
lags = np.repeat([10.0, -10.0], len(frequencies))  # ms, of the second cell after the first
period = np.tile(1e3 / frequencies, 2)
count = 2 * len(lags)
first, second = np.arange(0, count, 2), np.arange(1, count, 2)
rules = {
    "triplets": clhines.Rule("triplet", w_max=10.0),
    "pairs": clhines.STDP(6.5e-3, 7.1e-3, tau_plus=16.8, tau_minus=33.7, w_max=10.0),
}
change = {}
for name, rule in rules.items():
    cells = np.full(count, -1), np.arange(count + 1)
    net = clhines.Network.from_arrays(*cells, [2e4] * count, [0.0] * count, [0.2] * count)
    net.threshold = -50.0
    net.add(cell, at=net.soma)
    kick = net.add("expsyn", at=net.soma, tau=0.5)
    start = np.zeros(count)
    start[first], start[second] = 20.0, 20.0 + lags
    for k in range(60):
        net.add_event(kick, np.arange(count), start + k * np.repeat(period, 2), 1.0)
    silent = net.add("expsyn", at=net.soma[second], e=-60.0)  # no current at rest
    net.connect(first, silent, weight=1.0, delay=5.0, rule=rule)
    sim = clhines.Simulation(net, dt=0.5, v_init=-60.0)
    result = sim.run(6200.0)
    assert np.bincount(result.spike_cell, minlength=count).tolist() == [60] * count
    change[name] = (sim.weights() - 1.0).reshape(2, -1)

with draw.style():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.4))
    axes = figure.subplots()
    for name, style in (("triplets", "o-"), ("pairs", "o:")):
        for rows, lag in zip(change[name], ("+10", "-10"), strict=True):
            axes.plot(frequencies, rows, style, ms=4, label=f"{name}, {lag} ms")
    axes.axhline(0.0, color="0.6", lw=0.8, ls="-")
    axes.set(xlabel="frequency of pairs [Hz]", ylabel="change of the weight")
    axes.legend()
    figure.savefig("triplet.png")
