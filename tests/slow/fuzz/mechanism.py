"""Mechanisms for the fuzz: an accepted text gives the numbers of the language's description."""

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

import mpmath as mp
import numpy as np

import clhines
from bench.measures.fuzz import language
from bench.measures.fuzz.common import WrongError, check_refusal, pick, shortened
from bench.measures.fuzz.language import UnclearError, UnreadError, Value
from bench.measures.fuzz.texts import hostile, sensible
from clhines.core.errors import ClhinesError, InputError, SimulationError
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.solver.device import devices

MESSAGE = 500  # letters: a line of the text and a list of names are in it
EPS = float(np.finfo(float).eps)
SLACK = 1e6  # rounding errors of another order of operations, in units of the written order's
IMPLICIT = 1e-8  # remainder of Newton's method, relative to the added terms
POINTS = 4
TINY_STEP = 1e-7  # ms: so short that a state's change over it is its rate
DEVICE_SHARE = 0.08
MARGIN = 1e-8  # share of the largest number, for areas and units
# acceptable reasons to refuse a sensible text
REASONS = re.compile(
    r"too (large|small|deep|long|many|big)|0/0|not a finite|no real value|not linear|linear in"
    r"|power|used nowhere|dimension|unit|coupled|implicit|sparse|nothing|no state|method|depend"
    r"|is a |beyond single precision"
)
_CABLE = None
_QUEUE = None


@dataclass(frozen=True)
class Case:
    """A text, whether it is lawful, and the values at which it is evaluated."""

    text: str
    lawful: bool
    points: int
    dtype: str = ""  # type of a run on a device, or none


def generate(rng):
    lawful = rng.random() < 0.6
    text = sensible(rng) if lawful else hostile(rng)
    dtype = pick(rng, ["float64", "float32"]) if rng.random() < DEVICE_SHARE else ""
    return Case(text, lawful, int(rng.integers(1 << 30)), dtype)


def prepare(folder):
    global _CABLE, _QUEUE
    Path("ball.swc").write_text("1 1 0 0 0 10 -1\n")
    _CABLE = clhines.discretise(clhines.read_swc("ball.swc"), max_length=50.0)
    _QUEUE = devices.make_queue(devices.choose())
    _run(clhines.Mechanism("density m\ncurrent i = 0.001*(v + 70)\n"), "float64", "epochs", -65.0)
    m = clhines.Mechanism("point m\nstate s = 0\nds/dt = -s/2\ncurrent i = s*v\n")
    m.advance(-60.0, 0.0, 0.1, {}, m.initial(-60.0))


def check(case):
    try:
        text = language.read(case.text)
    except UnreadError:
        text = None
    try:
        m = Mechanism(case.text)
        m.functions("double")
        if case.points % 4 == 0:  # each takes as long
            m.functions("float"), m.describe(), m.functions("float", width=4)
    except ClhinesError as error:
        message = check_refusal(error, most=MESSAGE)
        if case.lawful and not REASONS.search(message):
            raise WrongError(f"lawful text refused: {shortened(message)}") from None
        return "refused"
    if text is not None:
        _check_rules(text)
        rng = np.random.default_rng(case.points)
        for _ in range(POINTS):
            with contextlib.suppress(RecursionError):  # raised by this evaluation
                _check_point(m, text, rng)
    if case.dtype:
        _check_device(m, case.dtype)
    return "accepted"


def _check_rules(text):
    why = language.must_refuse(text)
    if why:
        raise WrongError(f"accepted: {why}")
    used = text.names()
    odd = [name for name in text.named if language.near_keyword(name) and name not in used]
    if odd:
        raise WrongError(f"accepted: a misspelt keyword as a name: '{odd[0]}'")


# ------------------------------------------------------------------------------------ numbers


