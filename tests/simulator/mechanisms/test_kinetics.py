"""Texts of mechanisms against NEURON's compiled .mod files of the same names: kinetics, order."""

import functools

import mod_files
import numpy as np
import pytest

import clhines
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cells.morphology import Morphology

pytestmark = pytest.mark.neuron

DT, V_INIT, DURATION, DIAMETER = 0.025, -65.0, 50.0, 20.0
PULSES = ((2.0, 8.0, 0.3), (15.0, 5.0, -0.2), (25.0, 15.0, 0.15))  # ms, ms, nA
# Steps add roundings of some eps, and the membrane's decay keeps them from adding up. NEURON takes
# slopes of currents over 0.001 mV; for these currents, linear in v, they are exact except for
# cancellation of 1e-11. Newton's iteration in NEURON's derivimplicit ends at changes of 1e-6.
BOUND, NEWTON_BOUND = 1e-9, 1e-6  # relative to NEURON's largest deflection
# Occupancies add up to one except for the roundings of a single step: NEURON solves for the change
# of a step, which vanishes, with its roundings, as states settle.
SUM_BOUND = 64  # eps of the dtype
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
    parameter g = 0.004 uS
    parameter e = -20 mV
    parameter k = 0.1 /ms
    state n = 0
    dn/dt = k*(1 - n)
    current i = g*n*(v - e) [nA]
"""
CASES = {  # title -> text, bound, whether the states are occupancies
    "two states at 500 per ms, sparse": (TWO, BOUND, True),
    "eight states, sparse": (EIGHT, BOUND, True),
    "calcium and buffer, derivimplicit": (BUFFER, NEWTON_BOUND, False),
    "cascade of 1 ms, in order": (CASCADE, BOUND, False),
    "pool with a current in its rate": (POOL, BOUND, False),
    "point process with a rate": (SHUNT, BOUND, False),
}


@functools.cache
def theirs(title):
    """Return voltage and states, (steps + 1, 1 + states), of a compartment with current pulses."""
    h, mechanism = mod_files.loaded(), clhines.Mechanism(CASES[title][0])
    soma = h.Section(name="soma")
    soma.L = soma.diam = DIAMETER
    soma.Ra, soma.cm = 100, 1
    soma.insert("pas")
    soma(0.5).pas.g, soma(0.5).pas.e = 1e-4, V_INIT
    if mechanism.kind == "density":
        soma.insert(mechanism.name)
        inserted = getattr(soma(0.5), mechanism.name)
    else:
        inserted = getattr(h, mechanism.name)(soma(0.5))
        inserted.g = 0.004
    clamps = [h.IClamp(soma(0.5)) for _ in PULSES]
    for clamp, pulse in zip(clamps, PULSES):
        clamp.delay, clamp.dur, clamp.amp = pulse
    h.cvode.active(0)
    h.secondorder, h.dt = 0, DT
    h.finitialize(V_INIT)
    rows = []
    for step in range(round(DURATION / DT) + 1):
        if step:
            h.fadvance()
        rows.append([soma(0.5).v, *(getattr(inserted, s) for s in states(mechanism))])
    return np.array(rows)


def states(mechanism):
    return [name for name in mechanism.states if name != "v__before"]


def ours(title, engine, queue, dtype="float64"):
    one = np.ones(1, np.int64)
    cell = Morphology(-one, np.zeros((1, 3)), np.array([DIAMETER / 2]), one, one, 0 * one)
    net = clhines.Network(discretise(cell, max_length=1e6))
    net.insert("pas", [0], g=1e-4, e=V_INIT)
    mechanism = clhines.Mechanism(CASES[title][0])
    add = net.insert if mechanism.kind == "density" else net.add
    group = add(mechanism, [0])
    for delay, dur, amp in PULSES:
        net.add("iclamp", 0, delay=delay, dur=dur, amp=amp)
    sim = clhines.Simulation(net, DT, dtype, queue=queue, engine=engine, v_init=V_INIT)
    for what, where in (("v", [0]), *((s, group) for s in states(mechanism))):
        sim.record(what, where)
    return np.hstack(sim.run(DURATION).values)


@pytest.mark.parametrize("engine", ["epochs", "reference"])
@pytest.mark.parametrize("title", CASES)
def test_each_text_is_its_file_in_neuron(double_queue, title, engine):
    _, bound, occupancies = CASES[title]
    expected, result = theirs(title), ours(title, engine, double_queue)
    scale = np.abs(expected - expected[0]).max(axis=0)
    assert (scale > 0).all() and result.shape == expected.shape
    assert (np.abs(result - expected).max(axis=0) <= bound * scale).all()
    if occupancies:
        for dtype in ("float64", "float32")[: 1 if engine == "reference" else 2]:
            sums = ours(title, engine, double_queue, dtype)[:, 1:].sum(axis=1, dtype=np.float64)
            assert np.abs(sums - 1).max() <= SUM_BOUND * np.finfo(dtype).eps
