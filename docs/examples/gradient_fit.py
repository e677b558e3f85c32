"""Ra, cm and the leak of a passive cell from a noisy recording, by gradients of all steps."""

import numpy as np
from scipy.optimize import minimize

import clhines

dt, steps, onset = 0.75, 80, 0.1  # ms, steps, nA
cable = clhines.discretise(clhines.sample_cells()[0], max_length=100, Ra=1.0, cm=1.0)
solver = clhines.Solver(clhines.Forest(cable.parent))
places = [cable.soma, int(np.argmax(cable.distance))]  # recorded: the soma and the farthest tip
current = np.zeros(cable.num_nodes)
current[cable.soma] = onset


def simulate(values):
    """Voltages from rest (steps + 1, n), mV, and the matrix, eliminated once."""
    Ra, cm, leak = values
    c = 1e-5 * cm * cable.area / dt  # µS
    factors = solver.factor(c + 1e-2 * leak * cable.area + cable.g_total / Ra, -cable.g_axial / Ra)
    v = np.zeros((steps + 1, cable.num_nodes))
    for k in range(steps):
        v[k + 1] = factors.solve(c * v[k] + current)
    return v, factors, c


def loss(log):
    """Mean square error, mV², and its gradient: the steps backwards, transposed."""
    values = np.exp(log)
    v, factors, c = simulate(values)
    error = v[1:, places] - recorded
    d, u, of_c, g = 0.0, 0.0, 0.0, np.zeros(cable.num_nodes)
    for k in reversed(range(steps)):
        g[places] += 2 * error[k] / error.size
        back = factors.vjp(v[k + 1], g)  # one more solve with the same factors
        d, u, of_c = d + back.d, u + back.u, of_c + back.b * v[k]
        g = c * back.b
    of_Ra = -(d @ cable.g_total - u @ cable.g_axial) / values[0] ** 2
    of_cm = (d + of_c) @ (1e-5 * cable.area / dt)
    of_leak = d @ (1e-2 * cable.area)
    return (error**2).mean(), np.array([of_Ra, of_cm, of_leak]) * values


truth, guess = np.array([150.0, 0.8, 5e-5]), np.array([80.0, 1.2, 1e-4])  # Ω·cm, µF/cm², S/cm²
noise = np.random.default_rng(1).normal(0.0, 0.05, (steps, 2))  # mV
recorded = simulate(truth)[0][1:, places] + noise
found = minimize(loss, np.log(guess), jac=True, method="L-BFGS-B")
fitted = np.exp(found.x)
print(f"after {found.nfev} simulations with their gradients:")
for name, *row in zip(("Ra", "cm", "g_pas"), guess, fitted, truth):
    print(f"{name:<6} guess {row[0]:<8g} found {row[1]:<12.5g} truth {row[2]:g}")
assert np.abs(fitted / truth - 1.0).max() < 0.02
