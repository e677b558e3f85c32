"""Mechanisms whose gradients are compared with differences, each in a cell of its own.

Random expressions of a voltage, a state and parameters, as texts and as .mod files: exponentials
overflow in many of them, and branches not chosen are infinite or NaN.
"""

import central_differences
import numpy as np

from clhines import InputError, Mechanism, Network, Simulation, SimulationError
from clhines.simulator.refusals import id_of

DT, STEPS = 0.025, 20
STEP = 1e-6  # relative difference step
ROUNDING = 5e-14  # mV, of a voltage after some steps

PARAMETERS = {"a": 0.7, "b": 1.3, "p": -62.0, "k": 6.0}
SCALES = ("k", "-k", "(k/600)", "(-k/20)")
FORMS = (
    "1/(1 + exp({u}))",
    "{a}*{u}/(exp({u}) - 1)",
    "(v - p)/(1 - exp(-{u}))",
    "{u}/({a} - exp({u}))",
    "({a} + exp(-{u}^2))/(1 + {b}*exp({u}))",
    "exp(-{u}^2/2)",
    "{a}/(exp({u}/{a}) + exp(-{u}))",
    "1/cosh({u})",
    "tanh({u})*{b}",
    "{b}/({a} + sinh({u})^2)",
    "{abs}(v - p - {a})/k",
    "sqrt((v - p)^2 + {a})/k",
    "log(1 + {a}*(v - p)^2)",
    "1/(1 + (k/({b} + {abs}({u})))^{a})",
    "1/(1 + exp({u})^{b})",
    "1/sqrt({a} + exp({u}))",
    "1/(1 + {a}*exp({u}))^2",
    "1/(1 + exp(exp({u}/k)))",
    "({m} + {a})^{b}",
    "{a}*{m}",
    "{b}*(v - p)/k",
)
BRANCHES = (  # condition, and both sides
    ("v < p", "sqrt(p - v)*{a}", "log(v - p + {b})"),
    ("{abs}({u}) < 1e-6", "1 - {u}/2", "{u}/(exp({u}) - 1)"),
    ("v < -100", "1/(v + 65)/{a}", "{b}*{m}"),
    ("{u} > 600", "{a}", "exp({u})/(1 + exp({u}))*{a}"),
)


def piece(rng, mod, lines, state):
    """A random form, or a choice; a file puts the choice's statements into `lines`."""
    words = {"abs": "fabs" if mod else "abs", "u": f"((v - p)/{rng.choice(SCALES)})"}
    words["m"] = state
    words |= {name: str(rng.choice([name, f"{rng.uniform(0.5, 2):.3g}"])) for name in "ab"}
    if rng.random() < 0.8:
        return f"({rng.choice(FORMS).format(**words)})"
    condition, near, far = (text.format(**words) for text in BRANCHES[rng.integers(len(BRANCHES))])
    if not mod:
        return f"where({condition}, {near}, {far})"
    name = f"x{len(lines)}"
    lines.append(f"IF ({condition}) {{ {name} = {near} }} ELSE {{ {name} = {far} }}")
    return name


def expression(rng, mod, lines, state="b"):
    one, two = (piece(rng, mod, lines, state) for _ in range(2))
    return rng.choice([f"{one} + {two}", f"{one}*{two}", f"{one}/(1 + {two}^2)", one])


def mechanism(seed, mod):
    """A random mechanism; None if a text is refused, as it is 0/0 somewhere."""
    rng = np.random.default_rng([seed, mod])
    if mod:
        return Mechanism.from_nmodl(file(seed, rng))
    try:
        return Mechanism(text(seed, rng))
    except InputError as error:
        assert "0/0" in str(error)
        return None


def text(seed, rng):
    """A text with a state and a current of random expressions."""
    rate, steady = (expression(rng, False, []) for _ in range(2))
    current = expression(rng, False, [], "m")
    values = "\n".join(f"parameter {name} = {value}" for name, value in PARAMETERS.items())
    return (
        f"density random{seed}\n{values}\nstate m = 0.3\nspeed = 0.1 + tanh(({rate})^2)\n"
        f"dm/dt = speed*(tanh({steady}) - m)\ncurrent i = 1e-3*(m + 1)*({current})\n"
    )


