"""Blocks of NMODL that change their inputs: BREAKPOINT runs twice a step, as in NEURON."""

import numpy as np
import pytest

from clhines import Mechanism, Network, Simulation

# NEURON executes BREAKPOINT at v + 0.001 mV and at v, at the start and in each step; then SOLVE
TEXT = """
NEURON {{ {kind} twice  {currents}  RANGE n, count }}
PARAMETER {{ g = 1e-5 }}
ASSIGNED {{ v i ina count }}
STATE {{ n }}
INITIAL {{ n = 0.3  count = 0 }}
BREAKPOINT {{
    SOLVE rates METHOD cnexp
    {body}
    count = count + 1
    {values}
}}
DERIVATIVE rates {{ n' = (0.6 - n)/2 }}
"""
LEAK, SODIUM = "i = g*n*(v + 65)", "ina = g*n*(v - 50)"
CURRENTS = {  # kind, currents, and their values
    "density": ("SUFFIX", "NONSPECIFIC_CURRENT i", LEAK),
    "point": ("POINT_PROCESS", "NONSPECIFIC_CURRENT i", LEAK),
    "ion": ("SUFFIX", "USEION na WRITE ina", SODIUM),
    "two": ("SUFFIX", "NONSPECIFIC_CURRENT i\nUSEION na WRITE ina", f"{LEAK}\n{SODIUM}"),
    "none": ("SUFFIX", "", ""),
}
BODIES = {"n = n*.999": lambda n: n * 0.999, "if (n > .45) { n = .45 }": lambda n: min(n, 0.45)}


@pytest.mark.parametrize("engine", ["reference", "steps", "epochs-cpu", "epochs-gpu"])
@pytest.mark.parametrize("body", BODIES)
def test_breakpoint_changes_a_state_twice_a_step(double_queue, engine, body):
    net = Network.from_arrays([-1, 0], [0, 2], [300.0] * 2, [0.0, 0.1], [0.005] * 2)
    net.insert("pas")
    groups = {}
    for name, (kind, currents, values) in CURRENTS.items():
        text = TEXT.format(kind=kind, currents=currents, body=body, values=values)
        made = Mechanism.from_nmodl(text.replace("twice", f"twice_{name}"))
        groups[name] = (net.add if kind == "POINT_PROCESS" else net.insert)(made, at=[0, 1])
    dt, steps = 0.025, 40
    sim = Simulation(net, dt, engine=engine, queue=double_queue)
    records = {
        name: (sim.record("n", group), sim.record("count", group)) for name, group in groups.items()
    }
    result = sim.run(steps * dt)
    for name, (of_n, of_count) in records.items():
        n, expected = 0.3, []
        if name != "none":  # at NEURON's start
            n = BODIES[body](BODIES[body](n))
        for _ in range(steps):
            if name != "none":
                n = BODIES[body](BODIES[body](n))
            n = 0.6 + (n - 0.6) * np.exp(-dt / 2)
            if name == "none":  # NEURON executes the block once, after SOLVE
                n = BODIES[body](n)
            expected.append(n)
        # about ten operations per step
        got = result[of_n][1:]
        assert np.abs(got - np.array(expected)[:, None]).max() < 10 * steps * np.finfo(float).eps
        first, turns = (0, 1) if name == "none" else (2, 2)
        assert (result[of_count][1:].T == first + turns * np.arange(1, steps + 1)).all()
