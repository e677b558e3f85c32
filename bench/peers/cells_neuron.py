"""Copies of a neuron in NEURON and in CoreNEURON, for `bench.peers.cells`."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench import MissingError, neurons
from bench.peers.cells import Case, Running
from bench.peers.neuron import advancing, bare_sections
from bench.peers.ring import Clock
from clhines.simulator.cells.cable import Cable


def loaded(case: Case) -> Any:
    from neuron import h

    h.load_file("stdrun.hoc")
    folder = Path(case.library or "")
    (library,) = folder.glob("libnrnmech.*")
    for core in folder.glob("libcorenrnmech.*"):
        os.environ["CORENEURONLIB"] = str(core)
    if not h.nrn_load_dll(str(library)):
        raise MissingError("NEURON does not load the mechanisms")
    return h


def sections_of(h: Any, name: str, cable: Cable) -> tuple[list[Any], Any]:
    sections, neuron = bare_sections(h, cable), neurons.NEURONS[name]
    density = {c: neurons.density_of(name, c, cable) for c in neuron.densities}
    soma = None
    for s, section in enumerate(sections):
        first = int(cable.first_node[s])
        nodes = range(first, first + int(cable.nseg[s]))
        for channel, values in density.items():
            if not values[nodes].any():
                continue
            section.insert(channel)
            for node, segment in zip(nodes, section):
                value = float(values[node])
                setattr(getattr(segment, channel), neurons.given_as(channel), value)
        if any(density["pas"][nodes]):
            section.e_pas = neurons.E_PAS
        for ion, e in (("na", neurons.E_NA), ("k", neurons.E_K), ("ca", neurons.E_CA)):
            fixed = "e" in neuron.ions.get(ion, {"e": e})
            if fixed and hasattr(section(0.5), f"{ion}_ion"):
                setattr(section, f"e{ion}", e)
        if int(cable.soma) in nodes:
            soma = list(section)[int(cable.soma) - first]
    return sections, soma


def neuron_start(case: Case, clock: Clock, core: bool) -> Running:
    """Return the copies in NEURON's fixed step, or handed to CoreNEURON."""
    from neuron import __version__

    cable = case.cable()
    h = loaded(case)
    h.cai0_ca_ion, h.cao0_ca_ion = neurons.CI, neurons.CO
    with clock.part("build"):
        pc = h.ParallelContext()
        kept, somas = [], []
        for gid in range(case.copies):
            sections, soma = sections_of(h, case.cell, cable)
            clamp = h.IClamp(soma)
            clamp.delay, clamp.dur = neurons.START, 1e6
            clamp.amp = neurons.NEURONS[case.cell].amp
            source = h.NetCon(soma._ref_v, None, sec=soma.sec)
            source.threshold = neurons.THRESHOLD
            pc.set_gid2node(gid, pc.id())
            pc.cell(gid, source)
            kept.append((sections, clamp, source))
            somas.append(soma)
        pc.nthread(case.threads)
        recorded = [h.Vector().record(soma._ref_v) for soma in (somas[0], somas[-1])]
        h.celsius, h.dt, h.secondorder = neurons.CELSIUS, neurons.DT, 0
        h.cvode.active(0)
        pc.set_maxstep(10)
        h.finitialize(neurons.V_INIT)
    notes = ["the time that its solver prints; copying the model to it is left out"] * core
    return Running(
        name=f"{'CoreNEURON' if core else 'NEURON'} {__version__}",
        where=f"{case.threads} threads",
        advance=advancing(pc, neurons.DT, core),
        voltages=lambda: [np.array(vector).tolist() for vector in recorded],
        built=clock.parts,
        notes=notes,
        keep=(kept, somas, pc),
    )


neuron = partial(neuron_start, core=False)
coreneuron = partial(neuron_start, core=True)
