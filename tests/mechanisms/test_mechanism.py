"""Mechanisms from equations: generated OpenCL, its NumPy twins, NEURON, refusals, noise.

OpenCL and NumPy do the same operations in the same order. Between them are the roundings of
functions (OpenCL allows 3 to 5 ulp, eight times that where one exponential stands for its eighth
power) and fused multiplications: `CLOSE` times eps of the largest term; measured 4.
"""

import pickle
import subprocess
import sys

import mpmath
import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest

from clhines.device import program
from clhines.errors import InputError
from clhines.mechanisms import mechanism
from clhines.mechanisms.builtin import BUILT_IN
from clhines.mechanisms.exponentials import exponentials
from clhines.mechanisms.mechanism import Mechanism
from clhines.mechanisms.noise import normal, normal_source, philox

CLOSE = 32
REALS = {"float64": "double", "float32": "float"}

EVERYTHING = """
    point everything                 # what the built-in ones do not use
    parameter half = 2.5 mV          # a word of OpenCL as a name
    parameter rate = 0.3 1/ms
    state x0 = 0.1 + abs(v)/100 [1]  # a name that generated locals have, too
    state y = exp(-v/400)
    state total = 0
    drive = sqrt(abs(v) + 1)*sin(rate*t)
    dx0/dt = rate*(1 - x0) + x0*y*rate^2*(1 + 3*t)
    dy/dt = -y^3*rate + drive*0.01
    on event: x0 *= 0.5; y -= weight^2; total = total + weight*x0
    current fast = x0^5*y^-2*(v - half) + v^2*tanh(v/50)/100 [nA]
    current slow = where(v < -20 and not t > 3, cosh(v/50), max(v, 2*v)) + noise*cos(v)
    method rk4
    substeps 3
"""


WORDS = "density few\n" + "".join(
    f"parameter {word} = 2\n"
    for word in "lambda half kernel float4 M_PI NAN E I S N x0 e1 np range real in as i g".split()
)
WORDS += "state part = lambda\ndpart/dt = -part/half\ncurrent a = part*in + NAN*M_PI - g*float4*4"


def minimal(body, kind="density"):
    """A mechanism of few lines; the first line of `body` is line 2 of the text."""
    return f"{kind} few\n{body}\n"


# ---------------------------------------------------------------------------- OpenCL and NumPy


def kernel_source(m, real, number):
    """A kernel that calls every function of a mechanism, one instance a work-item."""
    values = "".join(f", p[{k} * n + i]" for k in range(len(m.parameters)))
    lines, results = [], []

    def states(name):
        lines.append(f"    real {', '.join(f'{name}{k}' for k in range(len(m.states)))};")
        if name != "start":
            lines.extend(f"    {name}{k} = s[{k} * n + i];" for k in range(len(m.states)))
        results.extend(f"{name}{k}" for k in range(len(m.states)))
        return "".join(f", &{name}{k}" for k in range(len(m.states)))

    old = "".join(f", s[{k} * n + i]" for k in range(len(m.states)))
    noise = ", noise[i]" if m.uses_noise else ""
    if m.states:
        lines.append(f"    {m.name}_initial(v[i]{values}{states('start')});".replace("real ;", ""))
        call = f"    {m.name}_advance(v[i], t, dt{values}{states('next')});"
        lines.append(call)
    if m.takes_events:
        call = f"    {m.name}_event(noise[i]{values}{states('after')});"
        lines.append(call)
    lines.append("    real current, slope;")
    lines.append(f"    {m.name}_current(v[i], t, dt{values}{old}{noise}, &current, &slope);")
    results += ["current", "slope"]
    lines += [f"    out[{k} * n + i] = {name};" for k, name in enumerate(results)]
    arrays = ", ".join(f"const __global real *{a}" for a in ("v", "p", "s", "noise"))
    return (
        m.functions(real)
        + f"__kernel void k{number}(const int n, const real t, const real dt, {arrays}, "
        + "__global real *out)\n{\n    const int i = get_global_id(0);\n"
        + "\n".join(lines)
        + "\n}\n"
    )


ROUGH = """
    density rough                    # functions of vectors and of single parameters
    parameter a = 1.3
    parameter b = 0.4 1/ms
    state z = 0.5
    dz/dt = -z^2*exp(-a) + b*abs(v/100)^a
    current i = where(a < 2 and v < -20, z, z^1.5)*(v + 10*max(a, z)) [mA/cm2]
    method rk2
"""


