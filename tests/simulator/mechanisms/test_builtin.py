"""Built-in mechanisms against NEURON's states, currents and voltages, and closed forms."""

import numpy as np
import pytest

from clhines.simulator.mechanisms import mechanism


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
    h, dt, steps = neuron, 0.025, 1600
    section = one_compartment(h)
    h.celsius, h.dt, h.t = celsius, dt, 0
    clamp, one, two = h.IClamp(section(0.5)), h.ExpSyn(section(0.5)), h.Exp2Syn(section(0.5))
    clamp.delay, clamp.dur, clamp.amp = 3, 7, 0.6
    one.tau, one.e, two.tau1, two.tau2, two.e = 2, 0, 0.5, 4, -80
    events = {"expsyn": [(20.0, 0.03), (28.0, 0.05)], "exp2syn": [(24.0, 0.02)]}
    # a NetCon's weight holds for all its events, so each event has its own NetCon
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
    """Simulate a compartment by the NumPy twins: implicit Euler in v, then the states."""
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
