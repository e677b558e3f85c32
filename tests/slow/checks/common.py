"""Shared parts of the checks: outcomes, NEURON's cells, and its compiled mechanisms."""

import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyopencl as cl

import clhines
from bench import MissingError, nrn
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cells.morphology import Morphology

MOD_FOLDER = Path(__file__).resolve().parents[3] / "tests" / "mod"
EPS = float(np.finfo(np.float64).eps)


@dataclass
class Outcome:
    """The outcome of one check."""

    check: str
    what: str
    cases: int = 0
    failures: list[str] = field(default_factory=list)
    figures: dict[str, float | int] = field(default_factory=dict)
    skipped: str = ""

    @property
    def passed(self):
        return bool(self.skipped) or (self.cases > 0 and not self.failures)

    def largest(self, name, value):
        """Keep the largest value of a figure; NaN counts as infinite."""
        value = float("inf") if np.isnan(value) else float(value)
        self.figures[name] = max(self.figures.get(name, 0.0), value)

    def add(self, name, count):
        self.figures[name] = self.figures.get(name, 0) + int(count)

    def case(self, wrong=""):
        """Count one case; `wrong`, if any, says how it failed."""
        self.cases += 1
        if wrong:
            self.failures.append(wrong)


@dataclass(frozen=True)
class Settings:
    """Sizes of the checks; the defaults make the published table."""

    queue: cl.CommandQueue
    seeds: int = 100
    duration: float = 500.0
    morphologies: Path | None = None
    files: int | None = None
    lengths: tuple[float, ...] = (20.0, 5.0)
    engines: tuple[str, ...] = ("epochs", "steps", "reference")
    progress: Callable[[Any], Any] = lambda items: items


@lru_cache(maxsize=1)
def neuron():
    try:
        from neuron import h
    except ImportError as error:
        raise MissingError(f"NEURON is not installed: {error}") from error
    h.load_file("stdrun.hoc")
    h.load_file("import3d.hoc")
    return h


def start(dt, v_init, secondorder=False, table=False):
    """Set NEURON's globals to the arguments and its defaults, and initialise it."""
    h = neuron()
    h.cvode.active(0)
    h.usetable_hh = int(table)
    h.secondorder = 2 if secondorder else 0
    h.dt = dt
    h.finitialize(v_init)
    return h


def load_mechanisms(keep=None):
    """Compile and load the .mod files of `MOD_FOLDER`, once in a process."""
    h = neuron()
    if hasattr(h, "chkshunt"):  # one of them
        return
    texts = [path.read_bytes() for path in sorted(MOD_FOLDER.glob("*.mod"))]
    digest = hashlib.sha256(b"".join([h.nrnversion(5).encode(), *texts])).hexdigest()[:16]
    kept = keep and keep / f"clhines-mod-{digest}.so"
    if kept and kept.is_file():
        h.nrn_load_dll(str(kept))
        return
    with tempfile.TemporaryDirectory(prefix="clhines-mod-", dir=keep) as folder:
        library = nrn.compiled(Path(folder), str(MOD_FOLDER))
        if kept:
            library = library.replace(kept)
        h.nrn_load_dll(str(library))  # a loaded library stays loaded without its file


def neuron_cell(cable):
    """Make NEURON's sections from ours: the same points, connections and numbers of segments."""
    h, ours, sections = neuron(), cable.sections, []
    for s in range(ours.num_sections):
        section = h.Section(name=f"section{s}")
        for point in ours.points[ours.offsets[s] : ours.offsets[s + 1]].tolist():
            section.pt3dadd(*point)
        section.Ra, section.cm, section.nseg = cable.Ra, cable.cm, int(cable.nseg[s])
        if s > 0:
            section.connect(sections[int(ours.parent[s])](float(ours.parent_x[s])), 0)
        sections.append(section)
    segments = {
        int(cable.first_node[s]) + k: segment
        for s, section in enumerate(sections)
        for k, segment in enumerate(section)
    }
    return SimpleNamespace(sections=sections, segments=segments)


def compartment(diameter=20.0):
    """Return a cell of one compartment: a sphere."""
    one = np.ones(1, np.int64)
    cell = Morphology(-one, np.zeros((1, 3)), np.array([diameter / 2]), one, one, 0 * one)
    return discretise(cell, max_length=1e6)


def in_steps(time, cell, dt):
    """Spikes as pairs of step and cell, in order."""
    steps = np.rint(np.asarray(time, float) / dt).astype(int)
    return sorted(zip(steps.tolist(), np.asarray(cell, int).tolist()))


def unlike(ours, theirs):
    """Return the first difference between two spike lists as text; empty if they are equal."""
    if ours == theirs:
        return ""
    common = sum(a == b for a, b in zip(ours, theirs))
    k = next(
        (k for k, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(map(len, (ours, theirs)))
    )
    first = [f"step {s[k][0]} cell {s[k][1]}" if k < len(s) else "none" for s in (theirs, ours)]
    return (
        f"{len(theirs)} spikes in NEURON, {len(ours)} here, {common} equal; number {k + 1} is "
        f"{first[0]} in NEURON, {first[1]} here"
    )


def relative(ours, theirs, rest=0.0):
    """Return the largest difference of two series over NEURON's largest deflection from `rest`."""
    ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
    scale = np.abs(theirs - rest).max()
    if ours.shape != theirs.shape or not scale > 0:
        return float("inf")
    gap = np.abs(ours - theirs).max()
    return float("inf") if np.isnan(gap) else float(gap / scale)


def simulate(network, settings, engine, duration, record=(), **options):
    simulation = clhines.Simulation(network, queue=settings.queue, engine=engine, **options)
    for what, where in record:
        simulation.record(what, where)
    return simulation.run(duration)
