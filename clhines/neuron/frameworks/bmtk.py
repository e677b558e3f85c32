"""BMTK's `advance()`, which calls Python after each step: the variables that its reports read.

BMTK's reports and its `ecp` read variables in each step and do nothing else. A module of any other
class may change the model in a step, and is refused. NEURON takes the last step of a block, in
which every module may change the model.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any

from clhines.core.errors import InputError
from clhines.neuron.frameworks.step_code import StepCode
from clhines.neuron.memory import raw
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.session import Hoc
from clhines.neuron.model import NeuronModel
from clhines.neuron.read.places import MemoryPlaces, Variable
from clhines.simulator.mechanisms import Program

_BIONET = "bmtk.simulator.bionet"
_BASES = f"{_BIONET}.modules.sim_module", "bmtk.simulator.core.modules.simulator_module"
_CALLED = "post_fadvance"
_OBJREF = 2  # of name_declared


def is_loaded(h: Hoc) -> bool:
    """Whether hoc's `pysim` is BMTK's simulator, with BMTK's own function of each step."""
    bionet = sys.modules.get(_BIONET)
    if bionet is None or h.name_declared("pysim") != _OBJREF:
        return False
    return getattr(type(h.pysim), _CALLED, 0) is getattr(bionet.BioSimulator, _CALLED)


def step_code(model: NeuronModel) -> StepCode:
    """Return BMTK's function of each step; an InputError: it cannot be supported."""
    h, variables = model.h, reads(model.h, model.memory, model.places)
    _check(model, variables)

    def call() -> None:
        h.pysim.post_fadvance()

    return StepCode("advance() of BMTK", variables, call, partial(steps_of_block, h))


def _check(model: NeuronModel, variables: dict[raw.Place, Variable]) -> None:
    """Refuse variables whose value in BMTK may differ from the recorded one.

    NEURON records before it delivers the events of the second half of a step.
    """
    played = {(p.variable.owner, p.variable.name, p.variable.number): p for p in model.players}
    for variable in variables.values():
        owner, name = variable.owner, variable.name
        if (owner, name, variable.number) in played:
            what = played[owner, name, variable.number].what
            raise InputError(f"reads {name} of {owner}, which {what} sets")
        if (owner, name) == ("", "v"):
            late = [n for n, m in model.mechanisms.items() if m.program.sets_v]
        else:
            mechanism = model.mechanisms.get(owner)
            late = [owner] if mechanism and name in set_by_events(mechanism.program) else []
        if late:
            of = f" of {owner}" if owner else ""
            raise InputError(f"reads {name}{of}, which events of {late[0]} set late in a step")


def set_by_events(program: Program) -> set[str]:
    """Return names of variables that NET_RECEIVE sets."""
    set_ = {
        argument.name
        for block, arguments in program.blocks.items()
        if block == "receive" or block.startswith("for_netcons")
        for argument in arguments
        if argument.direction != "in"
    }
    return {(q.public or q.name).split("[")[0] for q in program.states if q.name in set_}


def steps_of_block(h: Hoc) -> int:
    """Return the steps up to the end of BMTK's block, or of its run."""
    sim = h.pysim
    ends = sim.nsteps_block - sim.tstep % sim.nsteps_block, sim.nsteps - sim.tstep
    return min(n for n in ends if n > 0)


def reads(h: Hoc, memory: NeuronMemory, places: MemoryPlaces) -> dict[raw.Place, Variable]:
    """Return the variables that BMTK's modules read in each step, by place."""
    variables = dict[raw.Place, Variable]()
    try:
        for thing, name in _read_by(h):
            place = memory.place(raw.ref(thing, name))
            variable = places.find(place)
            if variable is None or variable.number < 0:
                raise InputError(f"reads {name} of {thing}, which cannot be recorded")
            variables[place] = variable
    except (AttributeError, LookupError) as error:
        raise InputError(f"fails: {error}; expected the reports of BMTK 1.2") from None
    return variables


def _read_by(h: Hoc) -> Iterator[tuple[Any, str]]:
    """Yield the objects of NEURON, and names of their variables, that BMTK's modules read."""
    sim, modules = h.pysim, sys.modules[f"{_BIONET}.modules"]
    idle = [sys.modules[name].SimulatorMod.step for name in _BASES]
    for mod in _kept(sim, "sim_mods"):
        if type(mod) in (modules.MembraneReport, modules.SomaReport):
            yield from _read_by_report(sim, mod, only_somas=type(mod) is modules.SomaReport)
        elif type(mod) is modules.NetconReport:
            every = chain.from_iterable(_kept(mod, "object_lookup").values())
            yield from ((synapse, name) for synapse in every for name in _kept(mod, "variables"))
        elif type(mod) is modules.ClampReport:
            yield from ((_kept(clamp, "stim"), "i") for clamp in _kept(mod, "clamps"))
        elif type(mod) is modules.EcpMod:
            cells = map(sim.net.get_cell_gid, _kept(mod, "local_gids"))
            sections = chain.from_iterable(cell.hobj.all for cell in cells)
            yield from ((segment, "i_membrane_") for segment in chain.from_iterable(sections))
        elif type(mod).step not in idle:
            raise InputError(
                f"has a module {type(mod).__name__} that may change the model in a step; expected "
                "reports alone"
            )


def _read_by_report(sim: Any, mod: Any, only_somas: bool) -> Iterator[tuple[Any, str]]:
    names = *_kept(mod, "variables"), *_kept(mod, "transforms")
    for cell in map(sim.net.get_cell_gid, _kept(mod, "local_gids")):
        segments = [cell.soma[0](0.5)] if only_somas else cell.morphology.segments
        if not only_somas:
            types, within = cell.morphology.seg_props.type, _kept(mod, "section_types")
            pairs = zip(segments, types, strict=False)
            segments = [segment for segment, what in pairs if what in within]
        yield from ((segment, name) for segment in segments for name in names)


def _kept(thing: Any, name: str) -> Any:
    """Return a private attribute of BMTK."""
    return getattr(thing, f"_{name}")
