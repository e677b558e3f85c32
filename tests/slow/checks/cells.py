"""Real cells of SWC files against NEURON's own importer: sections, resistance, and spikes."""

import os
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

import clhines
from bench import MissingError
from bench.measures.checks.common import (
    Outcome,
    in_steps,
    neuron,
    relative,
    simulate,
    start,
    unlike,
)
from clhines.core.errors import ClhinesError
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cells.swc import read_swc
from clhines.solver import reference

DT, DURATION, V_INIT = 0.025, 50.0, -65.0
G_PAS, E_PAS, RA, CM = 1e-4, -65.0, 100.0, 1.0
AGREED = 1e-6  # relative, for sections' lengths, areas and input resistances
V_BOUND = 1e-6  # relative to the soma's deflection, at all times
DEPOLARISED = 150.0  # mV: final depolarisation by the current in the cell without hh
PULSES, WIDTH = (2.0, 14.0, 26.0, 38.0), 3.0  # ms
LARGEST = 60_000  # segments in a simulated cell

# Intended differences; the reasons are in `clhines.simulator.cells.sections`.
DIFFERENT = {
    "CA1_n120.CNG.swc": "order of the samples",
    "RGC_Image001-005-01.CNG.swc": "order of the samples",
    "hemibrain_1734350908.swc": "root outside the soma",
}


class Imported:
    """Sections that NEURON's importer makes: `all`, and by type `soma`, `axon`, `dend` ..."""


@contextmanager
def silent():
    """Keep what NEURON writes by itself off the terminal."""
    sys.stdout.flush()
    kept = [os.dup(1), os.dup(2)]
    with open(os.devnull, "wb") as nothing:
        try:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
            yield
        finally:
            for k, handle in enumerate(kept):
                os.dup2(handle, k + 1)
                os.close(handle)


def imported(path, max_length):
    """Import a file; None if NEURON refuses it."""
    h, cell = neuron(), Imported()
    with silent():
        try:
            reader = h.Import3d_SWC_read()
            reader.quiet = 1
            reader.input(str(path))
            h.Import3d_GUI(reader, False).instantiate(cell)
            every = list(cell.all)
            if not all(s(0.5).area() > 0 and s(0.5).ri() > 0 for s in every):
                return None
        except RuntimeError:
            return None
    somas, middle = list(getattr(cell, "soma", [])), set()
    (root,) = [s for s in every if s.parentseg() is None]
    for s in every:
        above = s.parentseg()
        if above is not None and above.x == 0.5:
            middle.add(above.sec)
    has_soma = root in somas
    for s in every:
        odd = s in middle or (has_soma and s == root)
        s.nseg = max(int(np.ceil(s.L / max_length)), 1) | odd
        s.Ra, s.cm = RA, CM
        s.insert("pas")
        for segment in s:
            segment.pas.g, segment.pas.e = G_PAS, E_PAS
    at = root(0.5) if has_soma else root(0.5 / root.nseg)
    return SimpleNamespace(all=every, soma=somas, at=at, holder=cell)


def resistance_in_neuron(at):
    h = start(DT, V_INIT)
    impedance = h.Impedance()
    impedance.loc(at.x, sec=at.sec)
    impedance.compute(0)
    return float(impedance.input(at.x, sec=at.sec))


def resistance_here(cable):
    system = cable.system(1e15, g_pas=G_PAS, e_pas=E_PAS)
    into = np.zeros(cable.num_nodes)
    into[cable.soma] = 1.0
    x = reference.solve_serial(clhines.Forest(cable.parent), system.d, system.u, into)
    return float(x[cable.soma])


def geometry(cable, cell, found):
    """Compare sections, areas and resistance; return the differences, and NEURON's resistance."""
    ours = sorted(zip(cable.nseg.tolist(), cable.sections.length.tolist()))
    theirs = sorted((s.nseg, s.L) for s in cell.all)
    area = sum(segment.area() for s in cell.all for segment in s)
    resistance = resistance_in_neuron(cell.at)
    off_area = abs(cable.area.sum() / area - 1)
    off_resistance = abs(resistance_here(cable) / resistance - 1)
    wrong = []
    if len(ours) != len(theirs):
        wrong.append(f"{len(ours)} sections, {len(theirs)} in NEURON")
    elif any(n != m or abs(a - b) > AGREED * b for (n, a), (m, b) in zip(ours, theirs)):
        wrong.append("lengths or segments of sections")
    if not off_area <= AGREED:
        wrong.append(f"area {cable.area.sum() / area - 1:+.2%}")
    if not off_resistance <= AGREED:
        wrong.append(f"input resistance {resistance_here(cable) / resistance - 1:+.2%}")
    if not wrong:
        found.largest("area", off_area)
        found.largest("resistance", off_resistance)
    return ", ".join(wrong), resistance