def _check_point(m, text, rng):
    v = float(pick(rng, [-65.0, -40.0, 0.0, *rng.uniform(-90, 50, 6)]))
    values = {
        name: value if rng.random() < 0.5 else round(float(rng.uniform(0.1, 3)), 3)
        for name, value in m.defaults.items()
    }
    for name, value in text.parameters.items():
        factor = language.UNITS.get(text.units[name])
        if factor is not None and abs(value) < 1e200:
            _compare(f"default of a parameter in '{text.units[name]}'", m.defaults[name],
                     language.exact(value * mp.mpf(factor)))  # fmt: skip
    t = round(float(rng.uniform(0, 10)), 3)
    states = {name: round(float(rng.uniform(0.05, 0.95)), 3) for name in text.states}
    known = {**values, "v": v}
    fired = _fires(text, known)
    if fired is None:  # at the threshold
        return
    _initial(m, text, known, values, fired)
    known |= {**states, "t": t}
    # rates that take a current need the voltage before the step; no spike holds the voltage
    hidden = {name: 0.0 if name == "since__spike" else v for name in m.states if name not in states}
    states |= hidden
    if not m.uses_noise and "dt" not in text.names():
        i, g = m.current(v, t, values, states, dt=0.1)
        with contextlib.suppress(UnclearError):
            _current(text, known, float(i), float(g))
    if fired:
        _reset(m, text, known, values, states)
    elif m.states:
        _rates(m, text, known, values, states)
        _step(m, text, known, values, states)
    if m.takes_events:
        weight = round(float(rng.uniform(-1, 2)), 3)
        _event(m, text, {**values, **states, "weight": weight}, values, states)


def _fires(text, known):
    """Return whether v is above the threshold of a text; None if that is unclear."""
    if text.threshold is None:
        return False
    try:
        above = known["v"] - float(language.evaluate(text, text.threshold, known).v)
    except (UnclearError, UnreadError):
        return None
    return above > 0 if abs(above) > 1e-9 else None


SIGNS = {
    "": lambda x, a: a,
    "+": lambda x, a: x + a,
    "-": lambda x, a: x - a,
    "*": lambda x, a: x * a,
    "/": lambda x, a: x / a,
}


def _reset(m, text, known, given, states):
    """Compare states after a very short step with a spike."""
    new = m.advance(known["v"], known["t"], TINY_STEP, given, states)
    if float(new["since__spike"]) != 1:
        raise WrongError(f"a spike counts {float(new['since__spike'])!r}; expected 1")
    for name in set(text.resets) - {"v"}:
        try:
            rates = [language.evaluate(text, rate, known) for rate in text.rates.values()]
            sign, tree = text.resets[name]
            action = language.evaluate(text, tree, known)
            expected = float(SIGNS[sign](mp.mpf(states[name]), action.v))
        except (UnclearError, UnreadError, ZeroDivisionError):
            continue
        if any(abs(rate.v) > 1e3 for rate in rates):
            continue
        if not abs(float(new[name]) - expected) <= 1e-2 * (1 + abs(expected)):
            raise WrongError(f"a reset: got {float(new[name])!r}, expected {expected!r}")


def _compare(what, got, expected, slack=SLACK):
    tolerance = slack * EPS * float(expected.e) + 1e-300
    if expected.limit and not np.isfinite(got):  # said aloud by whatever uses it
        return
    if not abs(got - float(expected.v)) <= tolerance:
        raise WrongError(
            f"{what}: got {got!r}, expected {float(expected.v)!r} within {tolerance:.2g}"
        )


def _initial(m, text, known, given, fired):
    start = m.initial(known["v"], given)
    for name in text.states:
        if fired and name in text.resets:  # a start above the threshold is a spike
            continue
        try:
            expected = language.evaluate(text, text.states[name], known)
        except (UnclearError, UnreadError):
            continue
        _compare("initial value", float(start[name]), expected)