def grouped_source(m, real, width, single, number):
    """A kernel that calls the functions for groups, one group a work-item."""
    functions, constants = m.grouped(real, width, single)
    name = m.name if width == 1 else f"{m.name}__v{width}"
    vector = "real" if width == 1 else f"real{width}"
    values = [
        f"p[{k} * n * {width}]" if q in single else f"((const __global {vector} *)p)[{k} * n + i]"
        for k, q in enumerate(m.parameters)
    ]
    lines, rows = [], []
    if constants:
        lines.append(f"    real {', '.join(constants)};")
        given = [v for v, q in zip(values, m.parameters) if q in single]
        pointers = [f"&{c}" for c in constants]
        lines.append(f"    {m.name}_constants({', '.join(['dt', *given, *pointers])});")
    old = [f"s[{k} * n + i]" for k in range(len(m.states))]
    if m.states:
        rows = [f"s{k}" for k in range(len(m.states))]
        lines += [f"    {vector} {row} = {value};" for row, value in zip(rows, old)]
        given = ["v[i]", "t", "dt", *values, *constants, *(f"&{row}" for row in rows)]
        lines.append(f"    {name}_advance({', '.join(given)});")
    noise = ["noise[i]"] if m.uses_noise else []
    given = ["v[i]", "t", "dt", *values, *constants, *old, *noise, "&current", "&slope"]
    lines += [f"    {vector} current, slope;", f"    {name}_current({', '.join(given)});"]
    rows += ["current", "slope"]
    lines += [f"    out[{k} * n + i] = {row};" for k, row in enumerate(rows)]
    arrays = f"const __global {vector} *v, const __global real *p"
    arrays += "".join(f", const __global {vector} *{a}" for a in ("s", "noise"))
    return (
        f"{functions}\n__kernel void k{number}(const int n, const real t, const real dt, {arrays}, "
        f"__global {vector} *out)\n{{\n    const int i = get_global_id(0);\n"
        + "\n".join(lines)
        + "\n}\n"
    )