def file(seed, rng):
    """The same as a .mod file, whose rates are in a PROCEDURE."""
    lines = []
    rate, steady = (expression(rng, True, lines) for _ in range(2))
    inner = []
    current = expression(rng, True, inner, "m")
    values = " ".join(f"{name} = {value}" for name, value in PARAMETERS.items())

    def locals_of(lines):
        return f"LOCAL {', '.join(f'x{k}' for k in range(len(lines)))}" if lines else ""

    return f"""NEURON {{ SUFFIX random{seed} NONSPECIFIC_CURRENT i RANGE {", ".join(PARAMETERS)} }}
PARAMETER {{ {values} }}
ASSIGNED {{ v i speed steady }}
STATE {{ m }}
INITIAL {{ m = 0.3 }}
BREAKPOINT {{ {locals_of(inner)}
    SOLVE states METHOD cnexp
    {" ".join(inner)}
    i = 1e-3*(m + 1)*({current}) }}
DERIVATIVE states {{ rates(v) m' = speed*(steady - m) }}
PROCEDURE rates(v) {{ {locals_of(lines)}
    {" ".join(lines)}
    speed = 0.1 + tanh(({rate})^2) steady = tanh({steady}) }}
"""


def cells(mechanisms, v_init, **given):
    """A simulation of one-node cells, with a mechanism each, and their groups."""
    n = len(mechanisms)
    net = Network.from_arrays([-1] * n, range(n + 1), [400.0] * n, [0.0] * n, [4e-3] * n)
    groups = [net.insert(one, [k]) for k, one in enumerate(mechanisms)]
    net.insert("pas", range(n), g=3e-4, e=-65.0)
    sim = Simulation(net, DT, v_init=v_init, **given)
    sim.record("v", range(n))
    return sim, groups


def loss(v):
    return float(((v + 50) ** 2).sum()), 2 * (v + 50)


def has_run(one, v_init):
    """Return whether a run is finite; otherwise its gradient is refused."""
    sim, [group] = cells([one], v_init, engine="reference")
    try:
        return np.isfinite(sim.run(DT * STEPS)[0]).all()
    except (InputError, SimulationError):
        sim.reset()
    try:
        sim.gradient(DT * STEPS, loss, ["v_init"])
    except InputError as error:
        assert id_of(error.args[0]) == "gradient.run"
        return False
    raise AssertionError(f"{group.mechanism.name} has a gradient, and no run")


def with_derivatives(sim, groups):
    """Pairs of cell and parameter that have a derivative."""
    results = []
    for cell, group in enumerate(groups):
        for name in (n for n in PARAMETERS if n in group.mechanism.parameters):
            try:
                sim.gradient(DT, lambda v: (0.0, 0 * v), [(group, name)])
            except InputError as error:
                assert id_of(error.args[0]) == "gradient.choice"
                continue
            results.append((cell, name))
    return results


def differences(sim, groups, size):
    """Slopes of each cell's loss by each parameter, (cells,) by name."""

    def values_at(name, step):
        for group in groups:
            if name in group.mechanism.parameters:
                sim.set(group, **{name: PARAMETERS[name] * (1 + step)})
        sim.reset()
        return ((sim.run(DT * STEPS)[0] + 50) ** 2).sum(0)

    slopes = {}
    for name, value in PARAMETERS.items():
        pairs = zip(central_differences.SHARES, central_differences.STEPS, strict=True)
        slopes[name] = sum(c * values_at(name, k * size) for c, k in pairs) / size / value
        values_at(name, 0.0)
    return slopes


def compared(mechanisms, v_init, runs):
    """Compare gradients of `runs`, options of a simulation and a mode, with differences.

    Return the number of compared derivatives; differences of two sizes disagree at a kink.
    """
    sim, groups = cells(mechanisms, v_init, engine="reference")
    pairs = with_derivatives(sim, groups)
    first, second = (differences(sim, groups, size) for size in (2 * STEP, STEP))
    sim.reset()
    noise = 2 * np.abs(sim.run(DT * STEPS)[0] + 50).sum(0) * ROUNDING / STEP
    largest = np.zeros(len(mechanisms))
    for cell, name in pairs:
        largest[cell] = max(largest[cell], abs(second[name][cell] * PARAMETERS[name]))
    allowed = 1e-6 * largest + noise
    count = 0
    for options, mode in runs:
        sim, groups = cells(mechanisms, v_init, **options)
        gradient = sim.gradient(DT * STEPS, loss, [(groups[k], n) for k, n in pairs], mode=mode)
        for cell, name in pairs:
            one, two = (d[name][cell] * abs(PARAMETERS[name]) for d in (first, second))
            if abs(one - two) <= allowed[cell] / 3:
                slope = float(gradient[groups[cell], name].sum()) * abs(PARAMETERS[name])
                assert abs(slope - two) <= allowed[cell], (mechanisms[cell].name, name, slope, two)
                count += 1
    return count