def _current(text, known, i, g):
    """Compare the sum of the currents, and its slope by a difference in many digits."""

    def total(v):
        values = [language.evaluate(text, c, {**known, "v": v}) for c in text.currents.values()]
        limit = any(x.limit for x in values)
        return Value(sum(x.v for x in values), sum(x.e for x in values), limit)

    try:
        expected = total(known["v"])
        with mp.workdps(language.DIGITS):
            h = mp.mpf(10) ** -20  # unequal sides, which show a kink as in v*abs(v)
            low, high = total(known["v"] - h), total(known["v"] + h / 2)
            slopes = (expected.v - low.v) / h, (high.v - expected.v) / (h / 2)
    except UnreadError:
        return
    _compare("current", i, expected)
    size = max(abs(s) for s in slopes)
    if abs(slopes[0] - slopes[1]) < 1e-10 * size:  # no kink here
        reach = float(size + expected.e) + 1e-30
        slope = float(slopes[0] if text.threshold is None else max(slopes[0], 0))
        if not abs(g - slope) <= 1e-6 * reach:
            raise WrongError(f"slope of the current: got {g!r}, expected {slope!r}")


def _rates(m, text, known, given, states):
    """Compare the rates: the changes in a very short step, by any method.

    A rate may use the states above it at the end of the step, which may be fast.
    """
    new = m.advance(known["v"], known["t"], TINY_STEP, given, states)
    ends = {name: float(new[name]) for name in text.states}
    for name in text.states:
        if name not in text.rates:
            if float(new[name]) != states[name]:
                raise WrongError(f"a state without a rate changed: {name}")
            continue
        try:
            rate = language.evaluate(text, text.rates[name], known)
            late = {**known, **ends, name: known[name]}
            moved = language.evaluate(text, text.rates[name], late)
        except (UnclearError, UnreadError):
            continue
        change = (float(new[name]) - states[name]) / TINY_STEP
        rounding = 4 * EPS * abs(states[name]) / TINY_STEP + SLACK * EPS * float(rate.e)
        stiff = 1e-3 * max(1.0, abs(float(rate.v)))  # bound for values that change during the step
        stiff += 2 * abs(float(moved.v - rate.v))
        if abs(float(rate.v)) < 1e3 and not abs(change - float(rate.v)) <= rounding + stiff:
            raise WrongError(f"rate: got {change!r}, expected {float(rate.v)!r}")


def _step(m, text, known, given, states):
    """Compare a step of 0.1 ms if the description leaves no choice of method.

    States that are linear in themselves use exponential Euler, one after another as written.
    Coupled states with an implicit method use implicit Euler. A current in a rate is the previous
    one.
    """
    needs = set().union(*(text.needs(rate) for rate in text.rates.values()))
    if needs & {"t", "dt"} or not text.rates:
        return
    try:
        before = {c: language.evaluate(text, text.currents[c], known) for c in needs
                  if c in text.currents}  # fmt: skip
    except (UnclearError, UnreadError):
        return
    if any(x.limit or x.e > 1e3 * abs(x.v) for x in before.values()):
        return  # below its rounding is kept as if it were exact
    known = {**known, **{name: x.v for name, x in before.items()}}
    dt, values = mp.mpf("0.1"), dict(known)
    new = m.advance(known["v"], known["t"], float(dt), given, states)
    if text.method in ("sparse", "derivimplicit") and text.circles() == set(text.rates):
        _implicit(text, known, {s: float(new[s]) for s in text.rates}, dt)
    if text.method:
        return
    try:
        with mp.workdps(language.DIGITS):
            for name, tree in text.rates.items():
                x = mp.mpf(values[name])
                at = [language.evaluate(text, tree, {**values, name: k}) for k in (0, 1, 2)]
                a, b = at[0].v, at[1].v - at[0].v
                if abs(at[2].v - 2 * at[1].v + at[0].v) > 1e-30 * abs(at[2].v):
                    return  # not linear
                if b and abs(b) < 1e-30 * abs(a):
                    return  # the number of its correct digits is unclear
                grown = mp.expm1(b * dt) / b if b else dt
                values[name] = x + grown * (a + b * x)
                size = sum((k.e for k in at), abs(x)) * (1 + abs(grown))
                _compare("step of a state", float(new[name]), Value(values[name], size))
    except (UnclearError, UnreadError):
        return


