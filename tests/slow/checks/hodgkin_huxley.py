"""The built-in `hh` against NEURON's, without and with its table."""

import numpy as np

import clhines
from bench.measures.checks.common import (
    Outcome,
    compartment,
    in_steps,
    neuron,
    neuron_cell,
    relative,
    simulate,
    start,
    unlike,
)

V_BOUND = 1e-7  # relative to the deflection
AMPLITUDES = (0.05, 0.1, 0.2, 0.4, 0.8)  # nA, into a sphere of 20 um: 2 to 20 spikes in 200 ms
HH_DURATION, HH_DT = 200.0, 0.025


def neuron_hh(table):
    """Return spike times, their cells, and voltages after every step, a cell per amplitude."""
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


def hh(settings):
    """Compare `hh` with NEURON's without its table; measure NEURON's default against both."""
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
