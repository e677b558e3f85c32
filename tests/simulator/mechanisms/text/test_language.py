"""Texts of mechanisms: hostile ones, unlucky names, numbers, units; refusals."""

import re

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from mechanism_texts import minimal

from bench.ring import ring_cables
from clhines.core.errors import InputError
from clhines.simulator.mechanisms import mechanism
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.network.network import Network
from clhines.simulator.simulation import Simulation
from clhines.solver.device import program

pytestmark = pytest.mark.core


NAMES = {
    "c0, x0, e0": """
        parameter c0 = 2
        parameter x0 = 3
        parameter e0 = 5
        parameter mul0 = 7
        current i = exp(v/c0)*exp(v/x0)*c0 + exp(-v/(2*c0))*x0*e0*mul0*c0 + x0*e0*mul0
    """,
    "p1": "state p1 = 2\ncurrent i = (v + 1)^5*p1 + p1^7",
    "k1_x": """
        state x = 0.3
        state k1_x = 0.2
        state y2_x = 0.1
        dx/dt = -x^2 + k1_x
        dk1_x/dt = -k1_x^3 + y2_x
        dy2_x/dt = x - y2_x^2
        current i = x + 2*k1_x + 3*y2_x
        method rk4
    """,
    "Newton": """
        state x = 0.3
        state x_now = 0.2
        state b_x = 0.2
        state pass = 0.4
        state open = 0.5
        state h = 0.6
        dx/dt = -x^2 + x_now*i
        dx_now/dt = -x_now^3 + b_x
        db_x/dt = x - b_x^2
        dpass/dt = open - pass
        dopen/dt = h - open
        dh/dt = x - 2*h
        current i = x + 2*x_now + 3*b_x + pass*open
        method derivimplicit
    """,
    "words": """
        parameter dot = 2
        parameter inf = 3
        parameter nan = 4
        parameter step = 5
        parameter any = 6
        parameter linux = 7
        state normal = 0.5
        dnormal/dt = -normal*inf
        current i = dot + inf + nan + step + any + linux + normal
    """,
}


def twin_and_device(queue, m, v, t, dt, states):
    """Return (2 + states, n) results of a float64 kernel, and the twins' (initial states apart)."""
    n = len(m.states)
    defaults = "".join(f", {m.defaults[p]!r}" for p in m.parameters)
    lines = [f"    real s{k} = s[{k} * n + i];" for k in range(n)]
    old = "".join(f", s{k}" for k in range(n))
    lines += ["    real i_, g_;", f"    {m.name}_current(v[i], t, dt{defaults}{old}, &i_, &g_);"]
    if n:
        pointers = "".join(f", &s{k}" for k in range(n))
        lines.append(f"    {m.name}_advance(v[i], t, dt{defaults}{pointers});")
    lines += [
        f"    out[{k} * n + i] = {x};"
        for k, x in enumerate(["i_", "g_", *old[2:].split(", ")])
        if x
    ]
    source = (
        "typedef double real;\n"
        + m.functions("double")
        + "__kernel void both(const int n, const real t, const real dt, __global const real *v,\n"
        + "    __global const real *s, __global real *out)\n{\n"
        + "    const int i = get_global_id(0);\n"
        + "\n".join(lines)
        + "\n}\n"
    )
    built = program.build(queue.context, None, source=source)
    given = np.array([states[s] for s in m.states]) if n else np.zeros((1, len(v)))
    out = cla.zeros(queue, (2 + n, len(v)), np.float64)
    device = [cla.to_device(queue, a) for a in (v, given)]
    numbers = np.int32(len(v)), np.float64(t), np.float64(dt)
    arrays = *(a.data for a in device), out.data
    cl.Kernel(built, "both")(queue, (len(v),), None, *numbers, *arrays)
    after = m.advance(v, t, dt, None, states)
    i, g = m.current(v, t, None, states, dt=dt)
    return out.get(), np.array([i, g, *(after[s] for s in m.states)])


