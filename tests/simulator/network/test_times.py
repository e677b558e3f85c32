"""Steps in which spikes and outside events act, against NEURON, on grids of 0.005 ms."""

import numpy as np
import pytest
from neuron_scripts import make_section, with_values

from clhines import Network, Simulation
from clhines.core.arrays import half_steps
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cells.morphology import Morphology
from clhines.simulator.model import compile
from clhines.simulator.network.times import (
    LAST_STEP,
    begins_of,
    delay_steps,
    event_steps,
)

pytestmark = pytest.mark.neuron

neuron = pytest.importorskip("neuron", reason="NEURON is not installed: pip install neuron")
h = neuron.h
h.load_file("stdrun.hoc")  # cvode

GRID, LAST, ONE = 0.005, 20.0, 1e-9  # ms; ms; a weight too small to change a voltage
STEPS = (0.1, 0.05, 0.025)
PULSE = 0.05  # nA
SOMA = np.ones(1, int)
CELL = Morphology(SOMA - 2, np.zeros((1, 3)), np.array([10.0]), SOMA, SOMA, SOMA)


def grid(first, dt):
    """Return multiples of the spacing and n + 1/2 steps, rounded (no 0.15000000000000002)."""
    even = np.arange(round(first / GRID), round(LAST / GRID) + 1) * GRID
    halves = (np.arange(round(first / dt), round(LAST / dt)) + 0.5) * dt
    return np.unique(np.round(np.concatenate([even, halves]), 4))


def section():
    soma = make_section("soma", "pas", L=20.0, diam=20.0)
    soma(0.5).pas.g, soma(0.5).pas.e = 1e-4, -65.0
    return soma


def started(dt):
    h.cvode.active(0)
    h.secondorder = 0
    h.dt = dt
    h.finitialize(-65.0)


def steps_of(counts, events):
    """Return the first step in which each event acts, by the number that acted up to each step."""
    return np.searchsorted(counts, np.arange(1, events + 1))


def neuron_delays(dt, delays):
    """Return NEURON's step counts from a spike to its events' first effect."""
    soma, silent = section(), section()
    _clamp = with_values(h.IClamp(soma(0.5)), delay=0.0, dur=1e9, amp=PULSE)
    synapse = with_values(h.ExpSyn(silent(0.5)), tau=1e9, e=0.0)
    cons = [h.NetCon(soma(0.5)._ref_v, synapse, -64.0, d, ONE, sec=soma) for d in delays]
    times = h.Vector()
    cons[0].record(times)
    started(dt)
    counts = []
    while len(counts) < 100 / dt and (not counts or counts[-1] < len(delays)):
        h.fadvance()
        counts.append(round(synapse.i / (silent(0.5).v * ONE)))
    assert len(times) == 1
    spike = round(times[0] / dt) - 1  # the recorded time is the step's end
    return steps_of(counts, len(delays)) - spike - 1


def our_delays(dt, delays, engine, queue):
    """Return this package's delays, from the conductance at the end of every step."""
    net = Network(discretise(CELL), 2)
    net.insert("pas", g=1e-4, e=-65.0)
    net.add("iclamp", at=net.soma[0], delay=0.0, dur=1e9, amp=PULSE)
    synapse = net.add("expsyn", at=net.soma[1], tau=1e9, e=0.0)
    net.connect(0, synapse, 0, ONE, delays)
    net.threshold = -64.0
    sim = Simulation(net, dt, engine=engine, **({} if engine == "reference" else {"queue": queue}))
    sim.record("g", synapse)
    result = sim.run(np.ceil(LAST + 10))
    assert result.spike_cell.tolist() == [0]
    counts = np.rint(result[0][1:, 0] / ONE)
    spike = round(result.spike_time[0] / dt) - 1
    return steps_of(counts, len(delays)) - spike - 1


@pytest.mark.parametrize("dt", STEPS)
def test_delays_take_the_steps_of_neuron(dt):
    delays = grid(dt, dt)
    theirs = neuron_delays(dt, delays)
    assert np.isclose(delays / dt % 1, 0.5).sum() > 100
    np.testing.assert_array_equal(delay_steps(delays, dt), theirs)


@pytest.mark.parametrize("engine", ["reference", "steps", "epochs"])
def test_all_engines_take_them(double_queue, engine):
    for dt in STEPS:
        delays = grid(dt, dt)
        result = our_delays(dt, delays, engine, double_queue)
        np.testing.assert_array_equal(result, neuron_delays(dt, delays))


