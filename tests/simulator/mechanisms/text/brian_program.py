"""Spikes and weights of Brian 2 for tests/simulator: ``python brian_program.py FILE``.

The program needs Brian 2; the tests only read the file. `run_regularly` computes the step of this
package (implicit in v, then exact in conductances), because Brian's own methods are explicit.
Thresholds, refractoriness, resets and synapses are Brian's. For `exact` the step is Brian's method
of that name.

The file holds the weights after each step with prescribed spikes. Brian computes traces of spikes
by events. Its `rk4` integrates eligibility, dopamine and the weight that grows by both.
"""

import json
import re
import sys
import textwrap
from functools import partial
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[4] / "docs" / "coming-from" / "brian.md"

N, DT, STEPS = 60, 0.1, 2500  # ms
REFRACTORY, DELAY = 20, 8  # steps
WEIGHTS = {"e": 0.004, "i": 0.03}  # uS
LIF = {"c": 0.2, "g": 0.01, "e": -60.0, "threshold": -50.0, "reset": -60.0}  # nF, uS, mV
SYNAPSES = {"e": (5.0, 0.0), "i": (10.0, -80.0)}  # ms, mV


EXACT = {"e": (5.0, 0.05), "i": (10.0, -0.2)}  # ms, nA


def wiring():
    """Return amplitudes (nA), and sources and targets of excitatory and inhibitory synapses."""
    rng = np.random.default_rng(7)
    amp = rng.uniform(0.05, 0.16, N)
    pairs = {}
    for name, some in (("e", np.arange(48)), ("i", np.arange(48, N))):
        chosen = rng.random((len(some), N)) < 0.1
        source, target = np.nonzero(chosen)
        pairs[name] = some[source], target
    return amp, pairs


def amplitudes():
    """Return different amplitudes (nA) for the neurons without refractory time."""
    rng = np.random.default_rng(8)
    return {"adex": rng.uniform(0.6, 1.2, 8), "izhikevich": rng.uniform(5.0, 20.0, 8)}


# v at the start and threshold; for v: its rate without I/c, minus the rate's slope, and 1/c; for
# w: its time constant and steady value; the reset after a spike
POINTS = {
    "adex": (
        *(-70.6, -40.0, "(0.03*(-70.6 - v) + 0.06*exp((v + 50.4)/2) - w)/0.281"),
        *("(0.03 - 0.03*exp((v + 50.4)/2))/0.281", 1 / 0.281),
        *(144.0, "0.004*(v + 70.6)", "v = -70.6\nw += 0.0805"),
    ),
    "izhikevich": (
        *(-65.0, 30.0, "0.04*v**2 + 5*v + 140 - w", "-0.08*v - 5", 1.0),
        *(50.0, "0.2*v", "v = -65\nw += 8"),
    ),
}


def brian_network():
    import brian2 as b

    b.prefs.codegen.target = "numpy"
    b.defaultclock.dt = DT * b.ms
    amp, pairs = wiring()
    group = b.NeuronGroup(
        N,
        "v : 1\nge : 1\ngi : 1\nI : 1",
        threshold=f"v > {LIF['threshold']}",
        reset=f"v = {LIF['reset']}",
        refractory=(REFRACTORY + 1) * DT * b.ms,  # Brian counts the spike's step
        method="euler",
    )
    group.v, group.I = LIF["e"], amp
    (te, ee), (ti, ei) = SYNAPSES.values()
    c, g, e = LIF["c"] / DT, LIF["g"], LIF["e"]
    new = f"({c}*v + {g}*({e}) + ge*({ee}) + gi*({ei}) + I)/({c} + {g} + ge + gi)"
    group.run_regularly(
        f"v = int(not_refractory)*({new}) + int(not not_refractory)*v\n"
        f"ge = ge*{float(np.exp(-DT / te))!r}\ngi = gi*{float(np.exp(-DT / ti))!r}",
        when="groups",
        order=1,
    )
    parts = [group, *connected(group, pairs, "g", WEIGHTS)]
    spikes = b.SpikeMonitor(group)
    b.Network(*parts, spikes).run(STEPS * DT * b.ms)
    return spikes


