"""All that a step changes of a model and hoc sees: what the body of a loop may read after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from clhines.errors import InputError
from clhines.mechanisms.ir.program import Program
from clhines.mechanisms.nmodl.meaning.verbatim import counts_crossings
from clhines.mechanisms.nmodl.reading.parse import parse
from clhines.mechanisms.nmodl.reading.tree import File, Refused, set_by
from clhines.neuron.back.writeback import changes
from clhines.neuron.convert import split_name
from clhines.neuron.importer import Imported
from clhines.neuron.memory.fields import DataColumns
from clhines.neuron.memory.raw import WORD, gather, numbers_at
from clhines.neuron.model import NeuronModel
from clhines.neuron.read.hooks import GATHERED
from clhines.neuron.read.played import EVERY, Gap, of_hoc
from clhines.neuron.read.tree import CAPACITANCE
from clhines.neuron.stepping.reads import set_by_events
from clhines.simulate.result import Result
from clhines.simulate.simulation import Simulation

V, CHARGED = "v", "i_cap"
_BEGINS = {"INITIAL", "BEFORE INITIAL", "AFTER INITIAL", "CONSTRUCTOR", "DESTRUCTOR"}


class Recorded(NamedTuple):
    """What one record has, (n,) of each step, and where NEURON has these numbers now."""

    record: int
    addresses: Callable[[], np.ndarray]  # (n,) int64


Found = tuple[str, Callable[[], Recorded]]  # the name of a variable, and a function that records it


class LackingError(Exception):
    """A variable that a step changes cannot be given to the body of a loop: text says which."""


class Everything:
    """Lets a simulation record all of it, or some, by names as hoc has them: ``m_hh``.

    Those of point processes are ``.g``, of all classes. `LackingError`: it cannot be recorded.
    """

    def __init__(self, sim: Simulation, imported: Imported) -> None:
        self._sim, self._imported = sim, imported
        tree = imported.model.tree
        nodes = np.concatenate([tree.addresses, tree.inner])
        _, chosen = np.unique(nodes, return_index=True)
        self._nodes = nodes[chosen]
        self._numbers = np.concatenate([tree.numbers, tree.inner_numbers])[chosen]
        self._found: dict[str, list[Callable[[], Recorded]]] = {V: [self._voltages], CHARGED: []}
        others = self._of_membranes(), self._of_ions(), self._of_mechanisms(), self._of_gaps()
        for name, make in chain.from_iterable(others):
            self._found.setdefault(name, []).append(make)
        self._rows_at = imported.model.fields.rows_at(self._nodes).astype(np.uint64)
        self._alone = set[int]()  # of `_nodes`, those of `_some`
        self._some = list[Recorded]()
        self._parts: dict[str, list[Recorded]] = {}
        self._charged: tuple[int, np.ndarray] | None = None
        self._v = np.zeros(0)

    @property
    def names(self) -> frozenset[str]:
        """Names of all variables that steps change."""
        return frozenset(self._found)

    @property
    def recorded(self) -> frozenset[str]:
        return frozenset(self._parts)

    def record(self, names: Iterable[str]) -> None:
        """Record these variables from now on, too."""
        for name in names:
            if name not in self._parts:
                if name == CHARGED:
                    self.record([V])
                    self._charge()
                self._parts[name] = [make() for make in self._found[name]]

    def record_voltages(self, rows: Iterable[int]) -> None:
        """Record the voltages of these nodes, by where NEURON has their rows, too; no others."""
        if V in self._parts:
            return
        at = np.flatnonzero(np.isin(self._rows_at, np.array([*rows], np.uint64)))
        at = np.setdiff1d(at, [*self._alone])
        if not len(at):
            return
        self._alone |= {*at.tolist()}
        record = self._sim.record(V, self._numbers[at])
        find = partial(self._in_nodes, self._imported.model.tree.v, self._nodes[at])
        self._some.append(Recorded(record, find))

    def has(self, row: int) -> bool:
        """Whether one of the model's nodes has its row there."""
        return bool((self._rows_at == np.uint64(row)).any())

    def _charge(self) -> None:
        tree = self._imported.model.tree
        column, rows, charged = self._imported.model.places.capacitive_of_all()
        at = np.full(tree.num_nodes, -1)
        at[self._numbers] = np.arange(len(self._numbers))
        cm = tree.capacitance[charged] / (CAPACITANCE * tree.area[charged])
        self._at, self._per_volt = at[charged], 1e-3 * cm / self._sim.model.dt  # mA/cm² of a mV
        self._charged = column, rows

    def addresses(self) -> np.ndarray:
        """(n,) int64: where NEURON has what is recorded, from whose voltages a run goes on."""
        model = self._imported.model
        for instances in (*model.every.values(), *model.contents.others):
            instances.columns.refresh()
        at = [part.addresses() for part in self._recorded]
        if self._charged is not None:
            column, rows = self._charged
            self._v = numbers_at(self._of_voltages())
            place = gather(rows)[:, 0].astype(np.int64)
            at.append(WORD.from_address(column).value + 8 * place)
        return np.concatenate([np.zeros(0, np.int64), *at])

    def rows(self, result: Result, first: int) -> np.ndarray:
        """Return a run's values, less its `first` rows, (steps, n) float64."""
        every = [result[part.record][first:].astype(np.float64) for part in self._recorded]
        if self._charged is not None:
            v = np.vstack([self._v, result[self._parts[V][0].record][first:].astype(np.float64)])
            self._v = v[-1]
            every.append(np.diff(v, axis=0)[:, self._at] * self._per_volt)
        return np.hstack([np.zeros((len(result.t) - first, 0)), *every])

    @property
    def _recorded(self) -> list[Recorded]:
        whole = [part for parts in self._parts.values() for part in parts]
        return whole if V in self._parts else [*whole, *self._some]

    def _voltages(self) -> Recorded:
        return Recorded(self._sim.record(V, self._numbers), self._of_voltages)

    def _of_voltages(self) -> np.ndarray:
        return self._in_nodes(self._imported.model.tree.v, self._nodes)

    def _in_nodes(self, column: int, nodes: np.ndarray) -> np.ndarray:
        rows = self._imported.model.fields.rows(column, nodes)[1]
        return WORD.from_address(column).value + 8 * rows

    def _of_membranes(self) -> Iterator[Found]:
        model, tree = self._imported.model, self._imported.model.tree
        place = model.memory.known_place(next(iter(tree.sections[0])), "i_membrane_")
        if place is not None and place.column:
            find = partial(self._in_nodes, place.column, tree.inner)
            yield "i_membrane_", partial(self._part, "", "i_membrane", find, tree.inner_numbers)

    def _of_ions(self) -> Iterator[Found]:
        known = self._sim.model.schema.named(self._sim.runner.save(), "ion")
        for ion in self._imported.model.contents.ions.values():
            columns, nodes = ion.instances.columns, ion.instances.nodes
            for name in (f"e{ion.name}", f"{ion.name}i", f"{ion.name}o", f"i{ion.name}"):
                if name in known or name == f"i{ion.name}":
                    find = partial(_in_columns, columns, name, None)
                    yield name, partial(self._part, ion.name, name, find, nodes)

    def _part(self, owner: str, name: str, find: Callable[[], np.ndarray], *at: object) -> Recorded:
        try:
            record = self._sim.record(name, *at)  # type: ignore[arg-type]
        except InputError as error:
            raise LackingError(f"{name} of {owner} cannot be recorded: {error}") from None
        find()  # raises at once
        return Recorded(record, find)

    def _of_mechanisms(self) -> Iterator[Found]:
        imported, model = self._imported, self._imported.model
        played = {(p.variable.owner, p.variable.name): p.continuous for p in model.players}
        for name, group in imported.groups.items():
            program, entry = group.mechanism.program, model.every[name].entry
            lost = shown_of_events(model, name) if _acts(model, name) else set()
            set_here = [q for q in program.outputs if changes(group.mechanism, q.name)]
            set_here += [q for q in program.parameters if (name, split_name(q)[0]) in played]
            for quantity in (*program.states, *set_here):
                base, place = split_name(quantity)
                if quantity.is_global or base not in entry.ranges or base in lost:
                    continue
                find = partial(_in_columns, model.every[name].columns, base, place)
                shown = f"{base}_{name}" if entry.kind == "density" else f".{base}"
                if not played.get((name, base), True):
                    yield shown, partial(_late, f"{base} of {name}")
                else:
                    yield shown, partial(self._part, name, quantity.name, find, group)

    def _of_gaps(self) -> Iterator[Found]:
        """Yield variables into which ``target_var`` brings voltages at the end of each step."""
        model, found = self._imported.model, dict[tuple[str, str], list[Gap]]()
        for gap in model.gaps:
            found.setdefault((gap.owner, gap.name), []).append(gap)
        for (owner, name), gaps in found.items():
            entry, columns = model.every[owner].entry, model.every[owner].columns
            numbers = np.array([gap.instance for gap in gaps])
            nodes = np.array([gap.node for gap in gaps]) - model.nodes.start
            shown = f"{name}_{owner}" if entry.kind == "density" else f".{name}"
            find = partial(_some_of, columns, name, numbers)
            yield shown, partial(self._part, owner, V, find, nodes)