def neuron_events(dt, times, stim):
    """Return the steps in which NetCon.event, or a NetStim's events, change a current."""
    silent = section()
    synapse = with_values(h.ExpSyn(silent(0.5)), tau=1e9, e=0.0)
    kept = h.NetStim() if stim else None
    if stim:
        kept.start, kept.number, kept.noise = 0.0, 1, 0
        cons = [h.NetCon(kept, synapse, 0, t, ONE) for t in times]
        started(dt)
    else:
        cons = [h.NetCon(None, synapse, 0, 0, ONE)]
        started(dt)
        for t in times:
            cons[0].event(t)
    counts = []
    while not counts or counts[-1] < len(times):
        h.fadvance()
        counts.append(round(synapse.i / (silent(0.5).v * ONE)))
    return steps_of(counts, len(times))


@pytest.mark.parametrize("stim", [False, True])
@pytest.mark.parametrize("dt", STEPS)
def test_events_from_outside_take_the_steps_of_neuron(dt, stim):
    times = grid(0.0, dt)
    theirs = neuron_events(dt, times, stim)
    np.testing.assert_array_equal(event_steps(times, dt), theirs)
    if dt == 0.1:  # NEURON's clock decides if an event falls on the middle of a step
        assert theirs[np.searchsorted(times, [0.25, 0.45])].tolist() == [2, 5]
    net = Network(discretise(CELL))
    synapse = net.add("expsyn", at=net.soma, tau=1e9, e=0.0)
    net.add_event(synapse, 0, times, ONE)
    np.testing.assert_array_equal(compile(net, dt).events.step, theirs)


def test_late_events_follow_neurons_clock():
    """After 2,000 ms NEURON's clock is off by some 1e-9 ms, which decides ties."""
    times = np.round(2000 + np.arange(200) * 0.05, 3)
    np.testing.assert_array_equal(event_steps(times, 0.1), neuron_events(0.1, times, False))


def test_late_steps_end_by_neurons_clock():
    """At 200 s the sums of half steps are off by 3e-5 ms; ties of events go by them, too."""
    dt, last = 0.025, 8_000_000
    clock = half_steps(0.0, dt, 2 * last)
    steps = np.array([0, 65_535, 65_536, 4_194_303, 4_194_304, last - 1])
    ends = begins_of(steps + 1, dt)
    np.testing.assert_array_equal(ends, clock[2 * steps + 2])
    assert abs(ends[-1] - last * dt) > 1e-5
    middles, rng = clock[1::2], np.random.default_rng(5)
    ties = middles[rng.integers(0, last, 300)]
    times = np.concatenate([ties, np.nextafter(ties, 0), np.nextafter(ties, 1e9), ends])
    np.testing.assert_array_equal(event_steps(times, dt), np.searchsorted(middles, times))


@pytest.mark.parametrize("dt", [0.025, 0.1, 1 / 3, 0.5, np.nextafter(0.5, 0), 2.0**-5, 1e-320])
def test_steps_begin_at_the_sums_of_half_steps(dt):
    np.testing.assert_array_equal(
        begins_of(np.arange(200_001), dt), half_steps(0, dt, 400_000)[::2]
    )


def test_steps_after_ten_thousand_seconds_begin_at_the_sums_of_half_steps():
    """The clock is 6e-3 ms off there; the sums begin at a power of 2 that they reach exactly."""
    dt, block = 0.025, 1_000_000
    first = 335_548_736  # after 2**23 ms
    assert first % 2 == 0
    begin = float(begins_of(first, dt))
    for count in range(0, 65 * block, block):
        sums = half_steps(begin, dt, 2 * block)[::2]
        steps = first + count + np.arange(block + 1)
        np.testing.assert_array_equal(begins_of(steps, dt), sums)
        begin = sums[-1]
    assert 1e-3 < abs(begin - (first + 65 * block) * dt) < 0.1
    middles = sums + 0.5 * dt
    ties = middles[[5, 17, 1234]]
    times = np.concatenate([ties, np.nextafter(ties, 0), np.nextafter(ties, 1e9)])
    expected = steps[0] + np.searchsorted(middles, times)
    np.testing.assert_array_equal(event_steps(times, dt), expected)


def test_events_after_the_last_step_act_in_none():
    with np.errstate(all="raise"):
        assert event_steps(np.array([1e18, 1e308]), 0.025).tolist() == [LAST_STEP] * 2
