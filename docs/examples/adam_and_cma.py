"""Nine conductances of a pyramidal cell fitted to a trace: Adam beside CMA-ES, on one budget."""

import matplotlib.pyplot as plt
import numpy as np
from deap import base, cma, creator

import clhines

duration, dt, budget = 25.0, 0.05, 400  # ms, ms, simulations
cell = clhines.Network(clhines.discretise(clhines.sample_cells()[0], max_length=1e4))
cell.celsius = 34.0
cell.ion("na", e=50.0)
cell.ion("k", e=-85.0)
densities = {  # Hay et al. 2011; S/cm²
    "na_hay": 1.5,
    "nap_hay": 0.002,
    "kv3_hay": 0.5,
    "k_persistent_hay": 0.01,
    "k_transient_hay": 0.05,
    "km_hay": 2e-4,
    "ca_l": 8e-4,
    "ca_t": 3e-3,
    "sk": 0.04,
}
for name, density in densities.items():
    cell.insert(name, at="soma", gbar=density)
cell.insert("ca_pool", at="soma")
cell.insert("pas", g=5e-5, e=-80.0)
protocols = {
    f"{amp} nA": {"stop": duration, "stimuli": [{"amp": amp, "delay": 2.0, "dur": 18.0}]}
    for amp in (0.4, 1.2)
}
parameters = {name: (name, "gbar") for name in densities}
population = clhines.Population(cell, parameters, protocols, dt=dt, v_init=-80.0)
truth = np.array(list(densities.values()))
rng = np.random.default_rng(3)
guess = truth * np.exp(rng.uniform(-0.5, 0.5, len(truth)))
target = population.evaluate(truth[None]).v


def loss(v):
    """Mean square error of each set, mV², and its derivatives by the voltages."""
    error = v - target
    return (error**2).mean((1, 2)), 2 * error / error[0].size


log, mean, square, adam = np.zeros(len(truth)), 0.0, 0.0, []
for turn in range(1, budget // 4 + 1):  # a gradient takes as long as some four simulations
    values, slopes = population.gradient((guess * np.exp(log))[None], loss)
    slope = slopes[0] * guess * np.exp(log)  # by logarithms
    mean, square = 0.9 * mean + 0.1 * slope, 0.99 * square + 0.01 * slope**2
    step = mean / (1 - 0.9**turn) / (np.sqrt(square / (1 - 0.99**turn)) + 1e-12)
    log -= 0.03 * step
    adam.append(values[0])

creator.create("Error", base.Fitness, weights=(-1.0,))
creator.create("Individual", list, fitness=creator.Error)
np.random.seed(1)  # noqa: NPY002 - the generator of DEAP
strategy, evolution = cma.Strategy(np.zeros(len(truth)), sigma=0.2, lambda_=20), []
for _ in range(budget // 20):
    generation = strategy.generate(creator.Individual)
    values = loss(population.evaluate(guess * np.exp(generation)).v)[0]
    for one, error in zip(generation, values):
        one.fitness.values = (error,)
    strategy.update(generation)
    evolution.append(values.min())
best = np.minimum.accumulate(adam), np.minimum.accumulate(evolution)
print(f"mean square error at first {adam[0]:.3g} mV²; after {budget} simulations:")
print(f"{best[0][-1]:.3g} mV² by Adam, {best[1][-1]:.3g} mV² by CMA-ES")
print("conductances of Adam over the true ones:", np.round(guess * np.exp(log) / truth, 2))

figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
axes[0].semilogy(4 * np.arange(1, len(adam) + 1), best[0], label="Adam")
axes[0].semilogy(20 * np.arange(1, len(evolution) + 1), best[1], label="CMA-ES")
axes[0].set(xlabel="simulations (a gradient counts four)", ylabel="mean square error (mV²)")
axes[0].legend()
fitted = population.evaluate(np.stack([guess, guess * np.exp(log)])).v
for v, label in ((fitted[0], "guess"), (fitted[1], "Adam"), (target[0], "target")):
    axes[1].plot(dt * np.arange(v.shape[1]), v[1], "--" if label == "target" else "-", label=label)
axes[1].set(xlabel="t (ms)", ylabel="v (mV)")
axes[1].legend()
figure.savefig("adam_and_cma.png", dpi=150)