@pytest.mark.parametrize("name", NAMES)
def test_every_legal_name_builds_and_is_right(queue, needs, name):
    """Compare the kernel with its twin, and the twin with the same text under other names."""
    needs(queue, "float64")
    text = minimal("\n".join(line.strip() for line in NAMES[name].splitlines()))
    m = Mechanism(text)
    v = np.linspace(-8, 9, 16)
    states = {s: np.linspace(0.1, 0.9, 16) + 0.01 * k for k, s in enumerate(m.states)}
    got, twin = twin_and_device(queue, m, v, 1.0, 0.05, states)
    np.testing.assert_allclose(got, twin, rtol=1e-13)
    own = {q: f"quantity{k}x" for k, q in enumerate((*m.parameters, *m.states[: len(m.units)]))}
    renamed = text
    for old in sorted(own, key=len, reverse=True):
        if not old.startswith("v__"):
            whole = rf"(?<![A-Za-z0-9_])(d?){old}(?![A-Za-z0-9_(])"
            renamed = re.sub(whole, rf"\g<1>{own[old]}", renamed)
    other = Mechanism(renamed)
    values = dict(zip(other.states, states.values(), strict=True))
    np.testing.assert_allclose(other.current(v, 1.0, None, values)[0], twin[0], rtol=1e-13)
    after = other.advance(v, 1.0, 0.05, None, values)
    for row, s in zip(twin[2:], other.states, strict=True):
        np.testing.assert_allclose(after[s], row, rtol=1e-13)


@pytest.mark.parametrize("number", ["1e39", "1e-50", "exp(100)"])
def test_numbers_beyond_single_precision_are_refused_there(number):
    m = Mechanism(minimal(f"current i = v*{number}"))
    assert "inf" not in m.functions("double")
    with pytest.raises(InputError, match="few: .* is beyond single precision"):
        m.functions("float")


@pytest.mark.parametrize("engine", ["epochs", "steps"])
def test_parameters_beyond_single_precision_are_refused(fast_queue, engine):
    net = Network(ring_cables(1, levels=2, compartments=3, seed=1), 2)
    net.insert(minimal("parameter big = 1e39\ncurrent i = v^2/big"), at=net.soma)
    with pytest.raises(InputError, match="few: big is 1e"):
        Simulation(net, dt=0.025, dtype=np.float32, engine=engine, queue=fast_queue)


@pytest.mark.parametrize("engine", ["epochs", "steps"])
@pytest.mark.parametrize("number", ["1e39", "1e-50", "1e-3*(v + 1e50)"])
def test_so_are_those_of_constant_mechanisms(fast_queue, engine, number):
    """No kernel computes constant currents: they are summed in float64."""
    net = Network(ring_cables(1, levels=2, compartments=3, seed=1), 2)
    net.insert(minimal(f"current i = v*0.001 + {number}"), at=net.soma)
    with pytest.raises(InputError, match="few: .* is beyond single precision"):
        Simulation(net, dt=0.025, dtype=np.float32, engine=engine, queue=fast_queue)


@pytest.mark.parametrize("engine", ["reference", "epochs", "steps"])
def test_constants_beyond_the_precision_are_refused(fast_queue, engine, needs):
    """Refuse such constants in `Simulation` and after `set`; later runs use later valid ones."""
    dtype, large = (np.float64, 1e306) if engine == "reference" else (np.float32, 1e38)
    for g, message in ((large, ""), (30 * large, r"constant \w+ of node 0 adds up to")):
        net = Network(ring_cables(1, levels=2, compartments=3, seed=1), 2)
        group = net.insert("pas", at="all", g=1e-4, e=-65.0)
        sim = Simulation(net, dt=0.025, dtype=dtype, engine=engine, queue=fast_queue)
        factor = 0.01 * float(net.area[0])
        sim.set(group, g=g / factor)
        for _ in range(2 if message else 0):
            with pytest.raises(InputError, match=message):
                sim.run(0.1)
        sim.set(group, g=2e-4)
        sim.run(0.1)
    net = Network(ring_cables(1, levels=2, compartments=3, seed=1), 2)
    net.insert("pas", at="all", g=1e4, e=large)
    with pytest.raises(InputError, match=r"constant current of node \d+ adds up to"):
        Simulation(net, dt=0.025, dtype=dtype, engine=engine, queue=fast_queue)