def _implicit(text, known, new, dt):
    """Check that a step of coupled states solves the equations of implicit Euler."""
    for name, tree in text.rates.items():
        try:
            rate = language.evaluate(text, tree, {**known, **new})
        except (UnclearError, UnreadError):
            continue
        left = float(mp.mpf(new[name]) - mp.mpf(known[name]) - dt * rate.v)
        size = abs(new[name]) + abs(known[name]) + float(dt * rate.e)
        if not abs(left) <= IMPLICIT * size:
            raise WrongError(f"an implicit step leaves {left:.3g} of {size:.3g}")


def _event(m, text, known, given, states):
    after = m.event(known["weight"], given, states)
    for name in text.states:
        if name not in text.events:
            continue
        sign, tree = text.events[name]
        try:
            action = language.evaluate(text, tree, known)
            old = mp.mpf(states[name])
            if sign == "/" and action.v == 0:
                if np.isfinite(float(after[name])):
                    raise WrongError(f"an event divides by 0: got {float(after[name])!r}")
                continue
            value = Value(SIGNS[sign](old, action.v), abs(old) + action.e * (1 + abs(old)))
        except (UnclearError, UnreadError):
            continue
        _compare("state after an event", float(after[name]), value)


# ------------------------------------------------------------------------------------ device


def _run(m, dtype, engine, v):
    net = clhines.Network(_CABLE)
    net.insert("pas", at="all")
    group = net.insert(m, at="all") if m.kind == "density" else net.add(m, at=net.soma)
    if m.takes_events:
        net.add_event(group, time=0.05, weight=0.01)
    where = {} if engine == "reference" else {"queue": _QUEUE, "dtype": dtype}
    sim = clhines.Simulation(net, dt=0.025, engine=engine, v_init=v, **where)
    sim.record("v", [0])
    for name in m.states:
        if "__" not in name:
            sim.record(name, group)
    with np.errstate(all="ignore"):
        return np.concatenate(sim.run(0.125).values, axis=1)


def _fits(m, dtype):
    """Return whether a precision can represent the current and its slope at the start."""
    with np.errstate(all="ignore"):
        values = m.current(-65.0, 0.0, None, m.initial(-65.0), noise=0.0, dt=0.025)
    return not np.abs(values).max() > float(np.finfo(dtype).max) * MARGIN


def _check_device(m, dtype):
    """Compare a run on the device with NumPy, within the effect of a small change of the start."""
    if not _fits(m, dtype):
        return
    eps = float(np.finfo(dtype).eps)
    try:
        expected = _run(m, dtype, "reference", -65.0)
        beside = _run(m, dtype, "reference", -65.0 * (1 + 64 * eps))
    except SimulationError:
        return
    except InputError as error:  # the text alone cannot show it: units, and thresholds in v
        if "resets v to its threshold" not in check_refusal(error, most=MESSAGE):
            raise
        return
    if not np.isfinite(expected).all() or np.abs(expected).max() > 1e4:
        return
    try:
        got = _run(m, dtype, "epochs", -65.0)
    except SimulationError as error:
        raise WrongError(f"the device fails where NumPy does not: {error}") from error
    size = np.maximum(np.abs(expected).max(axis=0), 1.0)
    # slopes like 1 - tanh(v)^2 lose more in float32 than a small change of the start shows
    tolerance = (1e5 if dtype == "float32" else 1e4) * eps * size + 100 * np.abs(
        beside - expected
    ).max(axis=0)
    worst = np.abs(got - expected).max(axis=0)
    if not (worst <= tolerance).all():
        k = int(np.argmax(worst / tolerance))
        raise WrongError(
            f"device and NumPy differ in {dtype}: by {worst[k]:.3g} of {size[k]:.3g} in column {k}"
        )
