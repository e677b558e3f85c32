"""Mechanisms as texts against NEURON's compiled .mod files: kinetics, order, units."""

from dataclasses import dataclass

import numpy as np

import clhines
from bench.measures.checks.common import (
    EPS,
    Outcome,
    compartment,
    load_mechanisms,
    neuron,
    neuron_cell,
    relative,
    simulate,
    start,
)
from clhines.core.errors import InputError

DT, V_INIT, DURATION = 0.025, -65.0, 50.0
PULSES = ((2.0, 8.0, 0.3), (15.0, 5.0, -0.2), (25.0, 15.0, 0.15))  # ms, ms, nA
# Steps add roundings of some eps, and the membrane's decay keeps them from adding up. NEURON takes
# slopes of currents over 0.001 mV; for these currents, linear in v, they are exact except for
# cancellation of 1e-11. Newton's iteration in NEURON's derivimplicit ends at changes of 1e-6.
BOUND, NEWTON_BOUND = 1e-9, 1e-6
# Occupancies add up to one except for the roundings of a single step: NEURON solves for the change
# of a step, which vanishes, with its roundings, as states settle.
SUM_BOUND = 64  # eps of the dtype


@dataclass(frozen=True)
class Case:
    """A text, the .mod file's name, its states, and settings."""

    name: str
    text: str
    states: tuple[str, ...]
    bound: float = BOUND
    occupancies: bool = False


TWO = """
    density chktwo
    parameter g = 0.0002 S/cm2
    parameter e = -20 mV
    parameter kf = 500 /ms
    parameter kb = 500 /ms
    state A = 1
    state B = 0
    dA/dt = kb*B - kf*A
    dB/dt = kf*A - kb*B
    current i = g*A*(v - e) [mA/cm2]
    method sparse
"""
EIGHT = """
    density chkeight
    parameter g = 0.02 S/cm2
    parameter e = 50 mV
    parameter k = 3 /ms
    parameter r = 0.4 /ms
    a = k*exp((v + 30)/20)
    b = k*exp(-(v + 30)/20)
    c = r*exp((v + 50)/60)
    d = r*exp(-(v + 50)/15)
    state C1 = 0.6
    state C2 = 0.1
    state C3 = 0
    state O = 0
    state I1 = 0.2
    state I2 = 0.1
    state I3 = 0
    state I4 = 0
    dC1/dt = b*C2 - 3*a*C1 + d*I1 - c*C1
    dC2/dt = 3*a*C1 - b*C2 + 2*b*C3 - 2*a*C2 + d*I2 - c*C2
    dC3/dt = 2*a*C2 - 2*b*C3 + 3*b*O - a*C3 + d*I3 - c*C3
    dO/dt = a*C3 - 3*b*O + d*I4 - c*O
    dI1/dt = b*I2 - 3*a*I1 + c*C1 - d*I1
    dI2/dt = 3*a*I1 - b*I2 + 2*b*I3 - 2*a*I2 + c*C2 - d*I2
    dI3/dt = 2*a*I2 - 2*b*I3 + 3*b*I4 - a*I3 + c*C3 - d*I3
    dI4/dt = a*I3 - 3*b*I4 + c*O - d*I4
    current i = g*O*(v - e) [mA/cm2]
    method sparse
"""
BUFFER = """
    density chkbuffer
    parameter g = 0.002 S/cm2
    parameter e = -90 mV
    parameter kon = 500 /mM/ms
    parameter koff = 0.5 /ms
    parameter bt = 0.05 mM
    parameter rest = 0.0001 mM
    parameter tau = 5 ms
    parameter influx = 0.01 mM/ms
    state ca = rest [mM]
    state cb = 0.002 [mM]
    dca/dt = influx/(1 + exp(-(v + 40)/5)) - (ca - rest)/tau - kon*ca*(bt - cb) + koff*cb
    dcb/dt = kon*ca*(bt - cb) - koff*cb
    current i = g*ca/(ca + 0.001)*(v - e) [mA/cm2]
    method derivimplicit
"""
CASCADE = """
    density chkcascade
    parameter g = 0.002 S/cm2
    parameter e = -90 mV
    parameter tau = 1 ms
    state p = 0
    state q = 0
    state s = 0
    dp/dt = (1/(1 + exp(-(v + 40)/5)) - p)/tau
    dq/dt = (p - q)/tau
    ds/dt = (q - s)/tau
    current i = g*s*(v - e) [mA/cm2]
"""
POOL = """
    density chkpool
    parameter g = 0.0005 S/cm2
    parameter e = 120 mV
    parameter k = 0.2 mM cm2/mA/ms
    parameter tau = 4 ms
    parameter rest = 0.0001 mM
    parameter gk = 0.002 S/cm2
    parameter ek = -90 mV
    state m = 1/(1 + exp(-(v + 20)/9))
    state ca = rest [mM]
    dm/dt = (1/(1 + exp(-(v + 20)/9)) - m)/0.5
    dca/dt = -k*i - (ca - rest)/tau
    current i = g*m*(v - e) [mA/cm2]
    current j = gk*ca/(ca + 0.002)*(v - ek) [mA/cm2]
"""
SHUNT = """
    point chkshunt
    parameter g = 0 uS
    parameter e = -20 mV
    parameter k = 0.1 /ms
    state n = 0
    dn/dt = k*(1 - n)
    current i = g*n*(v - e) [nA]
"""
CASES = {
    "two states at 500 /ms, sparse": Case("chktwo", TWO, ("A", "B"), occupancies=True),
    "eight states, sparse": Case(
        "chkeight", EIGHT, ("C1", "C2", "C3", "O", "I1", "I2", "I3", "I4"), occupancies=True
    ),
    "calcium and buffer, derivimplicit": Case("chkbuffer", BUFFER, ("ca", "cb"), NEWTON_BOUND),
    "cascade of 1 ms, in order": Case("chkcascade", CASCADE, ("p", "q", "s")),
    "pool with a current in its rate": Case("chkpool", POOL, ("m", "ca")),
}


