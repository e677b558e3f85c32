"""Delays, events from outside, and the built-in `hh`, against NEURON's steps."""

from __future__ import annotations

import numpy as np

import clhines
from bench.measures.checks.common import (
    Outcome,
    Settings,
    compartment,
    in_steps,
    neuron,
    neuron_cell,
    relative,
    simulate,
    start,
    unlike,
)
from clhines.core.errors import InputError
from clhines.simulator.model import compile

DTS = (0.1, 0.05, 0.025)
LAST_DELAY = 2.0  # ms
WEIGHT, TAU = 1e-9, 1.0  # uS: too small to matter; ms
V_BOUND = 1e-7  # of the deflection, of `hh`
PULSES = (1.0, 9.0)  # ms: begins of the clamps of the source

# --------------------------------------------------------------------------------------- delays


def arrivals(g: np.ndarray, dt: float) -> list[list[int]]:
    """Find the steps in which events act in the conductances, (steps + 1, synapses).

    NEURON delivers an event that is due within a step's second half at that step's end, where it
    is seen already but acts in the next step: the conductance has then not decayed since.
    """
    decay = np.exp(-dt / TAU)
    new = (g[1:] - decay * g[:-1]) / WEIGHT
    return [
        [int(k) + int(column[k] > (1 + decay) / 2) for k in np.flatnonzero(column > decay / 2)]
        for column in new.T
    ]


def two_cells(delays: np.ndarray) -> clhines.Network:
    """One cell that spikes after each pulse, and one with a synapse for each delay."""
    cell = compartment()
    net = clhines.Network([cell, cell])
    net.insert("hh", [0])
    net.insert("pas", [1])
    for pulse in PULSES:
        net.add("iclamp", 0, delay=pulse, dur=0.6, amp=2.0)
    synapses = net.add("expsyn", np.ones(len(delays), int), tau=TAU)
    net.connect(np.zeros(len(delays), int), synapses, None, WEIGHT, delays)
    return net


def neuron_arrivals(
    delays: np.ndarray, times: np.ndarray, dt: float, duration: float
) -> tuple[list[list[int]], list[int], list[list[int]]]:
    """Arrivals of the spikes by delay, steps of the spikes, arrivals of events by time."""
    h = neuron()
    source, target = neuron_cell(compartment()), neuron_cell(compartment())
    (soma,), (other,) = source.sections, target.sections
    soma.insert("hh")
    other.insert("pas")
    clamps = [h.IClamp(soma(0.5)) for _ in PULSES]
    for clamp, pulse in zip(clamps, PULSES):
        clamp.delay, clamp.dur, clamp.amp = pulse, 0.6, 2.0
    synapses = [h.ExpSyn(other(0.5)) for _ in range(len(delays) + len(times))]
    cons = []
    for k, synapse in enumerate(synapses):
        synapse.tau = TAU
        by_spike = k < len(delays)
        cons.append(h.NetCon(soma(0.5)._ref_v if by_spike else None, synapse, sec=soma))
        cons[-1].weight[0], cons[-1].threshold = WEIGHT, 10
        if by_spike:
            cons[-1].delay = delays[k]
    spikes, ids = h.Vector(), h.Vector()
    cons.append(h.NetCon(soma(0.5)._ref_v, None, sec=soma))
    cons[-1].record(spikes, ids, 0)
    start(dt, -65.0)
    for con, time in zip(cons[len(delays) : -1], times.tolist()):
        con.event(time)
    rows = [[s.g for s in synapses]]
    for _ in range(round(duration / dt)):
        h.fadvance()
        rows.append([s.g for s in synapses])
    found = arrivals(np.array(rows), dt)
    steps = [step for step, _ in in_steps(spikes, ids, dt)]
    return found[: len(delays)], steps, found[len(delays) :]