def _some_of(columns: DataColumns, name: str, numbers: np.ndarray) -> np.ndarray:
    return _in_columns(columns, name, None)[numbers]


def _in_columns(columns: DataColumns, name: str, place: int | None) -> np.ndarray:
    found = columns.addresses(name, place)
    if found is None:
        raise LackingError(f"{name} is not found in NEURON's memory")
    return found


def _late(what: str) -> Recorded:
    raise LackingError(f"{what}, which Vector.play sets at the end of a step, cannot be recorded")


def lacking(model: NeuronModel) -> str:
    """Return what a loop's body cannot be given in each step of a model; empty where all can."""
    programs = {n: m.program for n, m in model.mechanisms.items()}
    kinds = {player.variable.number for player in model.players}
    setting = sorted(n for n, program in programs.items() if program.sets_v)
    points = model.contents.points.items()
    vectors, trains, origins = model.plays.vectors, model.trains.times, model.wires.origins
    senders = [k for k, o in enumerate(origins) if o.sender is not None and o.sender not in trains]
    recorded = any(origins[k].times in vectors for k in senders)
    soon = model.wires.read.delay < 0.5 * float(model.h.dt)
    soon &= np.isin(model.wires.origin, senders) & _reach(model, late_events(model))
    rows = (
        (model.gathers, GATHERED),
        (model.bins is not None, "CVode.queue_mode(1, 0)"),
        (model.contents.outside is not None, "extracellular"),
        (model.wires.compared, "NetCon of a variable that is no voltage"),
        (any(gap.node < 0 for gap in model.gaps), "ParallelContext.target_var of no voltage"),
        (model.pending.statements, "CVode.event"),
        (model.draws, "Random.play"),
        (model.trains.patterns, "PatternStim"),
        (model.lone is not None, "artificial cells alone"),
        (_samples_events(model), "Vector.record, at intervals or times, of what events set"),
        (EVERY in kinds or model.plays.celsius, "Vector.play into celsius or a GLOBAL variable"),
        (model.plays.of_hoc, "Vector.play into a variable of hoc"),
        (of_hoc(model.plays.recorders), "Vector.record of a variable of hoc"),
        (model.written.elements, "a POINTER that writes a variable of hoc"),
        (any(counts_crossings(i.entry.text) for _, i in points), "APCount"),
        (model.wires.called, "NetCon.record of a statement or a function"),
        (model.plays.calls, "Vector.play of a statement"),
        (model.steered, "weights that POINTERs of events set"),
        (setting, f"voltages that events of {', '.join(setting)} set"),
        (recorded, "NetCon.record of what sends events"),
        (soon.any(), "NetCon of what sends events, with a delay below half a step"),
    )
    return next((what for is_so, what in rows if is_so), "")


