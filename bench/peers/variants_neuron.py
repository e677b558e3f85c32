"""A generation of variants in NEURON, a process for each core, for `bench variants`."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench import neurons, record
from bench.peers import variants
from bench.peers.cells import Case, compiled
from bench.peers.cells_neuron import loaded, sections_of

_state: dict[str, Any] = {}  # the cell that this process simulates


def _began(library: str, stop: float) -> None:
    h = loaded(Case(variants.CELL, 1, library=library))
    cable = neurons.cable_of(variants.CELL)
    sections, soma = sections_of(h, variants.CELL, cable)
    clamp = h.IClamp(soma)
    clamp.delay, clamp.dur = variants.window(stop)
    vector = h.Vector().record(soma._ref_v)
    h.cvode_active(0)
    h.dt, h.steps_per_ms, h.secondorder = neurons.DT, round(1 / neurons.DT), 0
    h.celsius = neurons.CELSIUS
    of_soma = list(soma.sec)  # segments
    _state.update(h=h, kept=sections, soma=of_soma, clamp=clamp, vector=vector, stop=stop)


def _simulated(values: Sequence[float]) -> tuple[np.ndarray, float]:
    h, voltages, begin = _state["h"], [], time.process_time()
    for segment in _state["soma"]:
        for (channel, _), value in zip(variants.VARIED, values, strict=True):
            getattr(segment, channel).gbar = value
    for amp in variants.AMPS:
        _state["clamp"].amp = amp
        h.finitialize(neurons.V_INIT)
        h.continuerun(_state["stop"])
        voltages.append(np.array(_state["vector"]))
    return np.stack(voltages), time.process_time() - begin


def main(arguments: Sequence[str]) -> None:
    count, stop, path = int(arguments[0]), float(arguments[1]), arguments[2]
    from neuron import __version__

    start, cores = time.perf_counter(), record.cores()
    with tempfile.TemporaryDirectory() as folder:
        library = str(compiled(Path(folder), tables=False, core=False))
        context = multiprocessing.get_context("spawn")
        with context.Pool(cores, _began, (library, stop)) as pool:
            values = variants.sets(count).tolist()
            pool.map(_ready, range(cores), chunksize=1)
            made = time.perf_counter()
            voltages, used = zip(*pool.map(_simulated, values, chunksize=1), strict=True)
            done = time.perf_counter()
    v = np.stack(voltages)
    t = np.arange(v.shape[-1]) * neurons.DT
    features, seconds = variants.timed_features(v, t, stop)
    variants.Generation(
        f"NEURON {__version__}",
        f"{cores} processes",
        made - start,
        done - made,
        seconds,
        sum(used),
        features,
        ["channels compiled by nrnivmodl, with exact rates; first s has the compilation"],
    ).write(path)


def _ready(_: int) -> None:
    """Wait a little, so that every process gets one of these and has built its cell."""
    time.sleep(0.2)