def delays(settings: Settings) -> list[Outcome]:
    """Compare the step in which a spike arrives, over a grid of delays, and events from outside."""
    grid = np.round(np.arange(1, round(LAST_DELAY / settings.step) + 1) * settings.step, 9)
    engines = ", ".join(settings.engines)
    spiked = Outcome(
        "delays", f"{grid[0]:g} to {grid[-1]:g} ms, dt 0.1 0.05 0.025, engines {engines}"
    )
    outside = Outcome("delays", "events from outside at the same times, as NetCon.event")
    duration = PULSES[-1] + LAST_DELAY + 3.0
    for dt in DTS:
        theirs, spikes, theirs_outside = neuron_arrivals(grid, grid, dt, duration)
        short = grid < dt * (1 - 1e-9)
        for delay in grid[short].tolist():
            spiked.case(unless_refused(delay, dt))
        long = np.flatnonzero(~short)
        for engine in settings.engines:
            net = two_cells(grid[long])
            synapses = net.groups[-1]
            events = net.add("expsyn", np.ones(len(grid), int), tau=TAU)
            net.add_event(events, np.arange(len(grid)), grid, WEIGHT)
            record = [("g", synapses), ("g", events)]
            result = simulate(net, settings, engine, duration, record, dt=dt)
            mine = arrivals(result[0], dt)
            same = in_steps(result.spike_time, result.spike_cell, dt) == [(s, 0) for s in spikes]
            if len(spikes) != len(PULSES) or not same:
                spiked.case(f"{engine}, dt {dt:g}: the source spikes in other steps")
            for k, (a, b) in zip(long.tolist(), zip(mine, (theirs[k] for k in long.tolist()))):
                late = f"{engine}, dt {dt:g}, delay {grid[k]:g}: steps {a}, in NEURON {b}"
                spiked.case(late if a != b else "")
            for time, a, b in zip(grid.tolist(), arrivals(result[1], dt), theirs_outside):
                late = f"{engine}, dt {dt:g}, event at {time:g} ms: steps {a}, in NEURON {b}"
                outside.case(late if a != b else "")
    return [spiked, outside]


def unless_refused(delay: float, dt: float) -> str:
    """Say so where a delay below a step is accepted; NEURON accepts it, and is early or late."""
    try:
        compile(two_cells(np.array([delay])), dt=dt)
    except InputError:
        return ""
    return f"dt {dt:g}, delay {delay:g}: below a step, and not refused"


# ------------------------------------------------------------------------------------------- hh

AMPLITUDES = (0.05, 0.1, 0.2, 0.4, 0.8)  # nA, into a sphere of 20 um: 2 to 20 spikes in 200 ms
HH_DURATION, HH_DT = 200.0, 0.025


def neuron_hh(table: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Spike times, their cells, and voltages after every step of a cell for each amplitude."""
    h, kept = neuron(), []
    times, ids = h.Vector(), h.Vector()
    for k, amplitude in enumerate(AMPLITUDES):
        cell = neuron_cell(compartment())
        (soma,) = cell.sections
        soma.insert("hh")
        clamp, con = h.IClamp(soma(0.5)), h.NetCon(soma(0.5)._ref_v, None, sec=soma)
        clamp.delay, clamp.dur, clamp.amp, con.threshold = 1, 1e9, amplitude, 10
        con.record(times, ids, k)
        kept.append((cell, clamp, con))
    start(HH_DT, -65.0, table=table)
    rows = []
    for _ in range(round(HH_DURATION / HH_DT)):
        h.fadvance()
        rows.append([cell.sections[0](0.5).v for cell, _, _ in kept])
    return np.array(times), np.array(ids, int), np.array(rows)


def hh(settings: Settings) -> list[Outcome]:
    """Compare `hh` with NEURON's without its table; measure how far its default is from both."""
    exact = Outcome("hh", f"{HH_DURATION:g} ms, dt {HH_DT:g}, usetable_hh 0")
    default = Outcome("hh", "usetable_hh 1, NEURON's default: as many spikes, at other times")
    times, ids, v = neuron_hh(table=False)
    net = clhines.Network(compartment(), len(AMPLITUDES))
    net.insert("hh", "all")
    net.add("iclamp", net.soma, delay=1.0, dur=1e9, amp=AMPLITUDES)
    net.threshold = 10.0
    for engine in settings.engines:
        result = simulate(net, settings, engine, HH_DURATION, [("v", net.soma)], dt=HH_DT)
        mine = in_steps(result.spike_time, result.spike_cell, HH_DT)
        wrong = unlike(mine, in_steps(times, ids, HH_DT))
        if not wrong:
            gap = relative(result[0][1:], v, -65.0)
            exact.largest("relative v", gap)
            wrong = "" if gap < V_BOUND else f"voltages differ by {gap:.3g} of the deflection"
        exact.case(wrong and f"{engine}: {wrong}")
    exact.add("spikes", len(times))
    table_times, table_ids, _ = neuron_hh(table=True)
    default.add("spikes", len(table_times))
    for k in range(len(AMPLITUDES)):
        a, b = np.sort(times[ids == k]), np.sort(table_times[table_ids == k])
        default.case("" if len(a) == len(b) else f"{len(a)} spikes, {len(b)} by default")
        if len(a) == len(b) > 0:
            default.largest("ms at most", np.abs(a - b).max())
    return [exact, default]
