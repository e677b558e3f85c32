"""Tridiagonal systems of many sizes in one call, beside NumPy's dense solver for each."""

import numpy as np

import clhines

rng = np.random.default_rng(2)
sizes = rng.integers(1, 200, 120)
n = sizes.sum()
between = n - len(sizes)  # off-diagonal entries: within the systems only
lower, upper = rng.uniform(-1, 1, between), rng.uniform(-1, 1, between)
d, b = rng.uniform(2.5, 4.0, n), rng.uniform(-1, 1, n)
x = clhines.solve_tridiagonal(lower, d, upper, b, sizes=sizes)

worst = {}
start, off = 0, 0
for size in sizes:
    of, within = slice(start, start + size), slice(off, off + size - 1)
    dense = np.diag(d[of]) + np.diag(lower[within], -1) + np.diag(upper[within], 1)
    error = np.abs(x[of] - np.linalg.solve(dense, b[of])).max()
    rows = int(size) // 50 * 50
    worst[rows] = max(worst.get(rows, 0.0), error)
    start, off = start + size, off + size - 1

print(f"{len(sizes)} systems of 1 to {sizes.max()} rows, {n} in all")
print("rows          largest difference to numpy.linalg.solve")
for rows in sorted(worst):
    print(f"{rows:>3} to {rows + 49:<6} {worst[rows]:.1e}")
