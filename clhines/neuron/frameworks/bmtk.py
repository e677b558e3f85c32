"""BMTK, whose `advance()` calls Python modules after each step.

BMTK's reports and its module `ecp` only read variables in each step, so they get the values of a
block of steps at once. NEURON takes the last step of a block, after which any module may change the
model. Other modules may change the model in every step and are refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from clhines.core.errors import InputError
from clhines.neuron.frameworks import private
from clhines.neuron.memory import raw
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.session import Hoc
from clhines.neuron.model import NeuronModel, StepCode
from clhines.neuron.read.places import Variable
from clhines.simulator.mechanisms import Program

ADVANCE = "{ fadvance() pysim.post_fadvance() }"
_BIONET = "bmtk.simulator.bionet"
_BASES = f"{_BIONET}.modules.sim_module", "bmtk.simulator.core.modules.simulator_module"
_CALLED = "post_fadvance"
_OBJREF = 2  # name_declared() for object references


def is_loaded(h: Hoc) -> bool:
    """Whether hoc's `pysim` is BMTK's simulator, with BMTK's own step function."""
    bionet = sys.modules.get(_BIONET)
    if bionet is None or h.name_declared("pysim") != _OBJREF:
        return False
    return getattr(type(h.pysim), _CALLED, 0) is getattr(bionet.BioSimulator, _CALLED)


def step_code(model: NeuronModel) -> StepCode:
    """Return the code that BMTK runs in each step; InputError if a BMTK module is not supported."""
    h, memory = model.h, model.memory
    try:
        variables = _variables(model)
        _take(h, memory, [*variables], np.empty((0, len(variables))))  # fails if BMTK has changed
    except (AttributeError, LookupError, TypeError) as error:
        raise InputError(f"fails: {error}; expected the reports of BMTK 1.2") from None
    _check(model, variables.values())

    def call() -> None:
        h.pysim.post_fadvance()

    take = partial(_take, h, memory, [*variables])
    return StepCode("advance() of BMTK", variables, call, take, partial(steps_of_block, h))


def _check(model: NeuronModel, variables: Iterable[Variable]) -> None:
    """Raise InputError if a variable that BMTK reads could differ from a recorded value.

    BMTK reads after the events of the second half of a step, but NEURON records before them.
    """
    played = {(p.variable.owner, p.variable.name, p.variable.number): p for p in model.players}
    for variable in variables:
        owner, name = variable.owner, variable.name
        if (owner, name, variable.number) in played:
            what = played[owner, name, variable.number].what
            raise InputError(f"reads {name} of {owner}, which {what} sets")
        if (owner, name) == ("", "v"):
            setters = [n for n, m in model.mechanisms.items() if m.program.sets_v]
        else:
            mechanism = model.mechanisms.get(owner)
            is_set = mechanism is not None and name in set_by_events(mechanism.program)
            setters = [owner] if is_set else []
        if setters:
            of = f" of {owner}" if owner else ""
            raise InputError(f"reads {name}{of}, which events of {setters[0]} set late in a step")


def set_by_events(program: Program) -> set[str]:
    set_ = {
        argument.name
        for block, arguments in program.blocks.items()
        if block == "receive" or block.startswith("for_netcons")
        for argument in arguments
        if argument.direction != "in"
    }
    return {(q.public or q.name).split("[")[0] for q in program.states if q.name in set_}


def steps_of_block(h: Hoc) -> int:
    """Return the step count until BMTK's present block, or its run, ends."""
    sim = h.pysim
    ends = sim.nsteps_block - sim.tstep % sim.nsteps_block, sim.nsteps - sim.tstep
    return min(n for n in ends if n > 0)


def _variables(model: NeuronModel) -> dict[raw.Place, Variable]:
    """Return the variables that BMTK's modules read in each step, by address."""
    variables = dict[raw.Place, Variable]()
    for module in _reading_modules(model.h.pysim):
        name, things = _read_by(model.h.pysim, module)
        for thing in chain.from_iterable(things.values()):
            place = model.memory.place(raw.ref(thing, name))
            variable = model.places.find(place)
            if variable is None or variable.number < 0:
                raise InputError(f"reads {name} of {thing}, which cannot be recorded")
            variables[place] = variable
    return variables


