"""Posterior of two conductances given features of one recording, by sbi."""

import numpy as np
import torch
from sbi.inference import NPE, simulate_for_sbi
from sbi.utils import BoxUniform

import clhines
from clhines import draw

cell = clhines.Network(clhines.discretise(clhines.sample_cells()[0], max_length=1e4))
cell.insert("hh")
cell.threshold = -20.0
begin, end = 5.0, 35.0  # ms
step = {"stop": 40.0, "stimuli": [{"amp": 1.5, "delay": begin, "dur": end - begin}]}
parameters = {"gnabar": ("hh", "gnabar"), "gkbar": ("hh", "gkbar")}
names = ["spike_count", "peak_voltage", "minimum_voltage", "time_to_first_spike"]
population = clhines.Population(cell, parameters, {"step": step}, dt=0.05, features=names)


def simulator(theta):
    """Simulate a batch of sets: (N, parameters) to (N, features), 0 without spikes."""
    found = dict(population.evaluate(theta.numpy().astype(float)).features)
    peaks = found["peak_voltage"]
    found["peak_voltage"] = peaks.reduced(np.add, 0.0) / np.maximum(peaks.counts, 1)
    columns = [np.nan_to_num(found[name].reshape(-1), nan=0.0) for name in names]
    return torch.from_numpy(np.stack(columns, axis=1)).to(theta.dtype)


torch.set_num_threads(1)  # the network is small
torch.manual_seed(1)
low, high = torch.tensor([0.05, 0.02]), torch.tensor([0.25, 0.06])  # S/cm²
prior = BoxUniform(low, high)
theta, x = simulate_for_sbi(
    simulator, prior, 400, simulation_batch_size=200, seed=1, show_progress_bar=False
)
inference = NPE(prior, density_estimator="mdn", show_progress_bars=False)
density = inference.append_simulations(theta, x).train(
    max_num_epochs=60, training_batch_size=50, learning_rate=2e-3
)
truth = torch.tensor([[0.12, 0.036]])
posterior = inference.build_posterior(density)
samples = posterior.sample((1000,), x=simulator(truth), show_progress_bars=False).numpy()

lower, median, upper = np.quantile(samples, [0.025, 0.5, 0.975], axis=0)
print("95 % of the posterior", lower, "to", upper, "truth", truth.numpy()[0])
assert (lower < truth.numpy()[0]).all() and (truth.numpy()[0] < upper).all()
assert (upper - lower < 0.5 * (high - low).numpy()).all()  # half the prior's width

with draw.style():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.4, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.plot(*samples.T, ".", ms=2, ls="", label="posterior")
    axes.plot(*truth.numpy()[0], "k+", ms=12, ls="", label="truth")
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel="sodium [S/cm²]")
    axes.set(ylabel="potassium [S/cm²]", title="axes: the prior")
    axes.legend()
    figure.savefig("posterior_sbi.png")
