"""A channel of your own: a slow potassium current makes firing adapt."""

import numpy as np

import clhines
from clhines import draw

KM = """
    density km
    parameter gbar = 0 S/cm2
    parameter ek = -77 mV
    winf = 1/(1 + exp(-(v + 35)/10))
    tau = 400/(3.3*exp((v + 35)/20) + exp(-(v + 35)/20)) [ms]
    state w = winf
    dw/dt = (winf - w)/tau
    current i = gbar*w*(v - ek) [mA/cm2]
"""
cable = clhines.discretise(clhines.read_swc(clhines.sample_swc()[0]))
net = clhines.Network(cable, num_cells=2)  # the same cell without and with the channel
net.insert("hh", at="soma", gnabar=0.5, gkbar=0.1)
net.insert("pas", at="dendrites", g=1e-4, e=-65.0)
km = net.insert(KM, at="soma", gbar=net.per_cell([0.0, 0.006]))
net.add("iclamp", at=net.soma, delay=10.0, dur=200.0, amp=0.8)
net.threshold = -20.0

sim = clhines.Simulation(net, dt=0.025)
v = sim.record("v", net.soma)
w = sim.record("w", km, index=[1])
result = sim.run(220.0)
count = np.bincount(result.spike_cell, minlength=2)

with draw.style():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5))
    axes = figure.subplots(3, 1, sharex=True)
    for k, name in enumerate(("without", "with")):
        axes[k].plot(result.t, result[v][:, k])
        axes[k].set(ylabel="v [mV]", title=f"{name} the channel: {count[k]} spikes")
    axes[2].plot(result.t, result[w])
    axes[2].set(ylabel="w", xlabel="time [ms]", title="the channel's state")
    figure.savefig("own_channel.png")
