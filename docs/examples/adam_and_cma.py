"""Nine conductances of a pyramidal cell fitted to two traces: Adam beside CMA-ES, on one budget."""

import matplotlib.pyplot as plt
import numpy as np
from deap import base, cma, creator

import clhines

budget, dt = 400, 0.05  # simulations, ms
cell = clhines.Network(clhines.discretise(clhines.sample_cells()[0], max_length=1e4))
cell.celsius = 34.0
channels = "na_hay nap_hay kv3_hay k_persistent_hay k_transient_hay km_hay ca_l ca_t sk".split()
truth = np.array([1.5, 0.002, 0.5, 0.01, 0.05, 2e-4, 8e-4, 3e-3, 0.04])  # Hay et al. 2011; S/cm²
for name, density in zip(channels, truth):
    cell.insert(name, at="soma", gbar=density)
pool, pas = cell.insert("ca_pool", at="soma"), cell.insert("pas", g=5e-5, e=-80.0)
steps = [{"amp": amp, "delay": 2.0, "dur": 18.0} for amp in (0.4, 1.2)]  # nA, ms, ms
protocols = {name: {"stop": 25.0, "stimuli": [s]} for name, s in zip(("weak", "strong"), steps)}
fitted = {name: (name, "gbar") for name in channels}
population = clhines.Population(cell, fitted, protocols, dt=dt, v_init=-80.0)
guess = truth * np.exp(np.random.default_rng(3).uniform(-0.5, 0.5, 9))
target = population.evaluate(truth[None]).v


def loss(v):
    """Mean square error of each set, mV², and its derivatives."""
    return ((v - target) ** 2).mean((1, 2)), 2 * (v - target) / target[0].size


log, mean, square, adam, evolution = np.zeros(9), 0.0, 0.0, [], []
for turn in range(1, budget // 4 + 1):  # a gradient takes as long as some four simulations
    values, slopes = population.gradient((guess * np.exp(log))[None], loss)
    slope = slopes[0] * guess * np.exp(log)  # by logarithms
    mean, square = 0.9 * mean + 0.1 * slope, 0.99 * square + 0.01 * slope**2
    log -= 0.03 * mean / (1 - 0.9**turn) / (np.sqrt(square / (1 - 0.99**turn)) + 1e-12)
    adam.append(min([*adam[-1:], values[0]]))  # the best so far
creator.create("MeanSquare", base.Fitness, weights=(-1.0,))
creator.create("Densities", list, fitness=creator.MeanSquare)
np.random.seed(1)  # noqa: NPY002 - the generator of DEAP
strategy = cma.Strategy(np.zeros(9), sigma=0.2, lambda_=20)
for _ in range(budget // 20):
    generation = strategy.generate(creator.Densities)
    errors = loss(population.evaluate(guess * np.exp(generation)).v)[0]
    for one, error in zip(generation, errors):
        one.fitness.values = (error,)
    strategy.update(generation)
    evolution.append(min([*evolution[-1:], errors.min()]))
print(f"first {adam[0]:.3g} mV², then {min(adam):.3g} by Adam, {min(evolution):.3g} by CMA-ES")
assert min(adam) < min(evolution) < 1.0
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for errors, each, label in ((adam, 4, "Adam"), (evolution, 20, "CMA-ES")):
    left.semilogy(np.linspace(each, budget, len(errors)), errors, label=label)
left.set(xlabel="simulations (a gradient counts four)", ylabel="mean square error (mV²)")
traces = population.evaluate(np.stack([guess, guess * np.exp(log), truth])).v[:, 1]
right.plot(dt * np.arange(traces.shape[1]), traces.T, label=["guess", "fit by Adam", "target"])
right.set(xlabel="t (ms)", ylabel="v (mV)")
for axes in (left, right):
    axes.legend()
figure.savefig("adam_and_cma.png", dpi=150)