def spikes_in_neuron(cell, amplitude):
    """Return spikes, as steps, and the voltage at the electrode after each step."""
    h = neuron()
    for s in cell.soma or cell.all:
        s.insert("hh")
        s.uninsert("pas")
    clamps, times = [h.IClamp(cell.at) for _ in PULSES], h.Vector()
    for clamp, begin in zip(clamps, PULSES):
        clamp.delay, clamp.dur, clamp.amp = begin, WIDTH, amplitude
    con = h.NetCon(cell.at._ref_v, None, sec=cell.at.sec)
    con.threshold = 0.0
    con.record(times)
    start(DT, V_INIT)
    v = []
    for _ in range(round(DURATION / DT)):
        h.fadvance()
        v.append(cell.at.v)
    return in_steps(times, np.zeros(len(times)), DT), np.array(v)


def spikes_here(cable, soma, amplitude, settings):
    net = clhines.Network(cable)
    net.insert("hh", "soma" if soma else "all")
    if soma:
        net.insert("pas", "dendrites", g=G_PAS, e=E_PAS)
    at = np.repeat(net.soma, len(PULSES))
    net.add("iclamp", at, delay=PULSES, dur=WIDTH, amp=amplitude)
    net.threshold = 0.0
    result = simulate(net, settings, "auto", DURATION, [("v", net.soma)], dt=DT, v_init=V_INIT)
    return in_steps(result.spike_time, result.spike_cell, DT), result[0][1:, 0]


def one_cell(path, max_length, settings, shape, active):
    label = f"{path.name} at {max_length:g} um"
    cell = imported(path, max_length)
    try:
        cable = discretise(read_swc(path), max_length=max_length, Ra=RA, cm=CM)
    except ClhinesError as error:
        if cell is not None:
            shape.case(f"{label}: {error}")
        return
    if cell is None:
        shape.add("not imported by NEURON", 1)
        return
    wrong, resistance = geometry(cable, cell, shape)
    why = DIFFERENT.get(path.name)
    if why is not None:
        shape.add("different on purpose", 1)
        shape.case("" if wrong else f"{label}: equal, but named as different ({why})")
        return
    shape.case(wrong and f"{label}: {wrong}")
    if len(cell.all) and cable.num_nodes > LARGEST:
        active.add("too large to simulate", 1)
        return
    amplitude = DEPOLARISED / resistance
    theirs, v = spikes_in_neuron(cell, amplitude)
    ours, u = spikes_here(cable, bool(cell.soma), amplitude, settings)
    active.add("spikes in NEURON", len(theirs))
    active.add("spikes here", len(ours))
    active.add("cells that spike", len(theirs) > 0)
    text, gap = unlike(ours, theirs), relative(u, v, V_INIT)
    if not text:
        active.largest("relative v", gap)
        text = "" if gap <= V_BOUND else f"voltages differ by {gap:.2g} of the deflection"
    active.case(text and f"{label}: {text}")


def cells(settings):
    if settings.morphologies is None:
        raise MissingError("no folder of morphologies; give --morphologies FOLDER")
    paths = sorted(settings.morphologies.glob("*.swc"), key=lambda p: (p.stat().st_size, p.name))
    if not paths:
        raise MissingError(f"no .swc files in {settings.morphologies.name}")
    outcomes = []
    for length in settings.lengths:
        shape = Outcome("cells", f"sections, area, input resistance at {length:g} um, Import3d")
        active = Outcome(
            "cells", f"hh in the soma, {DURATION:g} ms, at {length:g} um, usetable_hh 0"
        )
        outcomes += [shape, active]
        for path in settings.progress(paths[: settings.files]):
            one_cell(path, length, settings, shape, active)
            for section in list(neuron().allsec()):
                neuron().delete_section(sec=section)
    return outcomes
