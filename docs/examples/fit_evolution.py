"""An evolution strategy (DEAP's CMA-ES) finds three conductances again from features."""

import numpy as np
from deap import base, cma, creator

import clhines
from clhines import draw

cell = clhines.Network(clhines.discretise(clhines.sample_cells()[0], max_length=1e4))
cell.insert("hh")
cell.threshold = -20.0
begin, end = 5.0, 35.0  # ms
protocols = {
    name: {"stop": 40.0, "stimuli": [{"amp": amp, "delay": begin, "dur": end - begin}]}
    for name, amp in (("below zero", -0.3), ("spiking", 1.5))  # nA
}
parameters = {name: ("hh", name) for name in ("gnabar", "gkbar", "gl")}
population = clhines.Population(cell, parameters, protocols, dt=0.05)
scale = {"voltage_base": 0.5, "steady_state_voltage_stimend": 1.0, "maximum_voltage": 2.0}  # mV
scale |= {"minimum_voltage": 1.0, "time_to_first_spike": 0.5, "spike_count": 1.0}  # mV, ms


def features(sets):
    """Features of both protocols over their scales, (N, 12)."""
    v = population.evaluate(sets)
    flat = v.v.reshape(-1, v.v.shape[2])
    found = clhines.analysis.extract(flat, v.t, scale, stim_start=begin, stim_end=end)
    return np.stack([found[n] / scale[n] for n in scale], axis=1).reshape(len(sets), -1)


creator.create("Error", base.Fitness, weights=(-1.0,))
creator.create("Individual", list, fitness=creator.Error)
np.random.seed(1)  # noqa: NPY002 - the generator of DEAP
truth, guess = np.array([0.12, 0.036, 3e-4]), np.array([0.2, 0.02, 6e-4])  # S/cm²
target = features(truth[None])[0]
there = ~np.isnan(target)  # without spikes there is no first one
strategy = cma.Strategy([0.0, 0.0, 0.0], sigma=0.3, lambda_=20)  # of logarithms over the guess
best, course = (np.inf, guess), []
for _ in range(30):
    generation = strategy.generate(creator.Individual)
    apart = np.abs(features(guess * np.exp(generation)) - target)[:, there]
    errors = np.nan_to_num(np.minimum(apart, 20.0), nan=20.0).sum(axis=1)
    for one, error in zip(generation, errors):
        one.fitness.values = (error,)
        best = min(best, (error, guess * np.exp(one)), key=lambda pair: pair[0])
    strategy.update(generation)
    course.append(best[1] / truth)
print("found", best[1], "truth", truth)
assert np.abs(course[-1] - 1.0).max() < 0.05

with draw.style():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3))
    axes = figure.subplots()
    axes.plot(course, label=list(parameters))
    axes.set(xlabel="generation", ylabel="best so far over truth")
    axes.legend()
    figure.savefig("fit_evolution.png")