def connected(group, pairs, variable, weights):
    """Yield connections by name: each event adds a weight to the variable of that name."""
    import brian2 as b

    for name, (source, target) in pairs.items():
        synapses = b.Synapses(group, group, on_pre=f"{variable}{name} += {weights[name]}")
        synapses.connect(i=source, j=target)
        synapses.delay = DELAY * DT * b.ms
        yield synapses


def brian_exact():
    """Return spikes of linear neurons with decaying currents, and v of some every 10 ms."""
    import brian2 as b

    b.prefs.codegen.target = "numpy"
    b.defaultclock.dt = DT * b.ms
    amp, pairs = wiring()
    c, g, e = (LIF[name] for name in "cge")
    group = b.NeuronGroup(
        N,
        f"""dv/dt = ({g}*({e} - v) + ie + ii + I)/({c}*ms) : 1 (unless refractory)
        die/dt = -ie/({EXACT["e"][0]}*ms) : 1
        dii/dt = -ii/({EXACT["i"][0]}*ms) : 1
        I : 1 (constant)""",
        threshold=f"v > {LIF['threshold']}",
        reset=f"v = {LIF['reset']}",
        refractory=(REFRACTORY + 1) * DT * b.ms,
        method="exact",
    )
    group.v, group.I = LIF["e"], amp
    parts = [group, *connected(group, pairs, "i", {name: own[1] for name, own in EXACT.items()})]
    spikes, v = b.SpikeMonitor(group), b.StateMonitor(group, "v", range(6), dt=10 * b.ms)
    b.Network(*parts, spikes, v).run(STEPS * DT * b.ms)
    return spikes, v.v.T.tolist()


def brian_points(kind):
    """Run neurons without refractory time; v is explicit if its rate rises with v."""
    import brian2 as b

    b.prefs.codegen.target = "numpy"
    b.defaultclock.dt = DT * b.ms
    start, threshold, rate, slope, per, tau, end, reset = POINTS[kind]
    group = b.NeuronGroup(8, "v : 1\nw : 1\nI : 1", threshold=f"v > {threshold}", reset=reset)
    group.v, group.I = start, amplitudes()[kind]
    decay = float(np.exp(-DT / tau))
    group.run_regularly(
        f"v = v + {DT}*({rate} + {per!r}*I)/(1 + {DT}*clip({slope}, 0, inf))\n"
        f"w = {decay!r}*w + {1 - decay!r}*({end})",
        when="groups",
        order=1,
    )
    spikes = b.SpikeMonitor(group)
    b.Network(group, spikes).run(STEPS * DT * b.ms)
    return spikes


CELLS, PLASTIC_STEPS, PLASTIC_DT = 8, 120, 0.5  # ms
REWARDS = {39: 0.5, 79: -0.2}  # rewards after these steps
PAIR = {"a_plus": 0.03, "a_minus": 0.035, "tau_plus": 4.0, "tau_minus": 7.0}
TRIPLET = {"a2_plus": 0.01, "a3_plus": 0.02, "a2_minus": 0.015, "a3_minus": 0.01, "tau_plus": 4.0,
           "tau_x": 20.0, "tau_minus": 7.0, "tau_y": 25.0}  # fmt: skip
DOPAMINE = {**PAIR, "tau_c": 60.0, "tau_d": 40.0, "rate": 0.2, "w_max": 40.0}
RULES = {  # parameters; traces of spikes, and other variables; on_pre; on_post
    "stdp": (
        *(PAIR, {"x": "tau_plus", "y": "tau_minus"}, {}),
        "w = clip(w - a_minus*y, 0, 1)\nx += 1",
        "w = clip(w + a_plus*x, 0, 1)\ny += 1",
    ),
    "triplet": (
        *(TRIPLET, {"r1": "tau_plus", "r2": "tau_x", "o1": "tau_minus", "o2": "tau_y"}, {}),
        "w = clip(w - o1*(a2_minus + a3_minus*r2), 0, 1)\nr1 += 1\nr2 += 1",
        "w = clip(w + r1*(a2_plus + a3_plus*o2), 0, 1)\no1 += 1\no2 += 1",
    ),
    "dopamine": (
        *(DOPAMINE, {"x": "tau_plus", "y": "tau_minus"}, {"c": "tau_c", "d": "tau_d"}),
        *("c -= a_minus*y\nx += 1", "c += a_plus*x\ny += 1"),
    ),
}