@pytest.mark.parametrize(("dtype", "width"), [("float64", 8), ("float32", 4), ("float64", 1)])
def test_functions_for_groups_do_what_the_numpy_twins_do(queue, needs, dtype, width):
    """As `test_generated_opencl_does_what_its_numpy_twins_do`; every other parameter is single."""
    needs(queue, dtype)
    real, number = REALS[dtype], np.dtype(dtype).type
    mechanisms = [mechanism(name) for name in BUILT_IN]
    mechanisms += [Mechanism(text) for text in (EVERYTHING, WORDS, ROUGH)]
    every_other = {m.name: m.parameters[::2] for m in mechanisms}
    every_other["hh"] = mechanism("hh").parameters
    source = f"typedef {real} real;\ntypedef {real}{width if width > 1 else ''} real{width};\n\n"
    for k, m in enumerate(mechanisms):
        source += grouped_source(m, real, width, every_other[m.name], k)
    if real == "float":
        assert "double" not in source
    built = program.build(queue.context, None, source=source)
    t, dt = number(1.5), number(0.025)
    for k, m in enumerate(mechanisms):
        v, p, s, noise = inputs(m, number)
        if m.name == "everything":
            v[4:6] = -100, 100
        for row, name in enumerate(m.parameters):
            if name in every_other[m.name]:
                p[row] = p[row, 0]
        rows = len(m.states) + 2
        device = [
            cla.to_device(queue, np.ascontiguousarray(a if a.size else np.zeros(1, dtype)))
            for a in (v, p, s, noise)
        ]
        out = cla.zeros(queue, (rows, len(v)), dtype)
        n = np.int32(len(v) // width)
        cl.Kernel(built, f"k{k}")(
            queue, (int(n),), None, n, t, dt, *(a.data for a in device), out.data
        )
        wide = [a.astype(np.float64) for a in (v, p, s, noise)]
        params = dict(zip(m.parameters, wide[1], strict=True))
        states = dict(zip(m.states, wide[2], strict=True))
        expected = twin_results(m, wide[0], float(t), float(dt), params, states, wide[3])
        size = condition(m, wide, float(t), float(dt), params, states, expected)
        count = len(m.states)  # initial states, after a step, after an event; current and slope
        which = [*range(count, 2 * count), len(expected) - 2, len(expected) - 1]
        error = np.abs(out.get() - expected[which]) / size[which]
        eps = np.finfo(dtype).eps
        assert error.max() <= CLOSE * eps, (
            f"{m.name}: {error.max() / eps:.1f} eps in row {error.max(axis=1).argmax()}"
        )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_exponentials_of_vectors(queue, needs, dtype):
    """To 1.5 and 3 ulp, against more digits; beyond what the format holds, too."""
    needs(queue, dtype)
    real, number, width = REALS[dtype], np.dtype(dtype).type, 4
    texts = exponentials(real, width, "a")
    source = f"typedef {real} real;\ntypedef {real}{width} real{width};\n" + "".join(texts.values())
    for name in ("exp", "expm1"):
        source += f"__kernel void {name}_all(__global const real4 *x, __global real4 *y)\n"
        source += f"{{ y[get_global_id(0)] = a_{name}_(x[get_global_id(0)]); }}\n"
    built = program.build(queue.context, None, source=source)
    info = np.finfo(dtype)
    low, high = (-745.0, 709.7) if real == "double" else (-103.0, 88.7)
    rng = np.random.default_rng(3)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, low - 20, high + 20, info.tiny, 1e-9]
    halves = np.log(2) * (np.arange(-20, 21) + 0.5)  # where k changes
    x = [
        edges,
        halves,
        rng.uniform(low, high, 1500),
        rng.uniform(-2, 2, 1500),
        low + rng.random(80),
    ]
    x.append(rng.choice([-1, 1], 300) * 10.0 ** rng.uniform(-30, 0, 300))
    x = np.concatenate(x).astype(dtype)
    x = x[: len(x) // width * width]
    more = np.longdouble if real == "double" else np.float64
    # Where the device has no subnormal numbers, all of one may be lost.
    config = queue.device.double_fp_config if real == "double" else queue.device.single_fp_config
    lost = 0 if config & cl.device_fp_config.DENORM else info.tiny
    for name, exact, bound in (("exp", np.exp, 1.5), ("expm1", np.expm1, 3.0)):
        y = cla.empty(queue, len(x), dtype)
        cl.Kernel(built, f"{name}_all")(
            queue, (len(x) // width,), None, cla.to_device(queue, x).data, y.data
        )
        with np.errstate(all="ignore"):
            expected = exact(x.astype(more))
            rounded = expected.astype(number)
            got, fine = y.get(), np.isfinite(rounded)
            np.testing.assert_array_equal(got[~fine], rounded[~fine])
            ulp = np.spacing(np.abs(rounded[fine])).astype(more)
            error = np.abs(got[fine].astype(more) - expected[fine])
        worst = int(np.argmax((error - lost) / ulp))
        assert (error <= bound * ulp + lost).all(), f"{name}({x[fine][worst]!r})"


def twin_results(m, v, t, dt, params, states, noise):
    """What the kernel computes, by the twins in the same order."""
    with_noise = {"noise": noise} if m.uses_noise else {}
    result = []
    if m.states:
        result += [m.initial(v, params), m.advance(v, t, dt, params, states)]
    if m.takes_events:
        result.append(m.event(noise, params, states))
    rows = [part[s] for part in result for s in m.states]
    return np.array([*rows, *m.current(v, t, params, states, **with_noise, dt=dt)])


def inputs(m, dtype, n=192):
    rng = np.random.default_rng(1)
    v = rng.uniform(-120, 60, n)
    v[:8] = [-40, -55, -65, 0, -1000, 1000, np.nextafter(dtype(-40), dtype(0)), -40.001]
    spread = rng.uniform(0.9, 1.1, (len(m.parameters), n))
    p = np.array([[x or 1.0] for x in m.defaults.values()]).reshape(-1, 1) * spread
    s = rng.uniform(0.1, 0.9, (len(m.states), n))
    return v.astype(dtype), p.astype(dtype), s.astype(dtype), rng.uniform(-1, 1, n).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_generated_opencl_does_what_its_numpy_twins_do(queue, needs, dtype):
    needs(queue, dtype)
    real = REALS[np.dtype(dtype).name]
    mechanisms = [mechanism(name) for name in BUILT_IN] + [Mechanism(EVERYTHING), Mechanism(WORDS)]
    source = f"typedef {real} real;\n\n" + "\n".join(
        kernel_source(m, real, k) for k, m in enumerate(mechanisms)
    )
    if real == "float":
        assert "double" not in source
    built = program.build(queue.context, None, source=source)
    t, dt = dtype(1.5), dtype(0.025)
    eps = np.finfo(dtype).eps
    for k, m in enumerate(mechanisms):
        v, p, s, noise = inputs(m, dtype)
        if m.name in ("everything", "exp2syn"):
            v[4:6] = -100, 100  # cosh; and the weight must not be 0 / 0
        rows = (3 if m.takes_events else 2 if m.states else 0) * len(m.states) + 2
        if m.states and not m.takes_events:
            rows = 2 * len(m.states) + 2
        device = [
            cla.to_device(queue, np.ascontiguousarray(a if a.size else np.zeros(1, dtype)))
            for a in (v, p, s, noise)
        ]
        out = cla.zeros(queue, (rows, len(v)), dtype)
        cl.Kernel(built, f"k{k}")(
            queue, (len(v),), None, np.int32(len(v)), t, dt, *(a.data for a in device), out.data
        )
        wide = [a.astype(np.float64) for a in (v, p, s, noise)]
        params = dict(zip(m.parameters, wide[1], strict=True))
        states = dict(zip(m.states, wide[2], strict=True))
        expected = twin_results(m, wide[0], float(t), float(dt), params, states, wide[3])
        assert expected.shape == (rows, len(v))
        assert np.isfinite(expected).all(), m.name
        size = condition(m, wide, float(t), float(dt), params, states, expected)
        error = np.abs(out.get() - expected) / size
        assert error.max() <= CLOSE * eps, (
            f"{m.name}: {error.max() / eps:.1f} eps in row {error.max(axis=1).argmax()}"
        )


@pytest.mark.parametrize("text", [*BUILT_IN, EVERYTHING], ids=lambda t: t.split()[-1])
def test_the_conductance_is_the_slope_of_the_current(text):
    m = mechanism(text)
    v, p, s, noise = inputs(m, np.float64)
    v = np.linspace(-99, 59, len(v))  # off the points where a choice changes
    given = dict(zip(m.parameters, p)), dict(zip(m.states, s)), noise, 0.025
    (_, slope), (low, _), (high, _) = (m.current(v + h, 1.5, *given) for h in (0, -1e-5, 1e-5))
    np.testing.assert_allclose(slope, (high - low) / 2e-5, rtol=1e-6, atol=1e-7)


def condition(m, wide, t, dt, params, states, expected):
    """How much a rounding of the inputs changes each result, with its size: the scale of errors."""
    v, _, _, noise = wide
    size = np.abs(expected)
    if m.states:  # a step adds to the state, however little is left of it then
        count = len(m.states)
        size[count : 2 * count] += np.array([states[s] for s in m.states])
    h = 1e-7
    moved = twin_results(m, v * (1 + h), t, dt, params, states, noise)
    size = size + np.abs(moved - expected) / h
    for group, which in ((params, "p"), (states, "s")):
        for name in group:
            changed = {**group, name: group[name] * (1 + h)}
            given = (changed, states) if which == "p" else (params, changed)
            size = size + np.abs(twin_results(m, v, t, dt, *given, noise) - expected) / h
    return size + np.finfo(np.float32).tiny


# ------------------------------------------------------------------------------- singularities

SINGULAR = {  # a rate with a removable singularity, where it is, and what it is for mpmath
    "hh": ("(v + 40)/(1 - exp(-(v + 40)/10))", -40),
    "other sign": ("-0.32*(v + 47)/(exp(-0.25*(v + 47)) - 1) + 4*exp(-v/10)", -47),
    "turned": ("(0.25*v + 4)/(exp(v/16 + 1) - 1)", -16),
    "scaled": ("(v - 20*log(2))/(exp(v/20) - 2)", 20 * np.log(2)),
    "square": ("((v + 40)/(1 - exp(-(v + 40)/10)))^2", -40),
    "hyperbolic": ("(v + 30)/tanh((v + 30)/5)", -30),
    "sine": ("(v + 30)/sinh((v + 30)/25)", -30),
    "reciprocal": ("(1 - exp(-(v + 25)/9))/(v + 25)", -25),
    "current of a field": ("v*(0.1 - 2*exp(-v/25))/(1 - exp(-v/25))", 0),
    "power of ten": ("(v - 40)/(10^(v/20 - 2) - 1)", 40),
    "difference": ("(v + 50)/(exp((v + 50)/40) - exp(-(v + 50)/30))", -50),
}


def distances():
    """How far from the point: exactly on it, next to it, up to where nothing cancels."""
    steps = 10.0 ** np.arange(-18, 2)
    return np.concatenate([[0.0], steps, -steps, np.linspace(-30, 30, 41)])


def exactly(source, v):
    """The value of an expression at v by 200 digits, a limit where it is 0 / 0."""
    names = {f: getattr(mpmath, f) for f in ("exp", "tanh", "sinh", "log")}
    code = compile(source.replace("^", "**").replace("20*log(2)", "20*log(mpf(2))"), "rate", "eval")
    names["mpf"] = mpmath.mpf

    def at(x):
        return eval(code, {}, {**names, "v": x})

    with mpmath.workdps(200):
        try:
            return float(at(mpmath.mpf(v)))
        except ZeroDivisionError:
            tiny = mpmath.mpf(10) ** -60
            return float((at(v + tiny) + at(v - tiny)) / 2)


@pytest.mark.parametrize("name", SINGULAR)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_removable_singularities_are_removed(name, dtype):
    source, point = SINGULAR[name]
    m = Mechanism(minimal(f"current i = {source}"))
    assert "bernoulli" in m.functions("double")
    v = (point + distances()).astype(dtype)
    v = np.concatenate([v, np.nextafter(dtype(point), [dtype(-99), dtype(99)])])
    expected = np.array([exactly(source, float(x)) for x in v])
    got, slope = m.current(v, dtype(0))
    # roundings of v's own size in an exponent, and eightfold where an exponential is shared
    scale = np.abs(expected) * (8 + np.abs(v) / 5) + 1e-3
    assert (np.abs(got - expected) <= 4 * np.finfo(dtype).eps * scale).all()
    h = 1e-4
    middle = v.astype(np.float64)
    both = [np.array([exactly(source, float(x)) for x in middle + s * h]) for s in (-1, 1)]
    size = np.abs(slope) + np.abs(got) / 10 + 1e-3
    bound = 4 * np.finfo(dtype).eps * (8 + np.abs(v)) + 1e-7
    assert (np.abs(slope - (both[1] - both[0]) / (2 * h)) <= bound * size).all()


@pytest.mark.parametrize("rate", ["sin(v + 40)/(v + 40)", "(v - 3)^2/(cosh(v - 3) - 1 + v - 3)"])
def test_what_is_left_of_0_by_0_is_refused(rate):
    with pytest.raises(InputError, match="line 3: 'a' is 0/0 at v = "):
        Mechanism(minimal(f"current i = a*v\na = {rate}"))
    assert Mechanism(minimal(f"current i = where(abs(v) < 0.1, 0, {rate})"))


def test_a_pole_is_left_alone():
    m = Mechanism(minimal("current i = (v + 41)/(1 - exp(-(v + 40)/10))"))
    assert "bernoulli" not in m.source
    assert np.isinf(m.current(np.array([-40.0]), 0.0)[0][0])


def test_singularities_with_parameters():
    rate = "(v - half)/(1 - exp((half - v)/k))"
    m = Mechanism(minimal(f"parameter half = -40 mV\nparameter k = 10 mV\ncurrent i = {rate}"))
    v = np.array([-35.5, np.nextafter(-35.5, 0)])
    got = m.current(v, 0.0, {"half": -35.5, "k": 7.0})[0]
    assert got[0] == 7
    assert got[1] == pytest.approx(7, rel=1e-15)


# -------------------------------------------------------------------------------------- NEURON


@pytest.fixture(scope="module")
def neuron():
    package = pytest.importorskip("neuron", reason="NEURON is not installed: pip install neuron")
    package.h.load_file("stdrun.hoc")
    return package.h


def one_compartment(h):
    section = h.Section(name="soma")
    section.L = section.diam = 20
    section.insert("hh")
    h.usetable_hh = 0
    h.cvode.active(0)
    h.secondorder = 0
    return section


@pytest.mark.neuron
@pytest.mark.parametrize("celsius", [6.3, 20.0])
def test_states_and_current_at_the_start_are_neurons(neuron, celsius):
    section = one_compartment(neuron)
    neuron.celsius, neuron.dt = celsius, 0.025
    m = mechanism("hh")
    for v in (-90.0, -65.0, -55.0, -40.0, -39.99999, 0.0, 40.0):
        neuron.finitialize(v)
        theirs = section(0.5).hh
        states = m.initial(v, {"celsius": celsius})
        for name in m.states:
            assert states[name] == pytest.approx(getattr(theirs, name), rel=1e-12, abs=0)
        current = m.current(v, 0.0, {"celsius": celsius}, states)[0]
        total = section(0.5).ina + section(0.5).ik + theirs.il
        assert current == pytest.approx(total, rel=1e-12, abs=1e-15)


@pytest.mark.neuron
@pytest.mark.parametrize("celsius", [6.3, 20.0])
def test_a_compartment_with_every_mechanism_follows_neuron(neuron, celsius):
    """Clamp, channels and both synapses, step by step over several spikes."""
    h, dt, steps = neuron, 0.025, 1600
    section = one_compartment(h)
    h.celsius, h.dt, h.t = celsius, dt, 0
    clamp, one, two = h.IClamp(section(0.5)), h.ExpSyn(section(0.5)), h.Exp2Syn(section(0.5))
    clamp.delay, clamp.dur, clamp.amp = 3, 7, 0.6
    one.tau, one.e, two.tau1, two.tau2, two.e = 2, 0, 0.5, 4, -80
    events = {"expsyn": [(20.0, 0.03), (28.0, 0.05)], "exp2syn": [(24.0, 0.02)]}
    # the weight of a wire stands for all its events, so each event has a wire of its own
    wires = []
    for name, synapse in (("expsyn", one), ("exp2syn", two)):
        for time, weight in events[name]:
            wire = h.NetCon(None, synapse)
            wire.weight[0] = weight
            wires.append((wire, time))
    handler = h.FInitializeHandler(lambda: [wire.event(time) for wire, time in wires])
    h.finitialize(-65)
    theirs = [section(0.5).v]
    for _ in range(steps):
        h.fadvance()
        theirs.append(section(0.5).v)
    del handler
    ours = integrate(celsius, dt, steps, section(0.5).area(), events)
    assert max(theirs) > 20
    assert sum(a < 0 <= b for a, b in zip(theirs[:-1], theirs[1:])) >= 2
    assert np.abs(ours - theirs).max() <= 1e-9  # mV; measured 6e-11


def integrate(celsius, dt, steps, area, events):
    """One compartment by the twins: implicit Euler in v, then the states."""
    parts = [
        (mechanism("hh"), {"celsius": celsius}, 1.0),
        (mechanism("iclamp"), {"delay": 3.0, "dur": 7.0, "amp": 0.6}, 100 / area),
        (mechanism("expsyn"), {"tau": 2.0}, 100 / area),
        (mechanism("exp2syn"), {"tau1": 0.5, "tau2": 4.0, "e": -80.0}, 100 / area),
    ]
    v, result = np.float64(-65.0), [-65.0]
    states = [m.initial(v, params) for m, params, _ in parts]
    for step in range(steps):
        for k, (m, params, _) in enumerate(parts):
            for time, weight in events.get(m.name, []):
                if round(time / dt) == step:
                    states[k] = m.event(weight, params, states[k])
        total = slope = 0.0
        for (m, params, factor), state in zip(parts, states):
            i, g = m.current(v, (step + 0.5) * dt, params, state)
            total, slope = total + factor * i, slope + factor * g
        v = v - total / (1e-3 / dt + slope)
        states = [m.advance(v, step * dt, dt, p, s) for (m, p, _), s in zip(parts, states)]
        result.append(float(v))
    return np.array(result)


# ------------------------------------------------------------------------------ steps in time


def advanced(text, dt, until=2.0):
    m = Mechanism(text)
    states = m.initial(np.float64(-20.0))
    for k in range(round(until / dt)):
        states = m.advance(np.float64(-20.0), k * dt, dt, None, states)
    return np.array([states[s] for s in m.states])


@pytest.mark.parametrize(
    "method, order", [("method euler", 1), ("method rk2", 2), ("method rk4", 4)]
)
def test_methods_converge_with_their_order(method, order):
    lines = "state y = 0.9\nstate z = 0.2\ndy/dt = -y^2*z*(1 + 0.3*sin(2*t))\ndz/dt = y*z - z^3"
    text = minimal(f"{lines}\ncurrent i = y*z*v\n{method}")
    dt = 0.1 if order == 4 else 0.02
    truth = advanced(text.replace(method, "method rk4\nsubsteps 32"), 0.02)
    errors = [np.abs(advanced(text, dt / 2**k) - truth).max() for k in range(3)]
    ratios = np.array(errors[:-1]) / errors[1:]
    np.testing.assert_allclose(ratios, 2.0**order, rtol=0.15)
    # substeps are steps
    cut = advanced(text + "\nsubsteps 4", dt)
    np.testing.assert_allclose(cut, advanced(text, dt / 4), rtol=1e-12)


def test_exponential_euler_is_exact_where_the_rest_is_constant():
    m = Mechanism(minimal("parameter b = 3 1/ms\nstate x = 0.2\ndx/dt = 0.7 - b*x\ncurrent i = x"))
    for b in (3.0, 1e-3, 1e-12, 1e-300, 0.0, -0.5):
        got = m.advance(0.0, 0.0, 0.5, {"b": b}, {"x": 0.2})["x"]
        with mpmath.workdps(60):
            z = mpmath.mpf(b) * 0.5
            grown = -mpmath.expm1(-z) / b if b else mpmath.mpf(0.5)
            expected = float(mpmath.mpf(0.2) * mpmath.exp(-z) + mpmath.mpf(0.7) * grown)
        assert got == pytest.approx(expected, rel=4e-16)


def test_linear_states_beside_one_that_is_not():
    lines = "state x = 1\nstate y = 1\ndx/dt = y - x\ndy/dt = -y^3"
    m = Mechanism(minimal(f"{lines}\ncurrent i = x*y\nmethod euler"))
    after = m.advance(0.0, 0.0, 0.1, None, {"x": 2.0, "y": 0.5})
    assert after["x"] == pytest.approx(0.5 + 1.5 * np.exp(-0.1))  # with y as it was
    assert after["y"] == pytest.approx(0.5 - 0.1 * 0.125)
    every = Mechanism(minimal(f"{lines}\ncurrent i = x*y\nmethod euler all"))
    after = every.advance(0.0, 0.0, 0.1, None, {"x": 2.0, "y": 0.5})
    assert after["x"] == pytest.approx(2 - 0.15)
    assert "x: exponential Euler" in m.describe()
    assert "x: euler" in every.describe()


def test_actions_of_an_event_use_the_values_before_it():
    lines = "state a = 1\nstate b = 2\nstate c = 4\ncurrent i = a*v\ntwice = 2*weight"
    m = Mechanism(minimal(f"{lines}\non event: a = b; b -= a*twice\non event: c /= 2", "point"))
    states = {"a": np.ones(3), "b": np.full(3, 2.0), "c": np.full(3, 4.0)}
    after = m.event(np.array([0.0, 1.0, 3.0]), None, states)
    assert after["a"].tolist() == [2, 2, 2]
    assert after["b"].tolist() == [2, 0, -4]
    assert after["c"].tolist() == [2, 2, 2]
    assert states["a"].tolist() == [1, 1, 1]


def test_a_double_exponential_synapse_peaks_at_the_weight():
    m = mechanism("exp2syn")
    times = np.linspace(0, 20, 20001)
    for tau1, tau2 in ((0.5, 4.0), (3.0, 3.0), (5.0, 1.0)):
        params = {"tau1": tau1, "tau2": tau2}
        states = m.event(0.02, params, m.initial(0.0, params))
        course = m.advance(0.0, 0.0, times, params, states)
        conductance = m.current(0.0, 0.0, params, course)[1]
        assert conductance.max() == pytest.approx(0.02, rel=1e-5)


def test_a_clamp_is_on_from_its_delay_to_its_end():
    times = np.array([0.99, 1.0, 1.5, 2.99, 3.0])
    i, g = mechanism("iclamp").current(0.0, times, {"delay": 1.0, "dur": 2.0, "amp": 0.5})
    assert i.tolist() == [0, -0.5, -0.5, -0.5, 0]
    assert not g.any()


# ------------------------------------------------------------------------------ what it is


def test_what_a_mechanism_says_of_itself():
    hh, syn = mechanism("hh"), mechanism("expsyn")
    assert hh.name == "hh"
    assert hh.parameters == ("gnabar", "gkbar", "gl", "el", "ena", "ek", "celsius")
    assert hh.defaults["gnabar"] == 0.12
    assert hh.units["gnabar"] == "S/cm2"
    assert hh.states == ("m", "h", "n")
    assert [mechanism(n).kind for n in BUILT_IN] == ["density"] * 2 + ["point"] * 4
    assert [n for n in BUILT_IN if mechanism(n).constant] == ["pas"]
    assert [n for n in BUILT_IN if mechanism(n).takes_events] == ["expsyn", "exp2syn"]
    assert [n for n in BUILT_IN if mechanism(n).uses_noise] == ["inoise"]
    assert [n for n in BUILT_IN if mechanism(n).uses_time] == ["iclamp"]
    assert syn == Mechanism("\n\n" + syn.text) == pickle.loads(pickle.dumps(syn))
    assert len({syn, mechanism(syn), mechanism("expsyn"), hh}) == 2
    assert "parameter tau = 0.1 ms" in syn.describe()
    assert "static void expsyn_event(const real weight, const real tau" in syn.source
    assert syn.functions("float") == mechanism("expsyn").functions("float")


def test_a_choice_is_neither_linear_nor_constant():
    assert not Mechanism(minimal("current i = where(v < 0, 1, 2)")).constant
    assert not Mechanism(minimal("current i = abs(v)")).constant
    assert not Mechanism(minimal("state a = 0\ncurrent i = v", "point")).constant
    assert Mechanism(minimal("parameter a = 2\ncurrent i = where(a < 3, a, 2)*v + a^2")).constant
    lines = "state x = 1\ndx/dt = where(x < 0.5, 1, 2) - x\ncurrent i = x"
    with pytest.raises(InputError, match="line 3: state 'x' is not linear in itself"):
        Mechanism(minimal(lines))


def test_hh_takes_few_exponentials():
    source = mechanism("hh").source
    advance = source[source.index("static void hh_advance") :]
    assert advance.count(" exp(") == 3  # two of the voltage, one of the temperature
    current = source[source.index("static void hh_current") : source.index("hh_advance")]
    assert "exp(" not in current


def test_any_word_may_be_a_name():
    m = Mechanism(WORDS)
    assert m.initial(0.0)["part"] == 2
    assert m.advance(0.0, 0.0, 2.0, None, {"part": 3.0})["part"] == pytest.approx(3 / np.e)
    assert m.current(0.0, 0.0, {"in": 4.0, "g": 0.5}, {"part": 3.0})[0] == 12
    assert "const real half_" in m.source


def test_common_mechanisms_import_nothing_slow():
    code = "import sys; from clhines.mechanisms import BUILT_IN, mechanism as m\n"
    code += "[m(name).source for name in BUILT_IN]; print({'sympy', 'pint'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "set()", done.stderr


# ------------------------------------------------------------------------------ refusals

WRONG = {
    "current i = g*(v - e)": "line 2: unknown symbol 'g'",
    "parameter g = 1 S/cm2\ncurrent i = g*foo(v)": "line 3: unknown function 'foo'; known are exp",
    "parameter g = 1 S/cm3/parsec\ncurrent i = g": "line 2: 'g': unit 'S/cm3/parsec': unknown",
    "current i = v [nA]": "line 2: current 'i' is in 'nA'; expected mA/cm2",
    "parameter g = v\ncurrent i = v": "line 2: parameter 'g' got 'v'; expected a number",
    "state m\ncurrent i = v": "line 2: state 'm' has no initial value",
    "state m =\ncurrent i = v": "line 2: 'm' has nothing on its right side",
    "dm/dt = 1 - v\ncurrent i = v": "line 2: 'm' is no state",
    "state m = 0\ndm/dt = -m\ndm/dt = -m\ncurrent i = m": "line 4: 'dm/dt' is given twice",
    "state m = 0\nm = 2\ncurrent i = m": "line 3: 'm' is defined twice, first in line 2",
    "state m = 0\ndm/dt = -m^2\ncurrent i = m": "line 3: state 'm' is not linear in itself and no",
    "state m = 0\ndm/dt = -m\ncurrent i = m\nmethod heun": "line 5: unknown method 'heun'",
    "state m = n\nstate n = m\ncurrent i = m": "line 2: an initial value cannot depend on 'n'",
    "state m = t\ncurrent i = m": "line 2: an initial value cannot depend on 't'",
    "state m = 0\ndm/dt = noise - m\ncurrent i = m": "line 3: a rate cannot depend on 'noise'",
    "current i = weight": "line 2: a current cannot depend on 'weight'",
    "a = b\nb = 2*a\ncurrent i = a": "line 2: 'a' is defined by itself (a -> b -> a)",
    "parameter g = 1": "few has no current; expected a line 'current i",
    "current i = v\non event: i += weight": "line 3: the event changes 'i', which is no state",
    "state g = 0\ncurrent i = g\non event: g": "line 4: cannot read the action 'g'",
    "state g = 0\ncurrent i = g\non event: g += v": "line 4: the action of an event cannot",
    "state g = 0\ncurrent i = g\non event: g += 1; g += 2": "line 4: the event changes 'g' twice",
    "current i = v +": "line 2: cannot read the expression at 'the end'",
    "current i = 2 v": "line 2: 'i': unit 'v': unknown unit 'v'",
    "state w = 0\ndw/dt = (1 - w\ncurrent i = w*(v)": "line 3: the brackets of 'dw/dt'",
    "current i = (v": "line 2: the brackets of 'i' do not match",
    "current i = v) + (v": "line 2: the brackets of 'i' do not match",
    "state m = 0\ncurrent i = m__": "line 3: unknown symbol 'm__'",
    "current i = v*2 mA/cm2": "line 2: cannot read the expression at 'mA/cm2' (a unit",
    "parameter g = 1e999\ncurrent i = v": "line 2: parameter 'g' got '1e999'; expected a number",
    "current i = True": "line 2: unknown symbol 'True'",
    "current i = 1e999*v": "line 2: a number is too large",
    "current i = v; import os": "line 2: unexpected character ';'",
    "current i = v.real": "line 2: cannot use 'v.real'",
    "current i = exp": "line 2: unknown symbol 'exp'; 'exp' is a function",
    "current i = exp(v, 2)": "line 2: 'exp' got 2 arguments; expected 1",
    "current i = v == 2": "line 2: expected <, <=, > or >=",
    "current i = [x for x in v]": "line 2:",
    "current i = lambda: v": "line 2: unexpected character ':'",
    "current i = __import__": "line 2: unknown symbol '__import__'",
    "current i = v^999999999": "line 2: power 999999999 is too large",
    "current i = 9^9^9^9": "line 2: power",
    "current i = 1/0": "line 2: 'i' is not a finite real number",
    "current i = sqrt(-2)*v": "line 2: 'i' is not a finite real number",
    "parameter v = 2\ncurrent i = v": "line 2: 'v' has a meaning already",
    "parameter exp = 2\ncurrent i = v": "line 2: 'exp' has a meaning already",
    "parameter g_ = 2\ncurrent i = v": "line 2: 'g_': names have",
    "currant i = v": "line 2: cannot read this statement",
    "current i = v\nsubsteps 0": "line 3: substeps got '0'; expected 1 to 1000",
    "current i = v\nsubsteps 2\nsubsteps 3": "line 4: 'substeps' is given twice, first in line 3",
    "parameter µ = 2\ncurrent i = v": "line 2:",
    "current i = " + "(" * 400 + "v" + ")" * 400: "line 2:",
}


@pytest.mark.parametrize("body", WRONG, ids=lambda b: b[:30].replace("\n", " | "))
def test_wrong_texts_are_refused_with_line_and_symbol(body):
    with pytest.raises(InputError) as caught:
        Mechanism(minimal(body))
    assert WRONG[body] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_refusals():
    with pytest.raises(InputError, match="unknown mechanism 'kdr'; built in are pas, hh, expsyn"):
        mechanism("kdr")
    with pytest.raises(InputError, match="line 1: expected 'density NAME' or 'point NAME'"):
        mechanism("current i = v")
    with pytest.raises(InputError, match="a name or a text; got int"):
        mechanism(3)
    with pytest.raises(InputError, match="empty"):
        Mechanism("# nothing\n")
    hh = mechanism("hh")
    with pytest.raises(InputError, match="hh has no parameter 'gna'; it has gnabar"):
        hh.initial(0.0, {"gna": 1})
    with pytest.raises(InputError, match="hh: no value of state 'm'"):
        hh.current(0.0, 0.0)
    with pytest.raises(InputError, match="hh takes no events"):
        hh.event(1.0, None, {})
    with pytest.raises(InputError, match="inoise needs noise"):
        mechanism("inoise").current(0.0, 0.0)
    with pytest.raises(InputError, match="real is 'half'"):
        hh.functions("half")
    with pytest.raises(InputError, match="real is 'half'"):
        normal_source("half")


# --------------------------------------------------------------------------------- noise


def test_philox_gives_the_published_numbers():
    """Known answers of the authors' Random123, kat_vectors."""
    pi = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]
    for counter, key, words in (
        ([0] * 4, [0] * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (*pi, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ):
        assert " ".join(f"{x:08x}" for x in philox(counter, key)) == words


def test_normal_numbers_are_normal_and_independent():
    n = 200_000
    x = normal(5, np.arange(n), 17)
    assert abs(x.mean()) < 4 / np.sqrt(n)
    assert abs(x.var() - 1) < 4 * np.sqrt(2 / n)
    assert abs((x**3).mean()) < 4 * np.sqrt(15 / n)
    assert abs((x**4).mean() - 2.9) < 4 * np.sqrt(96 / n)
    for other in (normal(6, np.arange(n), 17), normal(5, np.arange(n), 18), np.roll(x, 1)):
        assert abs((x * other).mean()) < 4 / np.sqrt(n)
    assert normal(5, 3, 17) == x[3]
    assert normal(2**63, 2**40, 2**33) != normal(2**63, 2**40, 2**34)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_normal_numbers_of_a_device_are_the_same(queue, needs, dtype):
    needs(queue, dtype)
    real = REALS[np.dtype(dtype).name]
    source = (
        f"typedef {real} real;\n{normal_source(real)}"
        + """
        __kernel void draw(const ulong seed, const ulong step, __global real *out)
        {
            out[get_global_id(0)] = normal(seed, (ulong)get_global_id(0) << 30, step);
        }"""
    )
    built = program.build(queue.context, None, source=source)
    out = cla.zeros(queue, 512, dtype)
    seed, step = 2**64 - 3, 2**33 + 5
    kernel = cl.Kernel(built, "draw")
    kernel(queue, (512,), None, np.uint64(seed), np.uint64(step), out.data)
    expected = normal(seed, np.arange(512, dtype=np.uint64) << np.uint64(30), step)
    if dtype == np.float64:
        assert (out.get() == expected).all()
    np.testing.assert_allclose(out.get(), expected, rtol=2 * np.finfo(dtype).eps)