# --------------------------------------------------------------------------------- in NEURON


def in_neuron(insert, read):
    """Return voltage and states, (steps + 1, 1 + states), of a compartment with current pulses."""
    h = neuron()
    cell = neuron_cell(compartment())
    (soma,) = cell.sections
    soma.insert("pas")
    soma(0.5).pas.g, soma(0.5).pas.e = 1e-4, V_INIT
    mechanism = insert(soma)
    clamps = [h.IClamp(soma(0.5)) for _ in PULSES]
    for clamp, (delay, dur, amp) in zip(clamps, PULSES):
        clamp.delay, clamp.dur, clamp.amp = delay, dur, amp
    start(DT, V_INIT)
    rows = []
    for step in range(round(DURATION / DT) + 1):
        if step:
            h.fadvance()
        rows.append([soma(0.5).v, *read(mechanism)])
    return np.array(rows)


def density(name, states):
    def insert(soma):
        soma.insert(name)
        return getattr(soma(0.5), name)

    return in_neuron(insert, lambda mechanism: [getattr(mechanism, s) for s in states])


# ------------------------------------------------------------------------------------- here


def here(text, states, settings, engine, dtype="float64"):
    """Run a text in the same compartment; as `in_neuron`."""
    net = clhines.Network(compartment())
    net.insert("pas", [0], g=1e-4, e=V_INIT)
    mechanism = clhines.Mechanism(text)
    add = net.insert if mechanism.kind == "density" else net.add
    group = add(mechanism, [0])
    for delay, dur, amp in PULSES:
        net.add("iclamp", 0, delay=delay, dur=dur, amp=amp)
    record = [("v", [0]), *((s, group) for s in states)]
    result = simulate(net, settings, engine, DURATION, record, dt=DT, v_init=V_INIT, dtype=dtype)
    return np.hstack(result.values)


