"""Firing rate over current for three densities of potassium channels, in one batch."""

import numpy as np

import clhines
from clhines import draw

cell = clhines.Network(clhines.discretise(clhines.sample_cells()[0], max_length=1e4))
cell.insert("hh")
cell.threshold = -20.0
currents = np.linspace(0.0, 2.0, 33)  # nA
begin, end = 10.0, 210.0  # ms
protocols = {
    f"{amp:.3f} nA": {"stop": end, "stimuli": [{"amp": amp, "delay": begin, "dur": end - begin}]}
    for amp in currents
}
population = clhines.Population(cell, {"gk": ("hh", "gkbar")}, protocols, dt=0.05)
densities = np.array([0.032, 0.036, 0.040])  # S/cm²
found = population.evaluate(densities[:, None])

n, p, steps = found.v.shape
isi = clhines.analysis.extract(
    found.v.reshape(n * p, steps), found.t, ["all_ISI_values"], stim_start=begin, stim_end=end
)["all_ISI_values"]
rate = 1000.0 / isi.at(-1).reshape(n, p)  # Hz, of the last interval
rate[isi.counts.reshape(n, p) < 6] = 0.0  # a few spikes at the onset only
rheobase = currents[np.argmax(rate > 0, axis=1)]
lowest = np.array([r[r > 0].min() for r in rate])
print("rheobase", rheobase, "nA; lowest rate", lowest.round(1), "Hz")
assert (lowest > 40).all()  # class 2: no slow firing at the rheobase
assert (np.diff(rheobase) > 0).all()  # potassium holds the cell back

with draw.style():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.2))
    axes = figure.subplots()
    for density, row in zip(densities, rate):
        axes.plot(currents, row, ".-", label=f"{density:g} S/cm²")
    axes.set(xlabel="current [nA]", ylabel="rate [Hz]", title="Hodgkin-Huxley cell, class 2")
    axes.legend(title="potassium")
    figure.savefig("fi_curve.png")
