"""float32 and float64 on a batch of long chains: error and memory of each."""

import numpy as np

import clhines

forest = clhines.Forest.repeat([np.arange(-1, 999)], 64)
rng = np.random.default_rng(4)
n = forest.num_nodes
u = -rng.uniform(0.5, 1.0, n)
d = 2.0 + rng.uniform(0.001, 0.01, n)  # barely dominant
x = rng.uniform(-1.0, 1.0, n)
b = clhines.reference.multiply(forest, d, u, x)

print(f"{'dtype':<9} {'largest error':>14} {'memory':>28}")
for dtype in ("float32", "float64"):
    solver = clhines.Solver(forest, "fine", dtype)
    error = np.abs(solver.solve(d, u, b) - x).max()
    print(f"{dtype:<9} {error:>14.1e} {solver.memory!s:>28}")
print("barely dominant matrices lose a digit or two of the 7 of float32 and of the 16 of float64")
