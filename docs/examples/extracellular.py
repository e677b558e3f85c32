"""Extracellular potential of a spike: point sources, summed up on the device."""

import numpy as np

import clhines
from clhines import draw

cable = clhines.discretise(clhines.sample_cells()[0], max_length=25)
net = clhines.Network(cable)
net.insert("hh", at="soma")
net.insert("pas", at="dendrites", g=5e-5, e=-65.0)
synapse = net.add("expsyn", at=net.soma, tau=0.5, e=0.0)  # no electrode: all currents add up to 0
net.add_event(synapse, index=0, time=1.0, weight=0.15)  # ms, µS

# potential of a point source: current / (4 pi sigma distance); nA, S/m and µm give mV
sigma = 0.3  # S/m
centre = cable.xyz[cable.soma]
x, y = np.meshgrid(np.linspace(-150, 150, 25), np.linspace(-150, 150, 25))
grid = np.stack([x.ravel(), y.ravel(), np.full(x.size, 20.0)], axis=1) + centre  # µm
radii = np.array([20.0, 40.0, 80.0, 160.0])  # µm, of electrodes beside the soma
line = np.stack([0 * radii, 0 * radii, radii], axis=1) + centre
electrodes = np.concatenate([grid, line])
distance = np.linalg.norm(electrodes[:, None] - cable.xyz, axis=2)
closest = np.maximum(distance, 5.0)  # not inside a neurite
matrix = 1.0 / (4 * np.pi * sigma * closest)  # lfpykit has line sources, too

sim = clhines.Simulation(net, dt=0.025)
soma = sim.record("v", net.soma)
outside = sim.record("i_membrane", np.arange(cable.num_nodes), matrix=matrix, every=0.05)
result = sim.run(10.0)
t, potential = result.times[outside], 1e3 * result[outside]  # ms, µV
trough = potential[:, -len(radii) :].min(axis=0)
print("trough", trough.round(1), "µV at", radii, "µm")
first = t[potential[:, -len(radii)].argmin()]
assert first < result.t[result[soma][:, 0].argmax()]  # before the peak inside
assert (trough[:-1] / trough[1:] > 2).all()  # falls faster than that of one source

with draw.style():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.1, 1])
    extent = np.ptp(potential[:, : x.size], axis=0).reshape(x.shape)
    image = left.pcolormesh(x, y, np.log10(extent), shading="gouraud")
    figure.colorbar(image, label="log10 of the extent [µV]")
    for child, parent in enumerate(cable.parent):
        ends = cable.xyz[[child, max(parent, 0)]]
        left.plot(ends[:, 0], ends[:, 1], color="white", lw=0.8, ls="-")
    left.set(xlim=(-150, 150), ylim=(-150, 150), xlabel="x [µm]", ylabel="y [µm]")
    for k, radius in enumerate(radii):
        right.plot(t, potential[:, k - len(radii)], label=f"{radius:g} µm")
    right.set(xlim=(0.5, 8), xlabel="time [ms]", ylabel="potential [µV]")
    right.legend(title="from the soma")
    figure.savefig("extracellular.png")
