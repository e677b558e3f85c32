"""Self-test: compare small models with NEURON, in a process that `versions` starts.

The models use everything that the importer reads from NEURON's private memory, as far as built-in
mechanisms have it. Each model runs in NEURON alone, and then by turns here and in NEURON, which
also tests the values that are written back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clhines.neuron.entry import check, run
from clhines.neuron.memory.raw import ref
from clhines.neuron.memory.versions import report
from clhines.neuron.switch.selftest import wrong_calls

STOP = 6.0  # ms
_PIECES = (True, 2.0), (False, 2.5), (True, STOP)  # whether by `run`, and the end, ms
_NEAR = 1e-7  # relative to the largest value: rounding error, which grows in a spike's upstroke


@dataclass
class Case:
    """A model: its records, objects to keep alive, and a function that starts a new run."""

    records: list[Any]
    kept: list[Any]
    ends: Callable[[], list[float]] = list
    begin: Callable[[], None] = lambda: None
    seen: list[list[float]] = field(default_factory=list)  # by a function that NEURON calls


def cells(h: Any) -> Case:
    """Build branched cells with channels, ions, synapses, events, Vector.play and Random.play."""
    sections = {name: h.Section(name=name) for name in "abcde"}
    a, b, c, d, e = sections.values()
    b.connect(a(1))
    c.connect(a(0.5), 1)
    d.connect(b(0.4))
    h.celsius = 9.0
    for k, section in enumerate(sections.values()):
        section.nseg, section.L, section.diam = (1, 3, 5, 1, 3)[k], 20 + 30 * k, 20 / (1 + k)
        section.Ra, section.cm = 90 + 10 * k, 1 + 0.1 * k
        section.insert("hh" if k in (0, 2, 4) else "pas")
    c(0.9).hh.gnabar, b(0.5).pas.e, a.ena = 0.1, -68, 52
    clamp, noisy, late = h.IClamp(a(0.5)), h.IClamp(e(0.2)), h.IClamp(b(0.9))
    clamp.delay, clamp.dur, noisy.dur, late.dur = 0.5, 3, 1e9, 1e9
    synapse, other, alpha = h.ExpSyn(b(0.5)), h.Exp2Syn(c(0.1)), h.AlphaSynapse(d(0.5))
    alpha.onset, alpha.gmax, holding, counter = 1.5, 0.002, h.SEClamp(e(0.9)), h.APCount(a(0.5))
    holding.dur1, holding.amp1, holding.rs = 2, -60, 5
    stim, fires = h.NetStim(), [h.IntFire1(), h.IntFire2(), h.IntFire4()]
    stim.interval, stim.number, stim.start, stim.noise = 0.7, 1e9, 0.3, 0.6
    stim.noiseFromRandom123(1, 2, 3)
    wires = [(stim, other, 2.1, 0.004), (stim, fires[0], 0.2, 0.6), (stim, fires[1], 0.4, 0.4)]
    wires += [(stim, fires[2], 0.6, 0.5), (fires[0], synapse, 0.5, 0.003)]
    wires += [(fires[2], fires[0], 0.3, 0.2), (stim, synapse, 0.1, 5.0)]
    netcons = [h.NetCon(source, target, 0, delay, w) for source, target, delay, w in wires]
    netcons[-1].active(False)
    netcons += [h.NetCon(ref(a(0.5), "v"), synapse, -20, 0.8, 0.01, sec=a)]
    times, numbers = h.Vector(), h.Vector()
    for k, netcon in enumerate((netcons[0], netcons[4], netcons[-1])):
        netcon.record(times, numbers, k)
    knots, amps = h.Vector([0, 1, 2, 4, 9]), h.Vector([0, 1.5, 0.5, 1, 0])
    steps, values = h.Vector([0, 1.3, 3.1]), h.Vector([-65, -50, -70])
    amps.play(ref(clamp, "amp"), knots, 1)
    values.play(ref(d(0.5).pas, "e"), steps)
    random = h.Random()
    random.play(ref(noisy, "amp"))
    variables = [ref(s(x), "v") for s in sections.values() for x in (0, 0.3, 0.9, 1)]
    variables += [ref(a(0.5), "m_hh"), ref(c(0.5), "ina"), ref(synapse, "g")]
    variables += [ref(other, "i"), ref(h, "t")]
    records = [h.Vector().record(v) for v in variables]
    records += [h.Vector().record(ref(a(0.5), "v"), 0.5), times, numbers]

    def begin() -> None:
        random.Random123(7, 8, 9)
        random.normal(0.1, 0.01)
        late.amp = 0
        h.CVode().event(2.2, lambda: setattr(late, "amp", 0.2))

    def ends() -> list[float]:
        states = [c(0.9).hh.n, e(0.1).hh.h, other.A, other.g, alpha.i, holding.i, late.i]
        return [*states, counter.n, *(one.M() if hasattr(one, "M") else 0 for one in fires[:2])]

    handler = h.FInitializeHandler(begin)
    kept = [sections, clamp, noisy, late, holding, stim, fires, netcons, handler, random, alpha]
    return Case(records, [*kept, counter, knots, amps, steps, values], ends)


def currents(h: Any) -> Case:
    """Build cells with i_membrane_, a function that each step calls, and a voltage transfer."""
    a, b = h.Section(name="a"), h.Section(name="b")
    for section in (a, b):
        section.L = section.diam = 20
        section.insert("hh")
    h.CVode().use_fast_imem(1)
    clamp, synapse, pc = h.IClamp(a(0.5)), h.ExpSyn(b(0.5)), h.ParallelContext()
    clamp.dur, clamp.amp = 4, 0.4
    pc.source_var(ref(a(0.5), "v"), 1, sec=a)
    pc.target_var(synapse, ref(synapse, "e"), 1)
    pc.setup_transfer()
    netcon = h.NetCon(ref(a(0.5), "v"), synapse, -30, 0.5, 0.002, sec=a)
    case = Case([h.Vector().record(ref(s(0.5), "i_membrane_")) for s in (a, b)], [clamp, netcon])

    def gather() -> None:
        case.seen[-1].append(a(0.5).v)

    h.CVode().extra_scatter_gather(0, gather)
    case.begin = lambda: case.seen.append([])
    case.kept += [a, b, pc, h.FInitializeHandler(case.begin), gather, synapse]
    case.records.append(h.Vector().record(ref(b(0.5), "v")))
    return case


def outside(h: Any) -> Case:
    a, b = h.Section(name="a"), h.Section(name="b")
    b.connect(a(1))
    for section in (a, b):
        section.nseg, section.L, section.diam = 3, 60, 5
        section.insert("pas")
    a.insert("extracellular")
    for segment in a:
        segment.xg[0], segment.xc[0] = 1e-3, 0.1
    clamp = h.IClamp(b(0.5))
    clamp.delay, clamp.dur, clamp.amp = 0.2, 3, 0.2
    variables = ref(a(0.5), "v"), ref(a(0.1), "vext")[0], ref(b(0.9), "v")
    return Case([h.Vector().record(v) for v in variables], [a, b, clamp])


def channels(h: Any) -> Case:
    """Build a cell with a KSChan whose rates are the rates of hh's n."""
    made = h.KSChan(0)
    made.name("selftest_channel")
    made.ion("k")
    made.iv_type(0)
    made.gmax(0.036)
    state = made.add_hhstate("n")
    rates, change = [h.Vector([0.1, 0.1, -55]), h.Vector([0.125, -1 / 80, -65])], made.trans(0)
    state.gate().power(4)
    change.type(0)
    change.set_f(0, 3, rates[0])
    change.set_f(1, 2, rates[1])
    section = h.Section(name="a")
    section.L = section.diam = 20
    section.insert("selftest_channel")
    clamp = h.IClamp(section(0.5))
    clamp.dur, clamp.amp = 3, 0.3
    variables = ref(section(0.5), "v"), ref(section(0.5), "n_selftest_channel")
    return Case([h.Vector().record(v) for v in variables], [section, clamp, made, rates])


