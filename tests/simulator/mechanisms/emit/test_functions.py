"""Generated OpenCL against its NumPy twins.

OpenCL and NumPy do the same operations in the same order. They differ by the roundings of functions
(OpenCL allows 3 to 5 ulp, eight times as much for an eighth power of an exponential) and by fused
multiplications: `CLOSE` times eps times the largest term; measured 4.
"""

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from mechanism_texts import REALS, WORDS
from solvers import skip_too_wide

from clhines.simulator.mechanisms import mechanism
from clhines.simulator.mechanisms.builtin import BUILT_IN
from clhines.simulator.mechanisms.emit.functions import Functions
from clhines.simulator.mechanisms.emit.words import safe
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.solver.device import program

pytestmark = pytest.mark.core

CLOSE = 32
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
"""


def kernel_source(m, real, number):
    """Return a kernel that calls every function of a mechanism, one instance per work-item."""
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
    """Return a kernel that calls the functions for groups, one group per work-item."""
    printed, events = Functions(m.compiled, real, width, single), ["receive"] * m.takes_events
    blocks = ["current", "advance"][: 1 + bool(m.states)] + events * printed.takes_events
    functions, names = printed.lifted(blocks, events)
    constants = [safe(c) for c in names]
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


@pytest.mark.parametrize(
    ("dtype", "width"), [("float64", 8), ("float64", 4), ("float32", 4), ("float64", 1)]
)
def test_functions_for_groups_do_what_the_numpy_twins_do(queue, needs, dtype, width):
    """Compare with NumPy twins; every other parameter is one number for all instances."""
    needs(queue, dtype)
    skip_too_wide(queue, width, dtype)
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
    if queue.device.platform.name.startswith("Portable"):  # stderr has the number
        assert "warning" not in built.get_build_info(queue.device, cl.program_build_info.LOG)
    for k, m in enumerate(mechanisms):
        values = inputs(m, number)
        if m.name == "everything":
            values[0][4:6] = -100, 100
        for row, name in enumerate(m.parameters):
            if name in every_other[m.name]:
                values[1][row] = values[1][row, 0]
        count = len(m.states)  # initial states, after a step, after an event; current and slope
        check(
            queue, cl.Kernel(built, f"k{k}"), m, values, width, [*range(count, 2 * count), -2, -1]
        )


def check(queue, kernel, m, values, width, rows=slice(None)):
    """Compare a kernel's results with some rows of the NumPy twins'."""
    v, dtype = values[0], values[0].dtype
    t, dt, n = dtype.type(1.5), dtype.type(0.025), np.int32(len(v) // width)
    wide = [a.astype(np.float64) for a in values]
    params = dict(zip(m.parameters, wide[1], strict=True))
    states = dict(zip(m.states, wide[2], strict=True))
    expected = twin_results(m, wide[0], float(t), float(dt), params, states, wide[3])
    size = condition(m, wide, float(t), float(dt), params, states, expected)
    expected, size = expected[rows], size[rows]
    assert np.isfinite(expected).all(), m.name
    arrays = [np.ascontiguousarray(a if a.size else np.zeros(1, dtype)) for a in values]
    device = [cla.to_device(queue, a) for a in arrays]
    out = cla.zeros(queue, expected.shape, dtype)
    kernel(queue, (int(n),), None, n, t, dt, *(a.data for a in device), out.data)
    error, eps = np.abs(out.get() - expected) / size, np.finfo(dtype).eps
    worst = error.max(axis=1)
    assert worst.max() <= CLOSE * eps, (
        f"{m.name}: {worst.max() / eps:.1f} eps in row {worst.argmax()}"
    )


def twin_results(m, v, t, dt, params, states, noise):
    """Return the kernel's results in the same order, computed by the NumPy twins."""
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
    for k, m in enumerate(mechanisms):
        values = inputs(m, dtype)
        if m.name in ("everything", "exp2syn"):
            values[0][4:6] = -100, 100  # cosh; and the weight must not be 0 / 0
        check(queue, cl.Kernel(built, f"k{k}"), m, values, 1)


@pytest.mark.parametrize("text", [*BUILT_IN, EVERYTHING], ids=lambda t: t.split()[-1])
def test_the_conductance_is_the_slope_of_the_current(text):
    m = mechanism(text)
    v, p, s, noise = inputs(m, np.float64)
    v = np.linspace(-99, 59, len(v))  # off the points at which a choice changes
    given = dict(zip(m.parameters, p)), dict(zip(m.states, s)), noise, 0.025
    (_, slope), (low, _), (high, _) = (m.current(v + h, 1.5, *given) for h in (0, -1e-5, 1e-5))
    np.testing.assert_allclose(slope, (high - low) / 2e-5, rtol=1e-6, atol=1e-7)


def condition(m, wide, t, dt, params, states, expected):
    """Return the scale of errors: each result's size, and its change by roundings of inputs."""
    v, _, _, noise = wide
    size = np.abs(expected)
    if m.states:  # a step adds to the state, even if little remains of it
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
