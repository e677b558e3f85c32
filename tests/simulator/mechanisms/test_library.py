"""Each text of the library, and texts of kinetics, against the .mod file of its name, in NEURON."""

import functools

import numpy as np
import pytest

import clhines
from clhines import library
from tests.support import mod_files

DT, UNTIL, CELSIUS, V_INIT = 0.05, 80.0, 34.0, -70.0
STAGES = (20.0, -100.0), (15.0, -20.0), (25.0, -55.0)  # ms and mV of the channels' voltage clamp
TIMES = 5.0, 15.0, 15.0, 22.5, 60.0  # event times; two in one step
WEIGHT = {"gaba_b": 0.5, "tsodyks_markram": 0.02}  # uS
SYNAPSES = "ampa", "gaba_a", "gaba_b", "nmda", "tsodyks_markram"
OF_CALCIUM = ("ca_l",), ("ca_n",), ("ca_t",), ("ca_l", "sk"), ("ca_l", "bk")  # tested with a pool
POINTS = {"ou_conductance", "vclamp", "chkshunt", *SYNAPSES}
CHANNELS = tuple(n for n in dir(library) if not {n} & {*POINTS, *"ca_pool sk bk".split()})
PARAMETERS = {
    "tsodyks_markram": {"tau_rec": 100.0, "tau_facil": 50.0, "use": 0.2},
    "chkshunt": {"g": 0.004},
}
GRID = [(n,) for n in CHANNELS if n[:3] != "ca_"] + [("ampa",), ("gaba_a",), ("nmda",)]
EXACT = [("ca_pool", *names) for names in OF_CALCIUM]
EXACT += [("gaba_b",), ("tsodyks_markram",), ("ou_conductance",)]
STATES = {"tsodyks_markram": ["g"], "gaba_b": ["r", "s"]}  # states that the files have, too
IN_FILE = {"g_e": "ge", "g_i": "gi"}  # state names in the files
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
OCCUPANCIES = ("chktwo",), ("chkeight",)  # sparse; the first at 500 per ms
KINETICS = {"chktwo": TWO, "chkeight": EIGHT, "chkbuffer": BUFFER, "chkcascade": CASCADE}
KINETICS |= {"chkpool": POOL, "chkshunt": SHUNT}  # a current in a rate, a point process


@functools.cache
def mechanism_of(name):
    return clhines.Mechanism(KINETICS[name]) if name in KINETICS else getattr(library, name)


def states(name):
    every = [state for state in mechanism_of(name).states if state != "v__before"]
    return STATES.get(name, every)


@functools.cache
def theirs(cells):
    """Return NEURON's voltages and states at each step, (steps + 1,) by cell and name."""
    h = mod_files.loaded()
    sections, kept, rows, wires = [], [], {}, []
    for k, names in enumerate(cells):
        section = h.Section(name=f"cell{k}")
        section.L = section.diam = 20
        section.insert("pas")
        here = section(0.5)
        sections.append(section)
        targets = {}
        for name in names:
            if name in POINTS:
                targets[name] = getattr(h, name)(here)
            else:
                section.insert(name)
                targets[name] = getattr(here, name)
            for key, value in PARAMETERS.get(name, {}).items():
                setattr(targets[name], key.replace("_", ""), value)
            if name in SYNAPSES:
                for time in TIMES:
                    wire = h.NetCon(None, targets[name])
                    wire.weight[0] = WEIGHT.get(name, 0.002)
                    wires.append((wire, time))
        if names[0] not in POINTS:
            clamp = h.SEClamp(here)
            clamp.rs = 20
            (clamp.dur1, clamp.amp1), (clamp.dur2, clamp.amp2), (clamp.dur3, clamp.amp3) = STAGES
            kept.append(clamp)
        if "ou_conductance" in targets:
            targets["ou_conductance"].noise.set_ids(1, 2, 3).set_seq(0)
        kept += targets.values()
        rows[k, "v"] = h.Vector().record(here._ref_v)
        for name, target in targets.items():
            for state in states(name):
                ref = f"_ref_{IN_FILE.get(state, state)}"
                rows[k, name, state] = h.Vector().record(getattr(target, ref))
        if "ca_pool" in names:
            rows[k, "cai"] = h.Vector().record(here._ref_cai)
    area = sections[0](0.5).area()
    h.cvode.active(0)
    h.celsius, h.dt, h.secondorder = CELSIUS, DT, 0
    handler = h.FInitializeHandler(lambda: [wire.event(time) for wire, time in wires])
    h.finitialize(V_INIT)
    for _ in range(round(UNTIL / DT)):
        h.fadvance()
    result = {key: np.array(row) for key, row in rows.items()}
    del handler
    return area, result


