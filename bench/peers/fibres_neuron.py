"""Fibres in a field in NEURON, one after another in one process or in several."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench import nrn, record
from clhines.simulator.fields import fibres

MODS = Path(__file__).parents[1] / "mods" / "fibres"
NODES, DT, AT, CURRENT = 21, 0.005, (0.0, 0.0, 1000.0), 500.0  # ms, µm, µA
PULSE = ([0.1, 0.2], [-1.0, 0.0])  # ms; steps
FIBRES = {"mrg": (10.0, 36.0), "senn": (20.0, 20.0)}  # diameter, µm; temperature, °C
_state: dict[str, Any] = {}


def _mrg(h: Any) -> list[Any]:
    diameter, _ = FIBRES["mrg"]
    fibre, axon, node, apart, flut, lamellae = fibres.TABLE[fibres.TABLE[:, 0] == diameter][0]
    length = {"N": 1.0, "M": 3.0, "F": flut, "S": (apart - 7 - 2 * flut) / 6}
    sections = list[Any]()
    for k, kind in enumerate(("N" + fibres.INTERNODE) * (NODES - 1) + "N"):
        one = h.Section(name=f"{kind}{k}")
        inner = node if kind in "NM" else axon
        outer, width = node if kind == "N" else fibre, 0.002 if kind in "NM" else 0.004
        one.L, one.diam, one.Ra = length[kind], outer, 70.0 * (outer / inner) ** 2
        one.cm = 2.0 * inner / outer
        one.insert("extracellular")
        ring = np.pi * ((inner / 2 + width) ** 2 - (inner / 2) ** 2)
        one(0.5).xraxial[0] = 0.7e4 / ring
        if kind == "N":
            one.insert("node_mrg")
            one(0.5).xg[0], one(0.5).xc[0] = 1e10, 0.0
        else:
            one.insert("pas")
            one(0.5).pas.g = (1e-3 if kind == "M" else 1e-4) * inner / outer
            one(0.5).pas.e = -80.0
            one(0.5).xg[0], one(0.5).xc[0] = 1e-3 / (2 * lamellae), 0.1 / (2 * lamellae)
        sections.append(one)
    return sections


def _senn(h: Any) -> list[Any]:
    diameter, _ = FIBRES["senn"]
    sections = list[Any]()
    for k in range(NODES):
        one = h.Section(name=f"N{k}")
        one.L, one.diam, one.cm = 2.5, 0.7 * diameter, 2.0
        one.Ra = 110.0 * 100 * diameter / 2.5
        one.insert("extracellular")
        one.insert("node_fh")
        sections.append(one)
    return sections


def _began(library: str, name: str) -> None:
    from neuron import h

    h.load_file("stdrun.hoc")
    h.nrn_load_dll(library)
    made = fibres.myelinated([10.0], NODES) if name == "mrg" else fibres.senn([20.0], NODES)
    sections = _mrg(h) if name == "mrg" else _senn(h)
    for before, one in zip(sections, sections[1:], strict=False):
        one.connect(before(1), 0)
    from clhines.simulator.fields import point_potential

    potential, kept = CURRENT * point_potential(made.geometry, AT)[: len(sections)], list[Any]()
    t = h.Vector(PULSE[0])
    for one, mv in zip(sections, potential.tolist(), strict=True):
        kept.append(h.Vector(PULSE[1]).mul(mv))
        kept[-1].play(one(0.5)._ref_e_extracellular, t, False)
    h.cvode.active(0)
    h.celsius, h.dt, h.secondorder = FIBRES[name][1], DT, 0
    _state.update(h=h, sections=sections, kept=(kept, t), v_init=made.v_init)
    _state["v"] = h.Vector().record(sections[-2 if name == "senn" else -12](0.5)._ref_v)


def _run(stop: float) -> tuple[list[float], float]:
    h = _state["h"]
    h.finitialize(_state["v_init"])
    begin = time.process_time()
    h.continuerun(stop)
    return list(_state["v"]), time.process_time() - begin


def main(arguments: Sequence[str]) -> None:
    """Run fibres ``NAME`` for ``STOP`` ms, ``COUNT`` on each core; write ``FILE``."""
    name, stop, count, path = arguments[0], float(arguments[1]), int(arguments[2]), arguments[3]
    from neuron import __version__

    cores = record.cores()
    with tempfile.TemporaryDirectory() as folder:
        for file in MODS.glob("*.mod"):
            shutil.copy(file, folder)
        library = str(nrn.compiled(Path(folder)))
        context = multiprocessing.get_context("spawn")
        with context.Pool(1, _began, (library, name)) as pool:
            alone = pool.map(_run, [stop] * (count + 1), chunksize=1)
        with context.Pool(cores, _began, (library, name)) as pool:
            pool.map(_run, [DT] * 4 * cores, chunksize=1)
            together = pool.map(_run, [stop] * count * cores, chunksize=1)
    result = {
        "version": __version__,
        "cores": cores,
        "v": alone[0][0],
        "one": sum(seconds for _, seconds in alone[1:]) / count,  # s for each fibre
        "all": sum(seconds for _, seconds in together) / (count * cores) / cores,
    }
    Path(path).write_text(json.dumps(result), "utf-8")
