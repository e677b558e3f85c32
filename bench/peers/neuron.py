"""The ring network in NEURON and in CoreNEURON, for `bench.peers.ring`."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench import MissingError, ring
from bench.peers.ring import CELSIUS, Case, Clock, Running, printed_to, totals
from clhines.simulator.cells.cable import Cable


def bare_sections(h: Any, cable: Cable) -> list[Any]:
    """Return NEURON's sections for a cell without mechanisms; the first holds the soma."""
    ours, sections = cable.sections, []
    for s in range(ours.num_sections):
        section = h.Section(name=f"s{s}")
        for point in ours.points[ours.offsets[s] : ours.offsets[s + 1]].tolist():
            section.pt3dadd(*point)
        section.nseg, section.Ra, section.cm = int(cable.nseg[s]), cable.Ra, cable.cm
        if s:
            section.connect(sections[ours.parent[s]](float(ours.parent_x[s])), 0)
        sections.append(section)
    return sections


def neuron_cell(h: Any, cable: Cable, hh_everywhere: bool) -> list[Any]:
    sections = bare_sections(h, cable)
    for s, section in enumerate(sections):
        if s == 0 or hh_everywhere:
            section.insert("hh")
        else:
            section.insert("pas")
            section.g_pas, section.e_pas = ring.G_PAS, ring.E_PAS
    return sections


def neuron_ring(h: Any, pc: Any, case: Case, cables: list[Cable]) -> list[Any]:
    """Make and connect the cells; return objects to keep, connections from cell c at ``[c]``."""
    cells, sources = [], []
    for gid in range(case.cells):
        sections = neuron_cell(h, cables[gid % len(cables)], case.hh == "all")
        soma = sections[0](0.5)
        synapse = h.ExpSyn(soma)
        synapse.tau, synapse.e = ring.TAU, ring.REVERSAL
        pc.set_gid2node(gid, pc.id())
        source = h.NetCon(soma._ref_v, None, sec=sections[0])
        source.threshold = ring.THRESHOLD
        pc.cell(gid, source)
        sources.append(source)
        cells.append((sections, synapse))
    into = []
    for gid in range(case.cells):
        connection = pc.gid_connect((gid - 1) % case.cells, cells[gid][1])
        connection.weight[0], connection.delay = ring.WEIGHT, ring.DELAY
        into.append(connection)
    return [into, cells, sources]


def advancing(pc: Any, dt: float, core: bool) -> Callable[[int], float | None]:
    """Return a function that goes on by steps; for CoreNEURON it returns its solver's seconds."""
    from neuron import coreneuron

    steps_done = 0
    if core:
        coreneuron.enable, coreneuron.verbose = True, 2  # it says then how long it took

    def advance(steps: int) -> float | None:
        nonlocal steps_done
        steps_done += steps
        if not core:
            pc.psolve(steps_done * dt)
            return None
        with tempfile.TemporaryFile() as said:
            with printed_to(said):
                pc.psolve(steps_done * dt)
            said.seek(0)
            times = re.findall(rb"Solver Time : ([0-9.eE+-]+)", said.read())
        if len(times) != 1:
            raise MissingError("CoreNEURON did not say how long its solver took")
        return float(times[0])

    return advance


def neuron_start(case: Case, core: bool) -> Running:
    from neuron import __version__, h

    clock = Clock()
    cables = case.cables()
    with clock.part("build"):
        h.load_file("stdrun.hoc")
        pc = h.ParallelContext()
        kept = neuron_ring(h, pc, case, cables)
        pc.nthread(case.threads)
        times, cells = h.Vector(), h.Vector()
        pc.spike_record(-1, times, cells)
        h.celsius, h.dt, h.secondorder = CELSIUS, case.dt, 0
        h.cvode.active(0)
        pc.set_maxstep(10)
        h.finitialize(ring.V_INIT)
        kept[0][0].event(ring.START)

    def spikes() -> tuple[np.ndarray, np.ndarray]:
        return np.array(times), np.array(cells).astype(int)

    nodes = sum(1 + c.sections.num_sections + int(c.nseg.sum()) for c in cables)
    notes = [
        "a node without membrane at the end of each section, tips and roots too; rates of HH from "
        "tables, linearly interpolated"
    ]
    if core:
        notes.append("the time that its solver prints; copying the model to it is in plan s")
    return Running(
        name=f"{'CoreNEURON' if core else 'NEURON'} {__version__}",
        where=f"{case.threads} threads",
        compartments=totals(case, cables),
        nodes=round(nodes * case.cells / len(cables)),
        advance=advancing(pc, case.dt, core),
        spikes=spikes,
        built=clock.parts,
        notes=notes,
        keep=kept,
    )


neuron = partial(neuron_start, core=False)
coreneuron = partial(neuron_start, core=True)