def ours(cells, area, engine, queue, dtype="float64"):
    n = len(cells)
    net = clhines.Network.from_arrays(
        [-1] * n, np.arange(n + 1), [area] * n, [0.0] * n, [1e-5 * area] * n
    )
    net.celsius = CELSIUS
    net.insert("pas")
    places = {}
    for k, names in enumerate(cells):
        for name in names:
            places.setdefault(name, []).append(k)
    groups = {}
    for name in sorted(places, key=lambda name: name != "ca_pool"):  # NEURON's order
        make = net.add if name in POINTS else net.insert
        at = net.soma[places[name]]
        groups[name] = make(mechanism_of(name), at, **PARAMETERS.get(name, {}))
        if name in SYNAPSES:
            net.add_event(groups[name], 0, TIMES, WEIGHT.get(name, 0.002))
        if name == "ou_conductance":
            net.random(groups[name], "noise", [[1, 2, 3]])
    clamped = [k for k, names in enumerate(cells) if names[0] not in POINTS]
    options = {f"{w}{j + 1}": x for j, of in enumerate(STAGES) for w, x in zip(("dur", "amp"), of)}
    net.add("vclamp", net.soma[clamped], rs=20.0, **options)
    sim = clhines.Simulation(net, DT, dtype, v_init=V_INIT, queue=queue, engine=engine)
    records = {(k, "v"): (sim.record("v", net.soma[k]), 0) for k in range(n)}
    for name, group in groups.items():
        for state in states(name):
            record = sim.record(state, group)
            records |= {(k, name, state): (record, j) for j, k in enumerate(places[name])}
    for k in places.get("ca_pool", ()):
        records[k, "cai"] = sim.record("cai", net.soma[k]), 0
    result = sim.run(UNTIL)
    return {key: result[record][:, j] for key, (record, j) in records.items()}


def tolerance(names, v, rows, area):
    """Return the sum of ten roundings per step and of the error of NEURON's difference quotient.

    The quotient's slope is off by 0.0005 mV*i'', here by 0.07/mV of the conductance: 2*f' + v*f''
    for f = 1/(1 + exp(0.062*v)) up to 100 mV, and less for the constant field. The change of v in
    a step has this error over the capacitance per dt; states follow v by less than 0.1/mV.
    """
    if names[0] in KINETICS:
        bound = NEWTON_BOUND if names[0] == "chkbuffer" else BOUND
        return bound * np.abs(rows - rows[0]).max()
    bound = 10 * len(rows) * 2.0**-52 * np.abs(rows).max()
    if {"nmda", "ca_n"} & {*names}:
        slope = 5e-4 * 0.07 * 0.01  # uS, for at most 0.01 uS
        shift = slope / (1e-5 * area / DT) * np.abs(np.diff(v)).sum()
        bound += shift * (1.0 if rows is v else 0.1 * np.abs(rows).max())
    return bound


@pytest.mark.neuron
@pytest.mark.parametrize("engine", ["reference", "steps", "epochs-cpu", "epochs-gpu"])
@pytest.mark.parametrize(
    "cells",
    [tuple(GRID), tuple(EXACT), tuple((name,) for name in KINETICS)],
    ids=["grid", "exact", "kinetics"],
)
def test_each_is_its_file_in_neuron(double_queue, cells, engine):
    area, expected = theirs(cells)
    result = ours(cells, area, engine, double_queue)
    assert result.keys() == expected.keys()
    for key, rows in expected.items():
        names = cells[key[0]]
        assert np.ptp(rows) > 0, (names, key)
        within = tolerance(names, expected[key[0], "v"], rows, area)
        assert np.abs(result[key] - rows).max() <= within, (names, key)


@pytest.mark.neuron
@pytest.mark.parametrize(
    ("engine", "dtype"),
    [("reference", "float64"), ("epochs", "float64"), ("epochs", "float32")],
)
def test_occupancies_add_up_to_one(typed_queue, engine, dtype):
    rows = ours(OCCUPANCIES, 1256.0, engine, typed_queue, dtype)
    for k, (name,) in enumerate(OCCUPANCIES):
        total = sum(rows[k, name, state].astype(np.float64) for state in states(name))
        assert np.abs(total - 1).max() <= SUM_BOUND * np.finfo(dtype).eps


def test_each_has_a_file():
    """All but vclamp, which is NEURON's SEClamp, have a file."""
    compared = {name for names in (*GRID, *EXACT) for name in names} | {"vclamp"}
    assert compared == {*dir(library)}
    there = {path.stem for path in (mod_files.FOLDER / "library").iterdir()}
    assert there == compared - {"vclamp"}


@pytest.mark.parametrize("name", dir(library))
def test_a_text_says_what_it_is_and_whose(name):
    text = getattr(library, name)
    assert text.name == name and text is not None
    head = [line for line in str(text).splitlines()[1:] if line.startswith("#")]
    assert len(head) >= 2
    assert max(len(line) for line in str(text).splitlines()) <= 100
    assert text.kind == ("point" if name in POINTS else "density")


def test_names_are_those_of_insert_and_add():
    net = clhines.Network.from_arrays([-1], [0, 1], [1000.0], [0.0], [0.01])
    by_name = net.insert("k_dr", gbar=0.02)
    assert by_name.mechanism == library.k_dr
    assert net.add(library.ampa, 0).mechanism == clhines.library.ampa
    with pytest.raises(AttributeError, match="the library has no 'nmdaa'; did you mean 'nmda'"):
        library.nmdaa  # noqa: B018
    with pytest.raises(clhines.InputError, match="clhines.library.*did you mean 'na_traub'"):
        net.insert("na_traubb")