def plastic_wiring():
    """Return sources, targets and weights of connections, and spikes as (steps, cells) bool."""
    rng = np.random.default_rng(9)
    source, target = np.nonzero(rng.random((CELLS, CELLS)) < 0.25)
    trains = rng.random((PLASTIC_STEPS, CELLS)) < 0.1
    return source, target, rng.uniform(0.3, 0.7, len(source)), trains


def brian_weights(name):
    """Return (steps, connections) weights at the end of each step."""
    import brian2 as b

    b.prefs.codegen.target = "numpy"
    b.defaultclock.dt = PLASTIC_DT * b.ms
    numbers, spiking, others, on_pre, on_post = RULES[name]
    source, target, weight, trains = plastic_wiring()
    step, cell = np.nonzero(trains)
    cells = b.SpikeGeneratorGroup(CELLS, cell, step * PLASTIC_DT * b.ms)
    lines = [f"d{x}/dt = -{x}/({tau}*ms) : 1 (event-driven)" for x, tau in spiking.items()]
    lines += [f"d{x}/dt = -{x}/({tau}*ms) : 1 (clock-driven)" for x, tau in others.items()]
    lines.append("dw/dt = rate*c*d/ms : 1 (clock-driven)" if others else "w : 1")
    synapses = b.Synapses(
        cells, cells, "\n".join(lines), on_pre=on_pre, on_post=on_post, method="rk4",
        namespace=numbers,
    )  # fmt: skip
    synapses.connect(i=source, j=target)
    synapses.pre.order, synapses.post.order = 0, 1
    synapses.w = weight
    network, rows = b.Network(cells, synapses), []
    for k in range(PLASTIC_STEPS):
        network.run(PLASTIC_DT * b.ms)
        rows.append(np.array(synapses.w[:]))
        if others and k in REWARDS:
            synapses.d = synapses.d[:] + REWARDS[k]
    assert np.array_equal(synapses.i[:], source) and np.array_equal(synapses.j[:], target)
    return np.array(rows)


def block_of_the_page():
    """Return Brian's half of the example on the page for Brian's users."""
    lines = re.search(r", in Brian:\n\n((?:    .*\n|\n)+)", PAGE.read_text("utf-8"))[1]
    return textwrap.dedent(lines).strip() + "\n"


def brian_page():
    import brian2 as b

    b.prefs.codegen.target = "numpy"
    names = {}
    exec(block_of_the_page(), names)
    return names["spikes"]


def in_steps(spikes):
    """Return steps and cells of a monitor's spikes, sorted by both."""
    import brian2 as b

    steps = np.rint(np.array(spikes.t / b.ms) / DT).astype(int)
    order = np.lexsort((spikes.i[:], steps))
    return [steps[order].tolist(), np.array(spikes.i)[order].tolist()]


def in_order(result):
    """Return steps and cells of a result's spikes in the same order; Brian has a step's begin."""
    steps = np.rint(result.spike_time / DT).astype(int) - 1
    order = np.lexsort((result.spike_cell, steps))
    return [steps[order].tolist(), result.spike_cell[order].tolist()]


if __name__ == "__main__":
    import brian2

    runs = {"lif": brian_network, "exact": brian_exact, "page": brian_page}
    runs |= {kind: partial(brian_points, kind) for kind in POINTS}
    found = {"brian2": brian2.__version__}
    for name, run in runs.items():
        spikes = run()
        if name == "exact":
            spikes, found["exact v"] = spikes
        found[name] = in_steps(spikes)
        print(name, len(found[name][0]), "spikes")
    found["block of the page"] = block_of_the_page()
    for name in RULES:
        found[f"weights of {name}"] = brian_weights(name).tolist()
        print(name, found[f"weights of {name}"][-1][:3])
    with open(sys.argv[1], "w") as file:
        json.dump(found, file)