# `currents` is last because it leaves a transfer behind
CASES = cells, outside, channels, currents


def main() -> None:
    """Run the models, and print the first fault, if any."""
    report(lambda: wrong_calls() or next(filter(None, map(_wrong, CASES)), ""))


def _wrong(make: Callable[[Any], Case]) -> str:
    """Say how the model that `make` builds differs from NEURON's results; empty if it does not."""
    from neuron import h

    h.load_file("stdrun.hoc")
    case, results = make(h), list[list[np.ndarray]]()
    for pieces in (((False, STOP),), _PIECES):
        h.finitialize(-65)
        if len(results):
            refused = check()
            if refused:
                return f"{make.__name__}: {refused[0]}"
        for is_here, stop in pieces:
            run(stop, engine="reference") if is_here else h.continuerun(stop)
        results.append([*(np.array(r) for r in case.records), np.array(case.ends())])
        results[-1] += [np.array(case.seen[-1])] if case.seen else []
    for k, (theirs, ours) in enumerate(zip(*results, strict=True)):
        if theirs.shape != ours.shape:
            return f"{make.__name__}, {k}: {ours.size} values, of NEURON {theirs.size}"
        off = np.abs(ours - theirs).max(initial=0)
        if not off <= _NEAR * max(1.0, np.abs(theirs).max(initial=0)):
            return f"{make.__name__}, {k}: {off:g} off"
    case.kept.clear()
    return ""
