"""Every method on one batch of trees: the result is the same, the plan is not."""

import numpy as np

import clhines

cables = [clhines.discretise(cell) for cell in clhines.sample_cells()]
forest = clhines.Forest.repeat([cable.parent for cable in cables], 120)
rng = np.random.default_rng(1)
n = forest.num_nodes
u = -rng.uniform(0.1, 1.0, n)
d = rng.uniform(4.0, 5.0, n) + 4.0
b = rng.uniform(-1.0, 1.0, n)
expected = clhines.reference.solve_serial(forest, d, u, b)

print(f"{forest.num_cells} cells, {n} nodes, height {forest.heights.max()}")
print(f"{'method':<18} {'padding':>8} {'work-groups':>12} {'largest difference':>19}")
for method, row in clhines.METHODS.items():
    if row.chains_only:
        continue
    solver = clhines.Solver(forest, method)
    difference = np.abs(solver.solve(d, u, b) - expected).max()
    padding = solver.plan.packed_size / n - 1
    groups = sum(part.num_groups for part in solver.plan.parts)
    print(f"{method:<18} {padding:>8.1%} {groups:>12} {difference:>19.1e}")