def compare(found, label, ours, theirs, case):
    """Count one case: check every column's bound, and that occupancies add up to one."""
    gaps = [relative(a, b, b[0]) for a, b in zip(ours.T, theirs.T)]
    found.largest("relative v", gaps[0])
    found.largest("relative state", max(gaps[1:], default=0.0))
    wrong = [f"{max(gaps):.2g} of the deflection" if not max(gaps) <= case.bound else ""]
    if case.occupancies:
        off = float(np.abs(ours[:, 1:].sum(axis=1) - 1).max())
        found.largest("sum - 1", off)
        found.largest("sum - 1 in NEURON", float(np.abs(theirs[:, 1:].sum(axis=1) - 1).max()))
        wrong.append(f"sum off by {off:.2g}" if not off <= SUM_BOUND * EPS else "")
    text = ", ".join(w for w in wrong if w)
    found.case(text and f"{label}: {text}")


def kinetics(settings):
    load_mechanisms()
    return [*(kinetic(title, settings) for title in CASES), refusals()]


def kinetic(title, settings):
    outcome, case = Outcome("kinetics", title), CASES[title]
    theirs = density(case.name, case.states)
    for engine in settings.engines:
        try:
            ours = here(case.text, case.states, settings, engine)
        except InputError as error:
            outcome.case(f"{engine}: {error}")
            continue
        compare(outcome, engine, ours, theirs, case)
        if case.occupancies and engine != "reference":
            single_sum(outcome, engine, case, settings)
    return outcome


def single_sum(found, engine, case, settings):
    """Count a float32 case: its occupancies must add up to one, too."""
    states = here(case.text, case.states, settings, engine, "float32")[:, 1:]
    off = float(np.abs(states.astype(np.float64).sum(axis=1) - 1).max())
    found.largest("sum - 1 in float32", off)
    bound = SUM_BOUND * float(np.finfo(np.float32).eps)
    found.case("" if off <= bound else f"{engine}, float32: sum off by {off:.2g}")


def refusals():
    """Texts with constructs that have no right result: all must be refused."""
    outcome = Outcome("kinetics", "refused: coupled states without a method, methods nothing takes")
    sparse, implicit = "method sparse", "method derivimplicit"
    texts = {
        "two coupled states without a method": (TWO, sparse, ""),
        "eight coupled states without a method": (EIGHT, sparse, ""),
        "a buffer without a method": (BUFFER, implicit, ""),
        "states that are not linear with sparse": (BUFFER, implicit, sparse),
        "a method that no state takes": (CASCADE, "cascade\n", "cascade\n    method rk4\n"),
    }
    for label, (text, old, new) in texts.items():
        outcome.case(unless_refused(label, text, old, new))
    return outcome


def unless_refused(label, text, old, new):
    """Return an error unless a text is accepted, and refused with `new` in place of `old`."""
    if old not in text:
        raise ValueError(f"{label}: there is no {old!r} in the text")
    try:
        clhines.Mechanism(text)
    except InputError as error:
        return f"{label}: the right one is refused, {error}"
    try:
        clhines.Mechanism(text.replace(old, new))
    except InputError:
        return ""
    return f"{label}: accepted"


# ------------------------------------------------------------------------------------- units

