"""Potentials of LFPy's probes and NetPyNE's `recordLFP`, computed after a run.

Both read `i_membrane_` in Python: LFPy in a loop around `fadvance`, NetPyNE in an event for each
sample. While the switch is on, Vectors record `i_membrane_` instead, in a run by `continuerun` or
`psolve`, and all samples are then multiplied with the frameworks' matrices. `install` replaces the
two functions of the frameworks, also if a script imports them later.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np

from clhines.core.arrays import half_steps
from clhines.neuron.frameworks import fibers
from clhines.neuron.memory.raw import ref

MOST = 1 << 28  # samples for all segments; above, the frameworks' own functions run
_RUN = "_Cell__run_simulation"  # LFPy's function for runs without probes
_Adapter = Callable[..., Any]  # called with the framework's function and its arguments


def run_with_probes(
    original: _Adapter,
    cell: Any,
    cvode: Any,
    probes: Sequence[Any] = (),
    variable_dt: bool = False,
    *others: Any,
    **named: Any,
) -> None:
    """Run LFPy's cell and fill its probes' `data`, in place of `_run_simulation_with_probes`."""
    columns = int(cell.tstop / cell.dt) + 1
    to_file = named.get("to_file", len(others) > 3 and others[3])
    if variable_dt or to_file or columns * cell.totnsegs > MOST:
        original(cell, cvode, probes, variable_dt, *others, **named)
        return
    matrices = [probe.get_transformation_matrix() for probe in probes]
    segments = (segment for section in cell.allseclist for segment in section)
    vectors = _recording(segments, cell.dt)
    getattr(cell, _RUN)(cvode)
    rows = np.array([vector.as_numpy() for vector in vectors])[:, :columns]
    for probe, matrix in zip(probes, matrices, strict=True):
        probe.data = np.zeros((len(matrix), columns))
        probe.data[:, : rows.shape[1]] = matrix @ rows


def run_sim(original: _Adapter, skipPreRun: bool = False) -> None:
    """Run NetPyNE's network and store its LFP and membrane currents, in place of `runSim`."""
    from neuron import h

    sim = sys.modules["netpyne.sim"]
    cfg: Any = sim.cfg
    if skipPreRun or not (cfg.recordLFP or cfg.saveIMembrane):
        original(skipPreRun)
        return
    segments = sum(cell.getNumberOfSegments() for cell in sim.net.compartCells)
    if segments * cfg.duration / cfg.recordStep > MOST or cfg.recordStep <= cfg.dt / 2:
        original(skipPreRun)
        return
    wanted = cfg.recordLFP, cfg.saveIMembrane
    cfg.recordLFP, cfg.saveIMembrane = [], False  # preRun() then adds no events
    try:
        sim.preRun()
    finally:
        cfg.recordLFP, cfg.saveIMembrane = wanted
    times, clock = samples(float(cfg.dt), float(cfg.recordStep), float(cfg.duration))
    early = times < cfg.duration - 1.5 * cfg.dt
    late, at = times[~early].tolist(), h.Vector(times[early])  # `at` must outlive the recording

    def add_late() -> None:
        """Add NetPyNE's own events for samples that come too late for NEURON's Vectors."""
        for t in late:
            sim.cvode.event(t, sim.calculateLFP)

    handler = h.FInitializeHandler(0, add_late)
    vectors = [
        _recording((segment for s in cell.secs.values() for segment in s["hObj"]), at)
        for cell in sim.net.compartCells
    ]
    original(True)
    del handler
    for cell, of_cell in zip(sim.net.compartCells, vectors, strict=True):
        rows = np.array([vector.as_numpy() for vector in of_cell]).T
        row = np.floor(clock[: len(rows)] / cfg.recordStep).astype(int) - 1
        _fill(sim, cell.gid, row, rows)


def samples(dt: float, interval: float, stop: float) -> tuple[np.ndarray, np.ndarray]:
    """Return when NetPyNE samples the LFP: the times of its events, and NEURON's clock then, ms.

    NEURON delivers an event in the first step whose middle is not before the event, while the clock
    is at the step's begin. Each event schedules the next one an interval after that clock.
    """
    halves = half_steps(0.0, dt, 2 * round(stop / dt) + 4)
    begins, middles = halves[:-1:2], halves[1::2]
    times, clock = [begins[0] + interval], list[float]()
    while (step := int(np.searchsorted(middles, times[-1]))) < len(begins):
        clock.append(begins[step])
        times.append(begins[step] + interval)
    return np.array(times[: len(clock)]), np.array(clock)


def _fill(sim: Any, gid: int, row: np.ndarray, currents: np.ndarray) -> None:
    """Store `currents` (nA) of a cell's samples `row`, and add their potentials to the LFP."""
    cfg, data = sim.cfg, sim.simData
    if cfg.saveIMembrane and gid in data["iMembrane"]:
        data["iMembrane"][gid][row] = currents
    if not cfg.recordLFP:
        return
    potentials = currents @ sim.net.recXElectrode.getTransferResistance(gid).T
    if cfg.saveLFPPops and gid in sim.net.popForEachGid:
        np.add.at(data["LFPPops"][sim.net.popForEachGid[gid]], row, potentials)
    if cfg.saveLFPCells and gid in data["LFPCells"]:
        data["LFPCells"][gid][row] = potentials
    np.add.at(data["LFP"], row, potentials)


def _recording(segments: Iterable[Any], at: object) -> list[Any]:
    """Return Vectors that record `i_membrane_` of segments at an interval or Vector `at`, ms."""
    from neuron import h

    return [h.Vector().record(ref(segment, "i_membrane_"), at) for segment in segments]


_ADAPTERS: dict[str, tuple[str, _Adapter]] = {
    "LFPy.cell": ("_run_simulation_with_probes", run_with_probes),
    "netpyne.sim.run": ("runSim", run_sim),
    "pyfibers.stimulation": ("ScaledStim.run_sim", fibers.run_sim),
}


class _Finder(MetaPathFinder):
    """Import finder that replaces the frameworks' functions when a script imports them."""

    def __init__(self, is_on: Callable[[], bool]) -> None:
        self._is_on = is_on

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name not in _ADAPTERS:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self.adapt(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def adapt(self, module: ModuleType) -> None:
        """Replace a module's function, also in the package that exports it under the same name."""
        path, adapter = _ADAPTERS[module.__name__]
        of_class, _, name = path.rpartition(".")
        owner = getattr(module, of_class, None) if of_class else module
        original = getattr(owner, name, None)
        if original is None:  # another framework version
            return

        @wraps(original)
        def adapted(*arguments: Any, **named: Any) -> Any:
            if not self._is_on():
                return original(*arguments, **named)
            return adapter(original, *arguments, **named)

        package = sys.modules.get(module.__name__.rpartition(".")[0])
        for place in (owner, package):
            if getattr(place, name, None) is original:
                setattr(place, name, adapted)


def install(is_on: Callable[[], bool]) -> None:
    """Replace the frameworks' functions, now or when they are imported; active while `is_on()`."""
    finder = _Finder(is_on)
    for name in _ADAPTERS.keys() & sys.modules.keys():
        finder.adapt(sys.modules[name])
    sys.meta_path.insert(0, finder)