def _take(h: Hoc, memory: NeuronMemory, places: list[raw.Place], values: np.ndarray) -> None:
    """Pass `values`, (steps, variables), of the variables at `places` to BMTK's modules."""
    sim, n, columns = h.pysim, len(values), {place: k for k, place in enumerate(places)}
    for module in _reading_modules(sim):
        name, things = _read_by(sim, module)
        of_gids = {
            gid: values[:, [columns[memory.place(raw.ref(thing, name))] for thing in each]]
            for gid, each in things.items()
        }
        if type(module) is _modules().ClampReport:
            record = private(module, "var_recorder").record_clamps
            for step, currents in enumerate(of_gids[0], sim.tstep):
                record(currents, step)
        elif type(module) is _modules().EcpMod:
            _add_potentials(module, n, of_gids)
        else:
            is_recorded = map(
                private(module, "record_on_step"), range(sim.tstep, sim.tstep + 1 + n)
            )
            steps = np.flatnonzero([*is_recorded][:-1])
            _fill_report(module, len(steps), {gid: rows[steps] for gid, rows in of_gids.items()})
    sim.tstep += n


def _modules() -> Any:
    return sys.modules[f"{_BIONET}.modules"]


def _reading_modules(sim: Any) -> Iterator[Any]:
    """Yield BMTK's modules that read the model in steps; InputError if one might change it."""
    modules, idle = _modules(), [sys.modules[name].SimulatorMod.step for name in _BASES]
    readers = [modules.MembraneReport, modules.SomaReport, modules.NetconReport]
    readers += [modules.ClampReport, modules.EcpMod]
    for module in private(sim, "sim_mods"):
        if type(module) in readers:
            yield module
        elif type(module).step not in idle:
            raise InputError(
                f"has a module {type(module).__name__} that may change the model in a step; "
                "expected reports alone"
            )


def _read_by(sim: Any, module: Any) -> tuple[str, dict[int, list[Any]]]:
    """Return the variable that a BMTK module reads, and the objects with it, by gid.

    Clamps, which have no gid, have the key 0. BMTK itself stores only the last variable of a report
    with several variables.
    """
    modules, kind = _modules(), type(module)
    if kind is modules.ClampReport:
        return "i", {0: [private(clamp, "stim") for clamp in private(module, "clamps")]}
    if kind is modules.NetconReport:
        return private(module, "variables")[-1], private(module, "object_lookup")
    cells = {gid: sim.net.get_cell_gid(gid) for gid in private(module, "local_gids")}
    if kind is modules.EcpMod:
        each = {gid: cell.hobj.all for gid, cell in cells.items()}
        return "i_membrane_", {gid: [*chain.from_iterable(all_)] for gid, all_ in each.items()}
    if private(module, "transforms"):
        raise InputError("has a report with a transform; expected none")
    name = private(module, "variables")[-1]
    if kind is modules.SomaReport:
        return name, {gid: [cell.soma[0](0.5)] for gid, cell in cells.items()}
    types = private(module, "section_types")
    segments = {
        gid: zip(cell.morphology.segments, cell.morphology.seg_props.type, strict=False)
        for gid, cell in cells.items()
    }
    return name, {gid: [s for s, t in pairs if t in types] for gid, pairs in segments.items()}


def _fill_report(module: Any, steps: int, values: dict[int, np.ndarray]) -> None:
    """Write the values of the next `steps` steps to a BMTK report.

    `values` has an array (steps, segments) for each gid. A report's table holds a window of steps.
    When the first step after the window is recorded, BMTK writes the table to a file and moves the
    window.
    """
    recorder, pool = private(module, "var_recorder"), private(module, "gid_map")
    cells = {gid: pool.get_pool_id(gid) for gid in values}
    tables = {gid: private(recorder, "pop_tables")[cell.population] for gid, cell in cells.items()}
    columns = {gid: slice(*private(tables[gid], "gid_map")[cells[gid].node_id]) for gid in cells}
    blocks = {gid: private(table, "data_block") for gid, table in tables.items()}
    first = 0
    while first < steps:
        now, end = private(module, "curr_step"), steps
        for gid, table in tables.items():
            table.record_cell(cells[gid].node_id, values[gid][first], now)
            end = min(end, first + blocks[gid].block_window[1] - now)
        for gid, block in blocks.items():
            at = now - block.block_window[0]
            block.buffer_block[at : at + end - first, columns[gid]] = values[gid][first:end]
        _count(module, "curr_step", end - first)
        first = end


def _add_potentials(module: Any, steps: int, currents: dict[int, np.ndarray]) -> None:
    """Add the potentials at electrodes due to membrane `currents`, nA, (steps, segments) by gid."""
    begin = private(module, "block_step")
    rows, of_cells = slice(begin, begin + steps), private(module, "saved_gids")
    for gid, of_segments in currents.items():
        resistance = private(module, "rel").get_transfer_resistance(gid)
        potentials = of_segments @ resistance.T
        if gid in of_cells:
            of_cells[gid][rows] = potentials
        private(module, "data_block")[rows] += potentials
    _count(module, "block_step", steps)


def _count(thing: Any, name: str, steps: int) -> None:
    setattr(thing, f"_{name}", private(thing, name) + steps)