def test_units_are_converted_in_every_place():
    m = Mechanism(
        minimal(
            """parameter gbar = 120 mS/cm2
            parameter tau = 0.002 s
            parameter rate = 500 /s
            state m = 0.2
            state ca = 50 nM
            dm/dt = 300 - 1000*m [1/s]
            dca/dt = -rate*ca
            current i = 3*v [uA/cm2]
            current j = gbar*m*(v + 77)""".replace("            ", "")
        )
    )
    assert m.defaults == {"gbar": 0.12, "tau": 2.0, "rate": 0.5}
    assert m.units == {"gbar": "S/cm2", "tau": "ms", "rate": "1/ms", "m": "", "ca": "mM"}
    assert "parameter gbar = 0.12 S/cm2" in m.describe()
    assert m.initial(0.0)["ca"] == pytest.approx(5e-5, rel=1e-15)
    i, g = m.current(10.0, 0.0, None, {"m": 0.5, "ca": 0.0})
    assert i == pytest.approx(0.03 + 0.12 * 0.5 * 87, rel=1e-14)
    assert g == pytest.approx(0.003 + 0.06, rel=1e-14)
    after = m.advance(0.0, 0.0, 0.1, None, {"m": 0.2, "ca": 1.0})
    assert after["m"] == pytest.approx(0.3 - 0.1 * np.exp(-0.1), rel=1e-14)
    assert after["ca"] == pytest.approx(np.exp(-0.05), rel=1e-14)
    point = Mechanism(minimal("parameter g = 2 nS\ncurrent i = g*v*1000 [pA]", "point"))
    assert point.current(10.0, 0.0)[0] == pytest.approx(2e-3 * 10, rel=1e-15)


SAME = {  # value in NEURON's unit -> the same value in other units
    "3e-4 S/cm2": """0.3 mS/cm2; 300 uS/cm2; 3 S/m2; 3 pS/um2; 3e-4 mho/cm2; 0.3 mmho/cm^2;
        3e-9 nS/nm2; 0.3 mA/cm2/V""",
    "-70 mV": "-0.07 V; -70000 uV; -70 millivolt",
    "0.004 uS": "4 nS; 4000 pS; 4e-9 S; 0.004 umho; 4 pA/mV; 4e-6 millisiemens",
    "0.1 1/ms": "0.1 /ms; 100 Hz; 0.1 kHz; 100 /s; 0.1 ms-1; 1e-4 /us",
    "0.2 mM cm2/mA/ms": "0.2 M cm2/A/ms; 200 uM cm2/mA/ms; 2e-5 M m2/A/ms; 0.2 mM cm2/uA/s",
    "0.0001 mM": "100 nM; 0.1 uM; 1e-7 molar; 1e-4 mol/m3",
    "4 ms": "0.004 s; 4000 us",
}


@pytest.mark.parametrize("value", SAME)
def test_a_value_is_the_same_in_every_unit(value):
    for text in map(str.strip, SAME[value].split(";")):
        m = Mechanism(minimal(f"parameter g = {text}\ncurrent i = g"))
        assert m.defaults["g"] == pytest.approx(float(value.split()[0]), rel=1e-15), text


def test_built_in_mechanisms_are_in_neurons_units():
    for name in ("pas", "hh", "expsyn", "exp2syn", "iclamp"):
        m = mechanism(name)
        numbers = [
            line.split("=")[1].split()[0] for line in m.text.splitlines() if "parameter" in line
        ]
        assert list(m.defaults.values()) == [float(x) for x in numbers]


def test_quantities_and_ions_are_of_ascii():
    net = Network.from_arrays([-1], [0, 1], [300.0], [0.0], [0.005])
    with pytest.raises(InputError, match="expected real numbers"):
        net.insert("pas", g="\u0665 mS/cm2")
    for name in ("\u00f1", "n\u0662"):
        with pytest.raises(InputError, match="expected a name like 'ca'"):
            net.ion(name, [0], valence=1)
