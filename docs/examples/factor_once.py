"""A diffusing concentration on a tree: one matrix, eliminated once, solved in every step."""

import numpy as np

import clhines
from clhines import draw

cable = clhines.discretise(clhines.sample_cells()[0], max_length=15)
step = cable.system(dt=0.5, g_pas=2e-6, e_pas=0.0)  # backward Euler; a leak to 0
solver = clhines.Solver(clhines.Forest(cable.parent))
factors = solver.factor(step.d, step.u)

v = np.zeros(cable.num_nodes)
tip = int(np.argmax(np.linalg.norm(cable.xyz - cable.xyz[cable.soma], axis=1)))
v[tip] = 100.0
frames, times = [], [0.5, 5.0, 50.0]  # ms
for k in range(1, 101):
    v = factors.solve(step.rhs(v))
    if k * 0.5 in times:
        frames.append(np.log10(v / v.max()))
titles = [f"{t:g} ms" for t in times]
label = "log10 of the share of the largest"
draw.plot_morphology(cable, frames, label, titles, (-4, 0), path="factor_once.png")