LEAK = """
    density chkleak
    parameter g = {g}
    parameter e = {e}
    current i = g*(v - e) [mA/cm2]
"""
LEAKS = [  # each is 3e-4 S/cm2 and -70 mV
    ("3e-4 S/cm2", "-70 mV"),
    ("0.3 mS/cm2", "-0.07 V"),
    ("300 uS/cm2", "-70000 uV"),
    ("3 S/m2", "-70 mV"),
    ("3 pS/um2", "-70 millivolt"),
    ("3e-4 mho/cm2", "-70 mV"),
    ("0.3 mmho/cm^2", "-70 mV"),
    ("3e-9 nS/nm2", "-70 mV"),
    ("0.3 mA/cm2/V", "-70 mV"),
]
SHUNTS = [  # each is 0.004 uS, -20 mV and 0.1 /ms
    ("0.004 uS", "-20 mV", "0.1 /ms"),
    ("4 nS", "-0.02 V", "0.1 1/ms"),
    ("4000 pS", "-20 mV", "100 Hz"),
    ("4e-9 S", "-20 mV", "0.1 kHz"),
    ("0.004 umho", "-20 mV", "100 /s"),
    ("4 pA/mV", "-20 mV", "0.1 ms-1"),
    ("4e-6 millisiemens", "-20 mV", "1e-4 /us"),
]
POOLS = [  # influx 0.2 mM cm2/mA/ms and a rest of 1e-4 mM
    ("0.2 mM cm2/mA/ms", "0.0001 mM", "4 ms"),
    ("0.2 M cm2/A/ms", "100 nM", "0.004 s"),
    ("200 uM cm2/mA/ms", "0.1 uM", "4000 us"),
    ("2e-5 M m2/A/ms", "1e-7 molar", "4 ms"),
    ("0.2 mM cm2/uA/s", "1e-4 mol/m3", "4 ms"),
]
RIGHT = LEAK.format(g="3e-4 S/cm2", e="-70 mV")
WRONG_UNITS = {
    "a unit of no dimension of NEURON's": (RIGHT, "S/cm2", "S/cm3"),
    "an unknown unit": (RIGHT, "-70 mV", "-70 mv"),
    "degC with a prefix": (RIGHT, "-70 mV", "-70 mdegC"),
    "a current in S/cm2": (RIGHT, "[mA/cm2]", "[S/cm2]"),
    "the current of a point in a density": (RIGHT, "[mA/cm2]", "[nA]"),
    "a rate in the state's own unit": (POOL, "(ca - rest)/tau", "(ca - rest)/tau [mM]"),
}


def units(settings):
    """Compare the same numbers in different units with NEURON's units."""
    load_mechanisms()
    engine = settings.engines[0]
    leaks = Outcome("units", f"conductance densities and voltages, against pas, {engine}")

    def insert(soma):
        soma(0.5).pas.g, soma(0.5).pas.e = 4e-4, (1e-4 * V_INIT + 3e-4 * -70) / 4e-4

    theirs = in_neuron(insert, lambda _: [])
    for g, e in LEAKS:
        unit_case(leaks, f"{g}, {e}", LEAK.format(g=g, e=e), (), settings, theirs)

    points = Outcome("units", f"point conductances and rates, against a POINT_PROCESS, {engine}")

    def place(soma):
        process = neuron().chkshunt(soma(0.5))
        process.g = 0.004
        return process

    theirs = in_neuron(place, lambda process: [process.n])
    for g, e, k in SHUNTS:
        text = SHUNT.replace("0 uS", g).replace("-20 mV", e).replace("0.1 /ms", k)
        unit_case(points, f"{g}, {e}, {k}", text, ("n",), settings, theirs)

    pools = Outcome("units", f"concentrations and times, against a pool, {engine}")
    theirs = density("chkpool", ("m", "ca"))
    for k, rest, tau in POOLS:
        text = POOL.replace("0.2 mM cm2/mA/ms", k).replace("0.0001 mM", rest)
        text = text.replace("tau = 4 ms", f"tau = {tau}")
        unit_case(pools, f"{k}, {rest}, {tau}", text, ("m", "ca"), settings, theirs)

    wrong = Outcome("units", "refused: other dimensions, unknown units")
    for label, (text, old, new) in WRONG_UNITS.items():
        wrong.case(unless_refused(label, text, old, new))
    return [leaks, points, pools, wrong]


def unit_case(found, label, text, states, settings, theirs):
    try:
        ours = here(text, states, settings, settings.engines[0])
    except InputError as error:
        found.case(f"{label}: {error}")
        return
    compare(found, label, ours, theirs, Case("", text, states))
