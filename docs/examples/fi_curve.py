"""An f-I curve: firing rate over current for three densities of sodium channels, in one batch."""

import numpy as np

import clhines
from clhines import draw

cell = clhines.Network(clhines.discretise(clhines.read_swc(clhines.sample_swc()[0])))
cell.insert("hh", at="soma", gkbar=0.1)
cell.insert("pas", at="dendrites", g=1e-4, e=-65.0)
cell.threshold = -20.0
currents = np.linspace(0.0, 2.0, 33)  # nA
begin, end = 10.0, 310.0  # ms
protocols = {
    f"{amp:.3f} nA": {"stop": end, "stimuli": [{"amp": amp, "delay": begin, "dur": end - begin}]}
    for amp in currents
}
population = clhines.Population(cell, {"gna": ("hh", "gnabar")}, protocols, dt=0.05)
densities = np.array([0.3, 0.4, 0.5])  # S/cm²
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
assert (lowest > 30).all()  # class 2: no slow firing at the rheobase
assert (np.diff(rheobase) < 0).all()  # sodium makes the cell more excitable

with draw.style():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.2))
    axes = figure.subplots()
    for density, row in zip(densities, rate):
        axes.plot(currents, row, ".-", label=f"{density:g} S/cm²")
    axes.set(xlabel="current [nA]", ylabel="rate [Hz]", title="f-I curves of a pyramidal cell")
    axes.legend(title="sodium", frameon=False)
    figure.savefig("fi_curve.png")
