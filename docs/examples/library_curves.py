"""The library in curves: steady states and time constants of gates, conductances in time."""

import numpy as np
from matplotlib.figure import Figure

from clhines import Network, Simulation, draw, library

CHANNELS = [n for n in dir(library) if getattr(library, n).kind == "density" and n != "ca_pool"]
SYNAPSES = {"ampa": 20.0, "gaba_a": 40.0, "nmda": 200.0, "gaba_b": 800.0, "tsodyks_markram": 300.0}
V, CAI, DT = np.linspace(-120.0, 60.0, 181), np.geomspace(1e-5, 1e-2, 181), 0.01  # mV, mM, ms
MORE = {"cai": 1e-3, "cao": 2.0, "eca": 120.0, "celsius": 34.0}  # mM, mM, mV, degC


def plot_gates(name, ax):
    """Draw each gate's steady state and time constant, from short steps that start at 0 and 1."""
    m, right, x = getattr(library, name), ax.twinx(), CAI if name == "sk" else V
    more = MORE | ({"cai": CAI} if name == "sk" else {})
    given = {a.name: more[a.name] for a in m.calls("advance") if a.name in more}
    starts = ({n: np.full(len(V), s) for n in m.states} for s in (0.0, 1.0))
    low, high = (m.advance(V, 0.0, DT, given, start) for start in starts)
    for k, gate in enumerate(m.states):
        kept = high[gate] - low[gate]
        ax.plot(x, low[gate] / (1 - kept), f"C{k}", label=gate)
        right.plot(x, -DT / np.log(kept), f"C{k}--")
    right.set(yscale="log", ylim=(0.01, 5000))
    ax.set(title=name, ylim=(-0.03, 1.03), xscale="log" if name == "sk" else "linear")
    ax.legend(loc="center left")


def traces():
    """Return times, values and the last time to draw, by the title of a curve."""
    n = len(SYNAPSES) + 2  # cells: one per synapse, one with fluctuations, one with calcium
    net = Network.from_arrays([-1] * n, range(n + 1), [1e3] * n, [0.0] * n, [0.01] * n)
    *held, free, last = net.soma
    [net.insert(*of) for of in (("ca_pool", [last]), ("ca_l", [last]), ("pas",))]
    net.add("vclamp", held, rs=1e-3, dur1=1e9, amp1=-60.0)
    groups = {name: net.add(name, soma) for name, soma in zip(SYNAPSES, held, strict=True)}
    for name, group in groups.items():
        net.add_event(group, 0, np.arange(1.0, 161.0 if "markram" in name else 2.0, 20.0), 1e-3)
    noisy = net.add("ou_conductance", free)
    clamp = net.add("vclamp", last, rs=9, dur1=20, amp1=-70, dur2=20, amp2=-10, dur3=300, amp3=-70)
    sim = Simulation(net, dt=0.1, v_init=-70.0)
    scale = {n: 1e3 / (-60 - g.mechanism.defaults["e"]) for n, g in groups.items()}  # to nS
    rows = {n: (sim.record("i", g), SYNAPSES[n], scale[n]) for n, g in groups.items()}
    more = {"ou_conductance, g_e": noisy, "ou_conductance, g_i": noisy, "vclamp, i": clamp}
    rows |= {name: (sim.record(name.split()[1], group), 100.0, 1.0) for name, group in more.items()}
    rows["ca_pool, cai"], result = (sim.record("cai", [last]), 300.0, 1.0), sim.run(800.0)
    return {n: (result.t, result[k][:, 0] * f, until) for n, (k, until, f) in rows.items()}


if __name__ == "__main__":
    with draw.style():
        figure = Figure(figsize=(15, 14), layout="constrained")
        axes = iter(figure.subplots(6, 5).ravel())
        [plot_gates(name, ax) for name, ax in zip(CHANNELS, axes, strict=False)]
        for (name, (t, values, until)), ax in zip(traces().items(), axes, strict=False):
            ax.plot(t, values)
            ax.set(title=name, xlim=(0, until), xlabel="t [ms]")
        figure.savefig("library_curves.png", dpi=75)