def _samples_events(model: NeuronModel) -> bool:
    """Whether a Vector samples what events set, of which NEURON's order is that of its queue."""
    for recorder in model.plays.recorders:
        variable = recorder.variable
        if recorder.event and variable is not None and variable.owner in model.mechanisms:
            program = model.mechanisms[variable.owner].program
            every = (q for q in (*program.states, *program.outputs) if q.name in program.received)
            if variable.name in {split_name(q)[0] for q in every}:
                return True
    return False


def _reach(model: NeuronModel, names: Sequence[str]) -> np.ndarray:
    """(m,) bool: NetCons whose targets are of some mechanisms."""
    senders = model.wires.senders
    known = np.array([name in names for name in senders.names] + [False])
    return known[np.append(senders.name, -1)[model.wires.target]]


def shown_of_events(model: NeuronModel, name: str) -> set[str]:
    """Return variables of a mechanism that hoc sees and its events set."""
    return set_by_events(model.mechanisms[name].program) & {*model.every[name].entry.ranges}


def late_events(model: NeuronModel) -> list[str]:
    """Return mechanisms whose late events in a step are delivered here: `LateEvents`."""
    return [n for n in model.mechanisms if shown_of_events(model, n) and not _acts(model, n)]


def _acts(model: NeuronModel, name: str) -> bool:
    """Whether events of a mechanism do more than to set variables."""
    program = model.mechanisms[name].program
    return program.sets_weights or _does_more(program)


def lost_names(model: NeuronModel) -> frozenset[str]:
    """Return names in hoc of what steps change and no body is given.

    These are GLOBAL variables, weights that events change, and variables that such events set, or
    events that send or draw: those late in a step, which NEURON delivers at its end, change what
    NEURON has of weights, events and draws.
    """
    found = set(lost_globals(model))
    for name, mechanism in model.mechanisms.items():
        if _acts(model, name):
            shown = shown_of_events(model, name)
            is_density = model.every[name].entry.kind == "density"
            found |= {f"{n}_{name}" for n in shown} if is_density else shown
        if mechanism.program.sets_weights:
            found.add("weight")
    return frozenset(found)


def _does_more(program: Program) -> bool:
    """Whether events do more than to set variables."""
    net = program.net
    sends = net is not None and (net.sends or net.watches or net.for_netcons)
    return bool(sends or program.random or program.picked)


def lost_globals(model: NeuronModel) -> frozenset[str]:
    """Return the names of GLOBAL variables that steps set, which no record has."""
    every = (instances.entry for instances in model.every.values())
    return frozenset(
        f"{name}_{entry.name}"
        for entry in every
        if entry.globals_ and entry.text
        for name in _set_by_steps(entry.text, entry.file) & {*entry.globals_}
    )


@lru_cache(maxsize=64)
def _set_by_steps(text: str, name: str) -> frozenset[str]:
    """Return the variables that steps of a mechanism set, by its text."""
    try:
        file: File = parse(text, name)
    except Refused:
        return frozenset()
    found = set[str]()
    for block_name, block in file.main.items():
        if block_name not in _BEGINS:
            found |= set_by(block.body, file.blocks)
    return frozenset(found)
