"""A network of 200 neurons whose 4,000 weights are trained to give each cell a rate of its own."""

import matplotlib.pyplot as plt
import numpy as np

import clhines

cells, inputs, duration, dt = 200, 20, 100.0, 0.5  # ms
NEURON = """
point neuron
parameter drive = 0.3 nA
current i = 0.02*(v + 65) - drive
spike: v > -50
reset: v = -65
refractory: 2 ms
"""
COUNTER = """
point counter
state n = 0
current i = 0*n
on event: n += weight
"""
rng = np.random.default_rng(1)
begins = np.arange(cells + 1)
net = clhines.Network.from_arrays([-1] * cells, begins, [1e4] * cells, [0.0] * cells, [0.2] * cells)
net.add(NEURON, net.soma, drive=rng.uniform(0.28, 0.4, cells))
synapses = net.add("expsyn", net.soma, tau=5.0, e=0.0)
counters = net.add(COUNTER, net.soma)
source, target = rng.integers(cells, size=cells * inputs), np.repeat(np.arange(cells), inputs)
recurrent = net.connect(source, synapses, target, weight=5e-4, delay=1.5)
net.connect(np.arange(cells), counters, np.arange(cells), weight=1.0, delay=dt)
sim = clhines.Simulation(net, dt=dt, v_init=rng.uniform(-65, -51, cells))
sim.record("n", counters)
wanted = rng.uniform(2, 8, cells)  # spikes in 100 ms


def loss(n):
    """Mean square error of the spikes until the end, and its derivatives by all rows."""
    by_n = np.zeros_like(n)
    by_n[-1] = 2 * (n[-1] - wanted) / cells
    return float(((n[-1] - wanted) ** 2).mean()), by_n


weight, mean, square, errors = sim.weights(), 0.0, 0.0, []
for turn in range(1, 41):  # Adam, with spikes that have the slope of a sigmoid
    gradient = sim.gradient(duration, loss, ["weight"], surrogate=20.0)  # mV
    slope = gradient["weight"][recurrent.where]
    mean, square = 0.8 * mean + 0.2 * slope, 0.98 * square + 0.02 * slope**2
    step = mean / (1 - 0.8**turn) / (np.sqrt(square / (1 - 0.98**turn)) + 1e-12)
    weight[recurrent.where] -= 1e-4 * 0.9**turn * step
    sim.set(weight=weight)
    sim.reset()
    errors.append(gradient.value)
print(f"mean square error of spikes: {errors[0]:.2f} at first, {errors[-1]:.2f} after training")
assert errors[-1] < 0.1 * errors[0]
figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
axes.plot(errors)
axes.set(xlabel="simulation with its gradient", ylabel="mean square error (spikes²)", ylim=0)
figure.savefig("trained_rates.png", dpi=150)
