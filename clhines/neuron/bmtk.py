"""BMTK's `advance()`, which calls Python after each step, while blocks of steps run here.

BMTK's reports read variables in each step and do nothing else. These are recorded; after a block
the values of one step after another are put into NEURON's memory, and BMTK's own function is called
as often as NEURON would have called it. What `xstim` and `comsol` set outside of cells after each
step depends on its number alone: they are asked for a block ahead of it. A module of any other
class may change the model in a step, and is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from clhines.errors import InputError
from clhines.neuron.drivers import POTENTIAL
from clhines.neuron.entry import advance, num_steps
from clhines.neuron.kept import RunOptions
from clhines.neuron.memory import raw
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.objects import Objects
from clhines.neuron.memory.session import Hoc
from clhines.neuron.read.catalogue import OUTSIDE
from clhines.neuron.read.outside import Ahead
from clhines.neuron.read.wiring import on_ranks

_BIONET = "bmtk.simulator.bionet"
_BASES = f"{_BIONET}.modules.sim_module", "bmtk.simulator.core.modules.simulator_module"
_OWN = "proc {}() {{\n fadvance()\n pysim.post_fadvance()\n}}"
_PLAIN = "proc advance() { fadvance() }"
_MOST = 1 << 22  # potentials outside that are asked for at once
_WHAT = "advance() of BMTK, which calls Python after each step"


class BlockSteps:
    """Runs BMTK's model in blocks; `prepare` is called first in each `h.finitialize()`."""

    def __init__(self, h: Hoc, library: Objects) -> None:
        self._h, self._library = h, library
        self._read: list[tuple[Any, str]] | None = None  # objects, and names of variables
        self._vectors = list[Hoc]()

    def is_needed(self) -> bool:
        """Whether hoc's advance() is BMTK's, and calls BMTK's own function."""
        h, bionet = self._h, sys.modules.get(_BIONET)
        if bionet is None or not h.name_declared("pysim") or h.name_declared("advance") != 1:
            return False
        example, own = "advance_as_in_bmtk", bionet.BioSimulator
        with self._library.example(example, _OWN.format(example)):
            is_same = self._library.is_same("advance", example)
        return bool(is_same and getattr(type(h.pysim), "post_fadvance", 0) is own.post_fadvance)

    def prepare(self) -> None:
        """Let Vectors record what is read in each step: they do so from an initialization on."""
        self._read, self._vectors = None, []
        if self.is_needed():
            try:
                self._read = self._read_in_a_step()
            except InputError:
                return  # which a run raises
            self._vectors = [self._h.Vector().record(raw.ref(*read)) for read in self._read]

    def advance(self, count: Callable[[], int], request: RunOptions, progress: bool) -> int:
        """Advance by `count()` steps, with what BMTK does after each of them."""
        h, sim, done = self._h, self._h.pysim, 0
        read = self._read_in_a_step()
        if on_ranks(h) or getattr(h, "nstep_steprun", 1) != 1:
            raise InputError(f"{_WHAT}: expected one process, and steps_per_ms = 1 / dt")
        if h.t < 0:  # NEURON would take steps, after which BMTK's function is not called
            raise InputError(f"{_WHAT}: h.t is {h.t:g} ms; expected 0 or more")
        if read != self._read:
            raise InputError(f"{_WHAT}: expected h.finitialize() after its modules are initialized")
        self._read = None
        h(_PLAIN)
        try:
            while left := count():
                ends = sim.nsteps_block - sim.tstep % sim.nsteps_block, sim.nsteps - sim.tstep
                steps = min(left, *(n for n in ends if n > 0))
                ahead = self._ahead(sim, steps)
                steps = steps if ahead is None else ahead.steps
                until = partial(num_steps, h, h.t + steps * h.dt)
                ran = advance(h, until, request, progress, ahead=ahead)
                self._replay(sim, [raw.ref(*each) for each in read], ran)
                done += ran
                if ran != steps:  # h.stoprun
                    return done
        finally:
            h(_OWN.format("advance"))
        self._read = read
        return done

    def _ahead(self, sim: Any, steps: int) -> Ahead | None:
        """Return what its modules set outside in steps, not too many; all is as it was then."""
        h, setters = self._h, [mod for mod in _kept(sim, "sim_mods") if _sets_potentials(mod)]
        if not setters:
            return None
        segments = [s for section in h.allsec() if section.has_membrane(OUTSIDE) for s in section]
        references = [raw.ref(segment, POTENTIAL) for segment in segments]
        steps = min(steps, max(_MOST // max(len(segments), 1), 1))
        rows = np.array([[segment.e_extracellular for segment in segments]] * steps)
        try:
            for step in range(1, steps):
                for mod in setters:
                    mod.step(sim, sim.tstep + step - 1)
                rows[step] = [reference[0] for reference in references]
        finally:
            for reference, value in zip(references, rows[0].tolist(), strict=True):
                reference[0] = value
        return Ahead(NeuronMemory(h), references, rows)

    def _read_in_a_step(self) -> list[tuple[Any, str]]:
        try:
            read = list(_read_by(self._h.pysim))
            for each in read:
                raw.ref(*each)
        except InputError as error:
            raise InputError(f"{_WHAT}: {error}") from None
        except (AttributeError, LookupError) as error:
            raise InputError(f"{_WHAT}: {error}; expected the reports of BMTK 1.2") from None
        return read

    def _replay(self, sim: Any, every: list[Any], steps: int) -> None:
        """Do what BMTK does after each of the last steps, with the values of that step."""
        rows = np.array([np.array(v)[-steps:] for v in self._vectors]).reshape(-1, steps)
        last = np.array([reference[0] for reference in every])
        changes = np.flatnonzero((rows != last[:, None]).any(1))
        references = [every[k] for k in changes]
        for vector in self._vectors:
            vector.resize(0)
        try:
            for row in rows[changes].T.tolist():
                for reference, value in zip(references, row, strict=True):
                    reference[0] = value
                sim.post_fadvance()
        finally:
            for reference, value in zip(references, last[changes].tolist(), strict=True):
                reference[0] = value


def _read_by(sim: Any) -> Iterator[tuple[Any, str]]:
    """Yield the objects of NEURON, and names of their variables, that BMTK's modules read."""
    modules = sys.modules[f"{_BIONET}.modules"]
    idle = [sys.modules[name].SimulatorMod.step for name in _BASES]
    for mod in _kept(sim, "sim_mods"):
        if type(mod) in (modules.MembraneReport, modules.SomaReport):
            for cell in map(sim.net.get_cell_gid, _kept(mod, "local_gids")):
                if type(mod) is modules.SomaReport:
                    segments = [cell.soma[0](0.5)]
                else:
                    types, within = cell.morphology.seg_props.type, _kept(mod, "section_types")
                    pairs = zip(cell.morphology.segments, types, strict=False)
                    segments = [segment for segment, what in pairs if what in within]
                names = *_kept(mod, "variables"), *_kept(mod, "transforms")
                yield from ((segment, name) for segment in segments for name in names)
        elif type(mod) is modules.NetconReport:
            every = (x for each in _kept(mod, "object_lookup").values() for x in each)
            yield from ((synapse, name) for synapse in every for name in _kept(mod, "variables"))
        elif type(mod) is modules.ClampReport:
            yield from ((_kept(clamp, "stim"), "i") for clamp in _kept(mod, "clamps"))
        elif type(mod).step not in idle and not _sets_potentials(mod):
            raise InputError(
                f"its {type(mod).__name__} may change the model in a step; expected reports alone"
            )


def _sets_potentials(mod: Any) -> bool:
    """Whether a module of BMTK sets e_extracellular after each step, and nothing else."""
    modules = sys.modules[f"{_BIONET}.modules"]
    return type(mod) in [getattr(modules, name, None) for name in ("XStimMod", "ComsolMod")]


def _kept(thing: Any, name: str) -> Any:
    """Return a private attribute of BMTK."""
    return getattr(thing, f"_{name}")
