"""Heat in a square plate by alternating directions: tridiagonal systems of all rows at once."""

import numpy as np

import clhines
from clhines import draw

n, steps, r = 96, 60, 0.8  # grid, steps, diffusivity * dt / (2 * dx^2)
rng = np.random.default_rng(3)
heat = np.zeros((n, n))
for x, y in rng.integers(10, n - 10, (6, 2)):
    heat[x - 4 : x + 4, y - 4 : y + 4] = 1.0

d = np.full((n, n), 1.0 + 2.0 * r)
d[:, [0, -1]] = 1.0 + r  # no flux through the edges
off = np.full((n, n - 1), -r)


def explicit(a):
    """Half a step of diffusion along the other direction."""
    padded = np.pad(a, ((1, 1), (0, 0)), mode="edge")
    return a + r * (padded[2:] - 2.0 * a + padded[:-2])


frames = {0: heat.copy()}
for step in range(1, steps + 1):
    for _ in range(2):  # rows, then columns
        heat = clhines.solve_tridiagonal(off, d, off, explicit(heat)).T
    if step in (4, 16, 60):
        frames[step] = heat.copy()
assert abs(heat.sum() - frames[0].sum()) < 1e-8 * frames[0].sum()  # heat is conserved

with draw.style():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.6))
    for axes, (step, a) in zip(figure.subplots(1, 4), frames.items()):
        image = axes.imshow(a, vmin=0, vmax=1)
        axes.set(title=f"step {step}", xticks=[], yticks=[])
    figure.colorbar(image, ax=figure.axes, label="temperature")
    figure.savefig("heat_adi.png")
