"""A generation of variants in NEURON, a process for each core, for `bench variants`."""

from __future__ import annotations

import multiprocessing
import os
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench import neurons
from bench.measures.checks import common
from bench.peers import variants

_FRAME = """NEURON {{ THREADSAFE SUFFIX {name} NONSPECIFIC_CURRENT i RANGE gbar }}
PARAMETER {{ gbar = 0 (S/cm2) e = {reversal} (mV) }}
ASSIGNED {{ v (mV) i (mA/cm2) qt {assigned} }}
STATE {{ {states} }}
BREAKPOINT {{ SOLVE states METHOD cnexp i = {current} }}
INITIAL {{ rates() {initial} }}
DERIVATIVE states {{ rates() {derivatives} }}
PROCEDURE rates() {{
    qt = 2.3^((34 - 21)/10)
    {rates}
}}
"""
_state: dict[str, Any] = {}  # of a process: the cell that it simulates


def nmodl(name: str) -> str:
    """Return a channel of `neurons.CHANNELS` in NEURON's language."""
    reversal, body = neurons.BODIES[name]
    states, initial, derivatives, rates, assigned, current = [], [], [], [], [], ""
    for line in filter(None, map(str.strip, body.splitlines())):
        line = re.sub(r"\s*\[[^\]]*\]$", "", line)
        left, right = (side.strip() for side in line.split("=", 1))
        if left.startswith("state "):
            states.append(left[6:])
            initial.append(f"{left[6:]} = {right}")
        elif found := re.fullmatch(r"d(\w+)/dt", left):
            derivatives.append(f"{found[1]}' = {right}")
        elif left == "current i":
            current = right
        else:
            assigned.append(left)
            rates.append(_assignment(left, right))
    return _FRAME.format(
        name=name,
        reversal=reversal,
        assigned=" ".join(assigned),
        states=" ".join(states),
        current=current,
        initial=" ".join(initial),
        derivatives=" ".join(derivatives),
        rates="\n    ".join(rates),
    )


def _assignment(left: str, right: str) -> str:
    """Return a line; ``a + where(c, x, y)`` becomes an if."""
    head, found, rest = right.partition("where(")
    if not found:
        return f"{left} = {right}"
    depth, parts = 0, [""]
    for letter in rest.rstrip()[:-1]:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    condition, first, second = map(str.strip, parts)
    return f"if ({condition}) {{ {left} = {head}{first} }} else {{ {left} = {head}{second} }}"


def _began(library: str, stop: float) -> None:
    """Build the cell in this process."""
    h = common.neuron()
    h.load_file("stdrun.hoc")
    h.nrn_load_dll(library)
    cable = neurons.cable_of("l5pc")
    sections = common.neuron_cell(cable).sections
    region = neurons.regions(cable)[cable.first_node]
    for channel, by_region in neurons.FIRING.items():
        for section, kind in zip(sections, region.tolist(), strict=True):
            if by_region.get(kind, 0.0) > 0:
                section.insert(channel)
                density = "g_pas" if channel == "pas" else f"gbar_{channel}"
                setattr(section, density, by_region[kind])
                if channel == "pas":
                    section.e_pas = neurons.E_PAS
    clamp = h.IClamp(sections[0](0.5))
    clamp.delay, clamp.dur = variants.window(stop)
    vector = h.Vector().record(sections[0](0.5)._ref_v)
    h.cvode_active(0)
    h.dt, h.steps_per_ms, h.secondorder = neurons.DT, round(1 / neurons.DT), 0
    soma = [s for s, kind in zip(sections, region.tolist(), strict=True) if kind == neurons.SOMA]
    _state.update(h=h, sections=sections, soma=soma, clamp=clamp, vector=vector, stop=stop)


def _simulated(values: Sequence[float]) -> np.ndarray:
    """Simulate one variant under all protocols: (protocols, times), mV."""
    h, found = _state["h"], []
    for section in _state["soma"]:
        for (channel, _), value in zip(variants.VARIED, values, strict=True):
            setattr(section, f"gbar_{channel}", value)
    for amp in variants.AMPS:
        _state["clamp"].amp = amp
        h.finitialize(neurons.V_INIT)
        h.continuerun(_state["stop"])
        found.append(np.array(_state["vector"]))
    return np.stack(found)


def main(arguments: Sequence[str]) -> None:
    """Simulate ``COUNT STOP``, ms, and write a `variants.Generation` to ``FILE``."""
    count, stop, path = int(arguments[0]), float(arguments[1]), arguments[2]
    from neuron import __version__

    start, cores = time.perf_counter(), os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        for name in neurons.CHANNELS:
            Path(folder, f"{name}.mod").write_text(nmodl(name), "utf-8")
        library = str(common.compiled(Path(folder), Path(folder)))
        context = multiprocessing.get_context("spawn")
        with context.Pool(cores, _began, (library, stop)) as pool:
            values = variants.sets(count).tolist()
            pool.map(_ready, range(cores), chunksize=1)
            made = time.perf_counter()
            v = np.stack(pool.map(_simulated, values, chunksize=1))
            done = time.perf_counter()
    t = np.arange(v.shape[-1]) * neurons.DT
    features, seconds = variants.timed_features(v, t, stop)
    variants.Generation(
        f"NEURON {__version__}",
        f"{cores} processes",
        made - start,
        done - made,
        seconds,
        features,
        ["channels compiled by nrnivmodl, with exact rates; first s has the compilation"],
    ).write(path)


def _ready(_: int) -> None:
    """Wait a little, so that every process gets one of these and has built its cell."""
    time.sleep(0.2)
