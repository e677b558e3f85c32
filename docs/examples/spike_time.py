"""How much each parameter of a cortical soma moves its first spike, by one gradient."""

import matplotlib.pyplot as plt
import numpy as np

import clhines

net = clhines.Network.from_arrays([-1], [0, 1], area=[1200.0], g_axial=[0.0], capacitance=[0.012])
net.celsius = 34.0
net.ion("na", e=50.0)
net.ion("k", e=-85.0)
channels = {
    "na_hay": 0.5,
    "nap_hay": 0.002,
    "kv3_hay": 0.2,
    "k_persistent_hay": 0.003,
    "km_hay": 1e-4,
}
groups = [net.insert(name, gbar=gbar) for name, gbar in channels.items()]  # Hay et al. 2011; S/cm²
leak = net.insert("pas", g=1e-4, e=-75.0)
clamp = net.add("iclamp", net.soma, delay=2.0, dur=50.0, amp=0.1)
sim = clhines.Simulation(net, dt=0.025, v_init=-75.0)
sim.record("v", net.soma)


def first_spike(v, level=-20.0):
    """Time of the first crossing, ms, between two steps, and its derivatives by the voltages."""
    k = int(np.argmax(v[:, 0] > level)) - 1  # the last row below
    rise = v[k + 1, 0] - v[k, 0]
    share = (level - v[k, 0]) / rise
    by_v = np.zeros_like(v)
    by_v[k], by_v[k + 1] = -(1 - share) * sim.model.dt / rise, -share * sim.model.dt / rise
    return (k + share) * sim.model.dt, by_v


of = [(g, "gbar") for g in groups] + [(leak, "g"), (leak, "e"), (clamp, "amp"), "cm"]
names = [*channels, "pas.g", "pas.e", "current", "cm"]
values = [*channels.values(), 1e-4, -75.0, 0.1, 1.0]
gradient = sim.gradient(40.0, first_spike, of)
moved = [float(np.sum(gradient[one])) * value / 100 for one, value in zip(of, values)]
print(f"the first spike is at {gradient.value:.3f} ms; for one per cent more of")
for name, ms in zip(names, moved):
    print(f"  {name:<18} it moves by {1000 * ms:+9.3f} µs")
again = sim.gradient(40.0, first_spike, of[-2:]).value
sim.set(clamp, amp=0.1 * 1.0001)
sim.reset()
assert abs((sim.gradient(40.0, first_spike, of[-2:]).value - again) / 0.01 / moved[-2] - 1) < 0.01

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
order = np.argsort(np.abs(moved))
axes.barh([names[k] for k in order], [1000 * moved[k] for k in order])
axes.axvline(0, color="black", linewidth=0.8)
axes.set_xlabel("shift of the first spike for 1 % more (µs)")
figure.savefig("spike_time.png", dpi=150)
