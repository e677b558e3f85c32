"""White noise into a cell: the deviation of its voltage beside the theory, at three time steps."""

import numpy as np

import clhines

# almost without axial resistance the cell is one ball: C dv/dt = -G (v - e) + std * noise
ball = clhines.discretise(clhines.sample_cells()[0], max_length=500, Ra=0.01)
g, std, cells = 1e-3, 0.02, 400  # S/cm², nA*sqrt(ms)
area = ball.area.sum() * 1e-8  # cm²
capacitance, conductance = 1e3 * area, 1e6 * g * area  # nF, with 1 µF/cm²; µS
theory = std / np.sqrt(2.0 * capacitance * conductance)

print(f"{'dt [ms]':>8} {'deviation [mV]':>15} {'theory [mV]':>12}")
for dt in (0.1, 0.05, 0.025):
    net = clhines.Network(ball, num_cells=cells)
    net.insert("pas", g=g, e=-65.0)
    net.add("inoise", at=net.soma, std=std)
    sim = clhines.Simulation(net, dt=dt, seed=5)
    v = sim.record("v", net.soma)
    found = sim.run(10.0)[v][-1].std()
    print(f"{dt:>8} {found:>15.4f} {theory:>12.4f}")
print(f"{cells} cells: the deviation itself varies by {1 / np.sqrt(2 * cells):.1%}")
