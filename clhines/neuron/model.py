"""A model as read from NEURON's memory, and the list of its parts that cannot be simulated."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial

import numpy as np

from clhines.errors import InputError
from clhines.mechanisms.ir.program import GENERATOR, TURNS, UNLESS
from clhines.mechanisms.mechanism import Mechanism
from clhines.mechanisms.nmodl.build import CHANGES, MAX_QUEUE
from clhines.mechanisms.nmodl.evaluate import ONE_GENERATOR
from clhines.mechanisms.nmodl.reading.tree import GIVEN, PICKING, FunctionTable
from clhines.mechanisms.nmodl.values import MADE
from clhines.model.model import ADVANCE_REVERSAL
from clhines.neuron.back.queue import (
    LATE,
    Bins,
    EventQueue,
    Pending,
    check_bins,
    in_no_bin,
    read_pending,
)
from clhines.neuron.convert import (
    CELSIUS,
    Rejected,
    RejectedError,
    begins_as,
    by_mcell,
    converted,
    function_tables_of,
    lengths_of,
    pointing_outside,
    rounded_tables,
    set_in_steps,
    some_given,
    split_name,
    statics_of,
    table_refused,
    table_rows,
    tables_of,
    with_lookups,
    with_statics,
)
from clhines.neuron.layers import are_own, with_layers
from clhines.neuron.memory.fields import Fields, find_fields
from clhines.neuron.memory.linear import LinearMechanisms, nodes_of_linear, read_linear
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.places import ELEMENT, MemoryPlaces, Variable
from clhines.neuron.memory.session import Hoc, all_sections
from clhines.neuron.memory.sources import EventSources
from clhines.neuron.memory.streams import (
    Generator,
    Pointed,
    PointedMCell,
    RandomVariable,
    SomePointed,
    Streams,
    are_mcell,
    rejected,
)
from clhines.neuron.memory.tables import (
    depended,
    forces_of,
    read_force,
    read_made,
    read_table,
    static_at,
)
from clhines.neuron.outside import Ahead, Outside
from clhines.neuron.read.catalogue import Catalogue, CatalogueEntry
from clhines.neuron.read.contents import Contents, Hidden, Instances, WatchSlots, read_contents
from clhines.neuron.read.draws import Draws, drawn_from
from clhines.neuron.read.hooks import GATHERED, acting, gathering, refused_settings
from clhines.neuron.read.played import Gap, Player, PlayReader, read_gaps
from clhines.neuron.read.trains import Trains, read_trains
from clhines.neuron.read.tree import Tree, read_tree
from clhines.neuron.read.turns import OwnEvents, Turns, is_alone
from clhines.neuron.read.wiring import NeuronWires, on_ranks, read_wires
from clhines.neuron.read.written import (
    WrittenPointers,
    play_pointers,
    read_pointed,
    read_steered,
    read_written,
)
from clhines.neuron.stepping.reads import Stepping, read_stepping
from clhines.neuron.stimuli import StimulusValues, read_stimuli
from clhines.progress import each, phase
from clhines.simulate.engines.reference import asked
from clhines.simulate.ranks.mpi import Ranks, agreed

IN_TURN = "draws of NEURON's one generator in turn"
_OF_ITS_OWN = "declare a RANDOM variable"
_ROWS = 1e-12  # relative: rows of TABLEs that differ by more are not of rounding
_EACH = 8  # self events that an instance may have under way for each of its connections
_MOST_EVENTS = 1 << 24  # of all instances of a mechanism


@dataclass(eq=False)
class NeuronModel:
    """Everything read from NEURON's memory; `watched` are the armed WATCH conditions."""

    h: Hoc
    memory: NeuronMemory
    queue: EventQueue
    sources: EventSources
    fields: Fields
    tree: Tree
    contents: Contents
    places: MemoryPlaces
    wires: NeuronWires
    pending: Pending
    plays: PlayReader
    trains: Trains
    slots: WatchSlots
    draws: Draws
    turns: Turns
    outside: Outside
    linear: LinearMechanisms
    gaps: list[Gap] = field(default_factory=list)
    nodes: range = range(0)  # numbers of the tree's nodes among `all_nodes` of all MPI ranks
    all_nodes: int = 0
    mechanisms: dict[str, Mechanism] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)
    watched: dict[str, list[tuple[int, int, bool]]] = field(default_factory=dict)
    written: WrittenPointers = field(default_factory=WrittenPointers)
    # by mechanism and POINTER that events set, (count, 2): NetCons, and which of their weights
    steered: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    # by mechanism and name: what each instance's POINTER points to that it reads
    pointed: dict[tuple[str, str], list[Variable]] = field(default_factory=dict)
    bins: Bins | None = None  # of events, with ``CVode.queue_mode(1, 0)``
    hidden: dict[str, Hidden] = field(default_factory=dict)  # variables that hoc does not see
    point_names: tuple[str, ...] = ()  # that NEURON knows, artificial cells too
    # by mechanism and EXTERNAL name: what it is, where a step sets it
    external: dict[tuple[str, str], Variable] = field(default_factory=dict)
    made: dict[str, list[str]] = field(default_factory=dict)  # TABLEs as NEURON has them, by block
    beyond: dict[str, set[str]] = field(default_factory=dict)  # what TABLEs are made of but DEPEND
    # by mechanism and block: TABLEs that set what others use, beside their columns
    aside: list[tuple[str, str]] = field(default_factory=list)
    by_mcell: set[str] = field(default_factory=set)  # mechanisms that draw from such Randoms
    stepping: Stepping | None = None  # code of its own in each step of continuerun()
    uncalled: list[Rejected] = field(default_factory=list)  # of such code
    stimuli: dict[str, list[StimulusValues]] = field(default_factory=dict)  # of fstim and fsyn
    gathers: bool = False  # whether functions are called in the middle of each step
    lone: Hoc | None = None  # section of a model of artificial cells alone, held here

    @property
    def players(self) -> list[Player]:
        """Vectors and Randoms that are played into variables, draws in turn, and Python's."""
        drawn = [*self.draws.players, *self.turns.players]
        return [*self.plays.players, *drawn, *self.outside.given]

    def waits_for_transfer(self) -> bool:
        """Whether `target_var` sets the voltage of a step before; all MPI ranks call it."""
        names = {(gap.owner, gap.name) for gap in self.gaps}
        before = {(o, n): self.every[o].values(n).copy() for o, n in names}
        self.memory.transfer()
        changed = [not np.array_equal(self.every[o].values(n), v) for (o, n), v in before.items()]
        for (owner, name), values in before.items():
            self.every[owner].put(name, values)
        return any(changed)

    def waits_for_tables(self, begun: bool = False) -> bool:
        """Whether a step of NEURON makes a TABLE anew, and sets what others use from then on.

        `begun`: where INITIAL would not have made it before.
        """
        for name, block in self.aside:
            entry = self.every[name].entry
            saved = depended(entry.number, block)
            if saved is None:
                is_made = begun and tables_of(entry.text, entry.file)[block].early
            else:
                is_made = all((self._now(name, n) == x).all() for n, x in saved.items())
            if not is_made:
                return True
        return False

    def function_tables(self, name: str) -> dict[str, FunctionTable]:
        instances, found = self.every[name], dict[str, FunctionTable]()
        if instances.entry.channel is not None:
            return instances.entry.channel.tables
        for function, count in function_tables_of(instances.entry.text).items():
            of_point = instances.entry.kind != "density"
            owner = instances.things[0] if of_point else self.h
            call = getattr(owner, function if of_point else f"{function}_{name}")
            table = read_table(function, count, call)
            if table is not None:
                found[function] = table
        for block in self.made.get(name, ()):
            if (own := self.made_table(name, block)) is not None:
                found[MADE.format(block)] = own
        for file in forces_of(instances.entry.text):
            table = read_force(file)
            if table is not None:
                found[file] = table
        return found

    def made_table(self, name: str, block: str) -> FunctionTable | None:
        """Return a TABLE as NEURON has made it; None where it has not, or would make it again."""
        instances = self.every[name]
        entry, number = instances.entry, instances.entry.number
        table = tables_of(entry.text, entry.file)[block]
        if table.settled and entry.kind == "point" and depended(number, block) is None:
            getattr(instances.things[0], block)(0.0)  # as NEURON's first use of it would
        saved, values = depended(number, block), None
        if saved is not None and saved.keys() == {*table.depends}:
            now = {n: self._now(name, n) for n in saved}
            if any(self._is_hidden(name, n) for n in saved) and all(
                (x == x[0]).all() for x in map(np.atleast_1d, now.values())
            ):
                thing = instances.things[0]
                of_first = thing if entry.kind == "point" else getattr(thing.segment(), name)
                getattr(of_first, block)(0.0)  # as NEURON makes it again where a step begins
                saved = depended(number, block)
            if saved is not None and all((now[n] == x).all() for n, x in saved.items()):
                values = read_made(number, table.columns, table.rows)
        return None if values is None else table.given(values)

    def _is_hidden(self, name: str, variable: str) -> bool:
        """Whether a variable of instances is one that hoc does not see."""
        seen = self.every[name].entry.ranges
        return variable not in seen and variable in self.hidden_of(name).columns

    def first_of(self, name: str, variable: str) -> float:
        """Return a variable of a mechanism's first instance, NaN where it is none."""
        return float(np.ravel(self._now(name, variable))[0])

    def _now(self, name: str, variable: str) -> np.ndarray:
        """Return the values of a variable of a mechanism, NaN where it is none that is found."""
        entry = self.every[name].entry
        if variable in entry.ranges:
            return self.every[name].values(variable)
        if self._is_hidden(name, variable):
            return self.hidden_of(name).values(variable, None)
        if entry.globals_.get(variable) == 1:
            return np.array(getattr(self.h, f"{variable}_{name}"))
        return np.array(getattr(self.h, variable) if variable in ("celsius", "dt") else np.nan)

    def statics(self, name: str) -> dict[str, int]:
        """Return the values of static variables of a mechanism's C that are found."""
        entry = self.every[name].entry
        at = {n: static_at(n, entry.number) for n in statics_of(entry.text)}
        return {n: ctypes.c_int.from_address(a).value for n, a in at.items() if a}

    def hidden_of(self, name: str) -> Hidden:
        if name not in self.hidden:
            instances = self.every[name]
            lengths = cache(lambda: lengths_of(instances.entry))  # where there are arrays
            self.hidden[name] = Hidden(self.memory, instances, lengths)
        return self.hidden[name]

    def streams(self, name: str, variable: str) -> Streams:
        index, instances = self._random_index, self.every[name]
        if variable == GENERATOR:
            return Generator(self.memory, self.h, name, len(instances.things))
        if variable not in self.mechanisms[name].program.picked:
            return RandomVariable(name, instances.things, variable, index)
        kind = PointedMCell if name in self.by_mcell else Pointed
        try:
            pointers = self.pointers(name)
            if f"{variable}_{GIVEN}" not in self.mechanisms[name].defaults:
                return kind(self.memory, self.h, name, variable, pointers, index)
            some = pointers != 0
            made = partial(kind, self.memory, self.h, name, variable, index=index)
            return SomePointed(made(pointers=pointers[some]) if some.any() else None, some)
        except OSError as error:
            raise rejected(name, f"POINTER {variable}: {error}") from None

    def pointers(self, name: str) -> np.ndarray:
        """(k,) int64: what a mechanism's instances have in the POINTER that VERBATIM draws from."""
        return self.slots.pointers(self.every[name], self._width())

    def lacking(self, name: str, variables: Sequence[str]) -> list[str]:
        """Return those POINTERs from which VERBATIM draws that some instances have nothing in."""
        try:
            pointers = [self.pointers(name) for _ in variables]
        except OSError:
            return []  # said where streams are read
        return [v for v, each in zip(variables, pointers, strict=True) if not each.all()]

    def draws_by_mcell(self, name: str) -> bool:
        """Whether VERBATIM of a mechanism draws from Randoms with the generator MCellRan4."""
        instances = self.every[name]
        if PICKING[0] not in instances.entry.text:
            return False
        try:
            pointers = self.pointers(name)
        except OSError:
            return False  # said where streams are read
        return are_mcell(self.memory, self.h, pointers[pointers != 0])

    @cached_property
    def _random_index(self) -> int:
        return int(self.h.Random().Random123_globalindex())

    def _width(self) -> int:
        """Return how many bytes a place that is no variable has, which point processes tell."""
        for one in self.every.values():
            if one.entry.kind == "point":
                return self.memory.slots_of(self.memory.inside(one.things[0]))[1]
        raise OSError("a model without point processes")

    def read_gaps(self) -> tuple[list[Gap], list[Rejected]]:
        read = self.memory, self.fields, self.tree, self.contents
        return read_gaps(*read, self.nodes, self.all_nodes)

    @property
    def remote(self) -> np.ndarray:
        """(r,) int64: nodes of other MPI ranks whose voltages are transferred here, ascending."""
        nodes = {gap.node for gap in self.gaps} - {-1}
        return np.array(sorted(n for n in nodes if n not in self.nodes), np.int64)

    def refresh(self, values: bool) -> None:
        """Read again what changes in a run: vectors, and `values` if they differ."""
        h, memory = self.h, self.memory
        self.plays.refresh()
        if values or self.trains.names:
            self.wires.refresh()
            self.pending = read_pending(self.queue, self.wires)
        if self.trains.names:
            self.trains = read_trains(h, memory, self.contents, self.pending, {})
        if values:
            self._refresh_values()
        rejected = [*self.pending.rejected, *self.plays.rejected, *self.trains.rejected]
        if values and self.bins is not None:
            rejected += in_no_bin(self.wires, self.pending)
        if rejected:
            raise RejectedError(rejected)

    def _refresh_values(self) -> None:
        for instances in (*self.every.values(), *self.contents.others):
            instances.columns.refresh()
        for name in self.watched:
            self.watched[name] = self.slots.watched(self.every[name])
        if self.bins is not None:
            self.bins = Bins(self.memory, self.queue, float(self.h.t), float(self.h.dt))

    def forget(self) -> None:
        """Hold nothing of NEURON's any more: what is held lives on."""
        self.tree.forget()
        self.plays.forget()
        own = self.contents.density, self.contents.points
        for instances in (*own[0].values(), *own[1].values(), *self.contents.others):
            instances.things.forget()

    @cached_property
    def every(self) -> dict[str, Instances]:
        """All mechanisms with instances that are simulated, in NEURON's order."""
        found = {**self.contents.density, **self.contents.points}
        order = {number: k for k, number in enumerate(self.memory.order())}
        names = sorted(found, key=lambda n: order.get(found[n].entry.number, len(order)))
        return {name: found[name] for name in names if name not in self.trains.names}


def read_model(
    h: Hoc,
    vectors: dict[Hoc, Hoc],
    every: bool = False,
    ranks: Ranks | None = None,
    ahead: Ahead | None = None,
) -> NeuronModel:
    """Read everything, with `every` also what records later, and list what is rejected."""
    with agreed(ranks):
        model = _read(h, vectors, every, ahead, ranks)
    _number_nodes(model, ranks)
    with agreed(ranks):
        model.gaps, unset = model.read_gaps()
        model.rejected += unset
        own = model.memory, model.places, model.every
        model.rejected += model.outside.find_drivers(*own)
        called = bool(model.wires.called or model.plays.calls or model.pending.statements)
        model.rejected += play_pointers(model.memory, model.plays, model.every, called)
        _convert(model)
        model.rejected += [*_branches(model), *_of_linear(model)]
        recorded = [r.variable for r in model.plays.recorders if r.variable is not None]
        given = recorded, int(h.secondorder), bool(model.memory.transfers)
        model.rejected += model.outside.rejected(model.every, model.mechanisms, *given)
        _find_external(model)
        _find_pointed(model)
        _find_written(model)
        model.steered, unset = read_steered(
            model.memory, model.wires, model.every, model.mechanisms
        )
        model.rejected += unset
        if model.steered and ranks is not None:
            what = "a POINTER that NET_RECEIVE writes, on several MPI ranks"
            model.rejected.append(Rejected(next(iter(model.steered))[0], what))
        _check_draws(model, ranks)
        _find_turns(model, ranks)
        model.rejected += _called(model)
        _play_celsius(model)
        model.rejected += _check_made(model)
        times = {at for o in model.wires.origins for at in (o.times, o.numbers)}
        if any(r.address in times for r in model.plays.recorders):
            what = "Vector.record into a Vector of NetCon.record"
            model.rejected.append(Rejected("", what, "use two Vectors"))
        if model.bins is not None:
            step = float(h.dt)
            model.rejected += check_bins(model.wires, model.pending, model.mechanisms, step)
        model.stepping, model.uncalled = read_stepping(model)
        if model.gathers and model.stepping is not None:
            what = f"{GATHERED}, and {model.stepping.procedure}() of the model's own"
            model.rejected.append(Rejected("", what, "use one of them"))
    return model


def _number_nodes(model: NeuronModel, ranks: Ranks | None) -> None:
    """Give numbers to the nodes of all ranks, which must all transfer voltages, or none."""
    count = model.tree.num_nodes
    model.nodes, model.all_nodes = range(count), count
    if ranks is None:
        return
    found = ranks.gather_numbers([count, model.memory.transfers])
    if np.ptp(found[:, 1]):
        raise InputError("some MPI ranks transfer voltages; expected pc.setup_transfer() on all")
    first = int(found[: ranks.rank, 0].sum())
    model.nodes, model.all_nodes = range(first, first + count), int(found[:, 0].sum())


def _read(
    h: Hoc, vectors: dict[Hoc, Hoc], every: bool, ahead: Ahead | None, ranks: Ranks | None
) -> NeuronModel:
    phase("reading NEURON's memory")
    catalogue = Catalogue(h)
    lone = _checked(h, catalogue, ranks is not None)
    try:
        memory = NeuronMemory(h)
        queue, sources = EventQueue(memory), EventSources(h, memory)
        memory.settle()
        fields = find_fields(memory)
        tree, data = read_tree(h, memory, fields, nodes_of_linear(h, memory))
        contents = read_contents(h, memory, fields, (tree, data), catalogue)
        if contents.outside is not None and are_own(contents.outside):
            tree = with_layers(tree, contents.outside, memory)
            contents = read_contents(h, memory, fields, (tree, data), catalogue)
        hooks = acting(h, memory)
        stimuli, unread = read_stimuli(h, memory, tree)
        linear = read_linear(h, memory, tree.in_layers)
        slots = WatchSlots(memory)
        bins = None
        if int(h.CVode().queue_mode()) & 1:
            bins = Bins(memory, queue, float(h.t), float(h.dt))
        places = MemoryPlaces(memory, fields, tree, contents)
        wires, unwired = read_wires(h, (memory, sources), places, contents)
        draws = Draws(h, memory, places)
    except OSError as error:
        raise InputError(
            f"NEURON's memory cannot be read here ({error}); expected NEURON 9 on Linux or macOS"
        ) from None
    pending = read_pending(queue, wires)
    plays = PlayReader(h, memory, places, every)
    trains = read_trains(h, memory, contents, pending, vectors)
    given = [] if ahead is None else ahead.players(places, float(h.t), float(h.dt))
    outside = Outside(tree, contents, [*plays.players, *draws.players], given)
    parts = wires, pending, plays, trains, slots, draws, Turns(h, memory), outside, linear
    model = NeuronModel(h, memory, queue, sources, fields, tree, contents, places, *parts)
    model.lone, model.bins, model.gathers = lone, bins, len(gathering()) > 0
    model.stimuli = stimuli
    model.point_names = tuple(catalogue.names(points=True))
    model.rejected += [*refused_settings(h, memory), *_structure(contents), *hooks, *unread]
    model.rejected += unwired
    for part in (pending, plays, trains, draws, linear):
        model.rejected += part.rejected
    return model


def _checked(h: Hoc, catalogue: Catalogue, shared: bool) -> Hoc | None:
    lone, first = None, next(iter(all_sections()), None)
    if first is None and (shared or catalogue.has_artificial()):
        from neuron import nrn  # hoc may have a variable `Section`, too

        lone = nrn.Section(name="lone")
    hiding = catalogue.hiding(first(0.5)) if first is not None else []
    if hiding:
        what = "a variable {1} of make_pointprocess, which hides that of segments in Python"
        raise RejectedError([Rejected(n, what.format(n, v), "rename it") for n, v in hiding])
    if first is None and lone is None:
        raise InputError("NEURON has no sections; expected a model in its memory")
    return lone


def _structure(contents: Contents) -> list[Rejected]:
    return [
        Rejected(
            name,
            f"{name}, a mechanism without NMODL" + (f", in section {section}" if section else ""),
            way_out="write it as a .mod file",
        )
        for name, section in contents.structural.items()
    ]


def _branches(model: NeuronModel) -> list[Rejected]:
    """Find what uses the area of one of several branches that rallbranch says are alike."""
    if (model.tree.branches == 1).all():
        return []
    programs = {name: mechanism.program for name, mechanism in model.mechanisms.items()}
    uses_area = {n for n, p in programs.items() if "area" in p.built_in or p.diffusing}
    what, way_out = "rallbranch of a section with", "make the branches as sections"
    found = [
        Rejected(name, f"{what} {name} in it, or in those it bears", way_out)
        for name, instances in model.every.items()
        if _is_alike(model, name)
        and (name in uses_area or (instances.entry.kind == "point" and instances.entry.channel))
    ]
    if model.h.CVode().use_fast_imem():
        found.append(Rejected("", f"{what} CVode.use_fast_imem", way_out))
    return found


def _is_alike(model: NeuronModel, name: str) -> bool:
    """Whether instances of a mechanism are on branches that stand for several."""
    nodes = model.every[name].nodes
    return bool((model.tree.branches[nodes[nodes >= 0]] != 1).any())


def _of_linear(model: NeuronModel) -> list[Rejected]:
    """Find what LinearMechanisms do not go with."""
    joined = np.concatenate([np.zeros(0, np.int64), *(one.node for one in model.linear.read)])
    records = {r.address for r in model.plays.recorders} & {*model.linear.vectors}
    outside = model.contents.outside
    given = outside.nodes if outside is not None and model.tree.layers is None else joined[:0]
    rows = (
        (model.h.secondorder, "secondorder, with which NEURON ends", "set it to 0"),
        (np.isin(given, joined).any(), "extracellular at its nodes", ""),
        (records, "a y or b that is a Vector which records", "use another Vector"),
    )
    return [
        Rejected("", f"LinearMechanism with {what}", way_out)
        for is_so, what, way_out in rows
        if is_so and model.linear.read
    ]


def _convert(model: NeuronModel) -> None:
    for name, instances in each([*model.every.items()], "converting mechanisms"):
        channel = instances.entry.channel
        if channel is not None and channel.refused:
            model.rejected.append(Rejected(name, channel.refused))
            continue
        found = _converted(model, name)
        if isinstance(found, Mechanism):
            model.mechanisms[name] = found
            model.rejected += _slots(model, name, found)
        else:
            model.rejected += found


def _converted(
    model: NeuronModel, name: str, kept: Sequence[str] = (), in_turn: bool = False
) -> Mechanism | list[Rejected]:
    """Return a mechanism that keeps some of its variables, to which POINTERs of others point."""
    instances = model.every[name]
    pointers = sorted({g.name for g in model.gaps if g.owner == name})
    globals_ = instances.entry.globals_
    use_tables = "usetable" not in globals_ or bool(getattr(model.h, f"usetable_{name}"))
    second, tables = int(model.h.secondorder) > 0, model.function_tables(name)
    second = second and instances.entry.channel is None
    entry = instances.entry
    if model.draws_by_mcell(name):
        entry = replace(entry, text=by_mcell(entry.text))
        model.by_mcell.add(name)
    entry = replace(entry, text=with_statics(entry.text, model.statics(name)))
    external = [variable for owner, variable in model.external if owner == name]
    own = {v.name for v in model.external.values() if v.owner == name}
    entry = replace(entry, text=pointing_outside(entry.text, external, own))
    if "hoc_lookup" in entry.text:
        entry = replace(entry, text=with_lookups(entry.text, model.h.name_declared))
    queue = _room_for_events(model, name)
    is_alike = entry.kind == "point" and _is_alike(model, name)
    more = queue, kept, in_turn, bool(model.plays.celsius), is_alike

    def convert(entry: CatalogueEntry) -> Mechanism | list[Rejected]:
        return converted(entry, pointers, use_tables, second, tables, *more)

    found = convert(entry)
    while not isinstance(found, Mechanism) and (block := table_refused(found[0].construct)):
        made = model.made_table(name, block)
        if made is None:
            way_out = f"call h.finitialize(), or {found[0].way_out}"
            return [replace(found[0], way_out=way_out), *found[1:]]
        tables[MADE.format(block)] = made
        model.made.setdefault(name, []).append(block)
        found = convert(entry)
    if isinstance(found, Mechanism) and (blocks := rounded_tables(found)):
        rows = {MADE.format(block): model.made_table(name, block) for block in blocks}
        tables |= {key: made for key, made in rows.items() if made is not None}
        found = convert(entry)
    if isinstance(found, Mechanism):
        others, refused = _other_tables(model, name, found)
        if refused:
            return refused
        if others:
            tables |= others
            found = convert(entry)
    if isinstance(found, Mechanism) and (lacking := model.lacking(name, found.program.picked)):
        found = convert(replace(entry, text=some_given(entry.text, lacking)))
    return found


def _other_tables(
    model: NeuronModel, name: str, mechanism: Mechanism
) -> tuple[dict[str, FunctionTable], list[Rejected]]:
    """Return TABLEs in which NEURON has other rows than would be made now, and what is refused.

    NEURON makes them again where what is in DEPEND changes, and before INITIAL sets what it sets.
    """
    found, entry, refused = dict[str, FunctionTable](), model.every[name].entry, list[Rejected]()
    texts = tables_of(entry.text, entry.file) if mechanism.program.tables else {}
    for table in mechanism.program.tables:
        block, text = table.name, texts.get(table.name)
        if table.made or table.columns == ("x",):  # the latter is made again in each call
            continue
        if text is not None and text.aside:
            model.aside.append((name, block))
        if text is None or not text.beyond | text.begun:
            continue
        model.beyond.setdefault(name, set()).update(text.beyond)
        made = model.made_table(name, block) if text.beyond else None
        if made is None:
            said = begins_as(mechanism, text.begun, partial(model.first_of, name))
            if said:
                what = f"TABLE of {block}{CHANGES.format(said)}"
                way_out = f"call h.finitialize(), or set usetable_{name} = 0"
                refused.append(Rejected(name, what, way_out, entry.file))
            continue
        rows = table_rows(mechanism, block, partial(model.first_of, name))
        own = None if rows is None else np.ravel(rows)
        if own is None or not np.allclose(own, made.values, _ROWS, 0, equal_nan=True):
            found[MADE.format(block)] = made
            model.made.setdefault(name, []).append(block)
    return found, refused


def _room_for_events(model: NeuronModel, name: str) -> int:
    """Return how many self events of an instance may be under way: some of each connection."""
    senders, count = model.wires.senders, len(model.every[name])
    target = model.wires.target
    if "net_send" not in model.every[name].entry.text or name not in senders.names:
        return MAX_QUEUE
    instance = senders.instance[target[senders.name[target] == senders.names.index(name)]]
    targets = [event.target for event in model.pending.selves]
    waiting = np.array([k for owner, k in targets if owner == name], np.int64)
    most = _EACH * np.bincount(instance, minlength=count) + np.bincount(waiting, minlength=count)
    room = 1 << (int(most.max(initial=1)) - 1).bit_length()
    return max(MAX_QUEUE, min(room, _MOST_EVENTS // max(count, 1)))


def _check_draws(model: NeuronModel, ranks: Ranks | None) -> None:
    """Find what would draw from a Random while it is played, or where pieces cannot go on."""
    if not model.draws:
        return
    if ranks is not None:
        model.rejected.append(Rejected("", "Random.play on several MPI ranks"))
    for name, mechanism in model.mechanisms.items():
        for variable in mechanism.program.picked:
            streams = model.streams(name, variable)
            if (
                isinstance(streams, (Pointed, SomePointed))
                and streams.addresses & model.draws.streams
            ):
                what = f"POINTER {variable} to a Random that is played, too"
                model.rejected.append(Rejected(name, what, "use two Randoms"))


def _play_celsius(model: NeuronModel) -> None:
    """Let a Vector that is played into celsius be played into each instance that uses it."""
    if not model.plays.celsius:
        return
    what = "Vector.play into celsius, with"
    if len(model.plays.celsius) > 1:
        model.rejected.append(Rejected("", f"{what} several Vectors", "play one of them"))
        return
    for ion in model.contents.ions.values():
        if (ion.style & ADVANCE_REVERSAL).any():
            more = f"the reversal potential of {ion.name}, which follows it in each step"
            model.rejected.append(Rejected("", f"{what} {more}"))
    for name, mechanism in model.mechanisms.items():
        if model.every[name].entry.channel is not None:
            model.rejected.append(Rejected(name, f"{what} KSChan"))
        blocks = [b for b in mechanism.program.blocks if b != "initial"]
        if not any(a.name == CELSIUS for b in blocks for a in mechanism.program.blocks[b]):
            continue
        for player in model.plays.celsius:
            every = range(len(model.every[name]))
            model.plays.players += [
                replace(player, variable=Variable(name, CELSIUS, k)) for k in every
            ]


def _find_turns(model: NeuronModel, ranks: Ranks | None) -> None:
    """Find what draws from NEURON's one generator in turn, and let NEURON do so ahead of a run."""
    programs = {name: mechanism.program for name, mechanism in model.mechanisms.items()}
    of_randoms = _drawing_otherwise(model)
    drawing = [n for n, p in programs.items() if GENERATOR in p.random or _asks(model, n)]
    own = [n for n in drawing if GENERATOR in programs[n].random]
    if len(own) == len(drawing) and sum(len(model.every[n]) for n in own) <= 1:
        if of_randoms and ranks is None:
            _run_ahead(model, of_randoms)
        return
    outside = {name: _outside(model, name) for name in drawing}
    alone = [name for name in drawing if not outside[name]]
    if ranks is not None or model.h.use_mcell_ran4():
        where = "on several MPI ranks" if ranks is not None else "with use_mcell_ran4(1)"
        model.rejected += [Rejected(name, f"{IN_TURN}, {where}") for name in drawing]
        return
    if alone and len(alone) < len(drawing):
        others = [n for n in drawing if n not in alone]
        what = f"{IN_TURN} with {alone[0]}, whose events draw"
        model.rejected += [Rejected(n, f"{what}; {outside[n]}", _OF_ITS_OWN) for n in others]
    elif alone or of_randoms:
        _run_ahead(model, [*dict.fromkeys([*alone, *of_randoms])])
    if not alone:
        for name in drawing:
            model.rejected += _draw_ahead(model, name, outside[name])


def _drawing_otherwise(model: NeuronModel) -> list[str]:
    """Return mechanisms whose Randoms are such that only NEURON can draw, and can do so ahead."""
    found = []
    for name, mechanism in model.mechanisms.items():
        try:
            for variable in mechanism.program.picked:
                model.streams(name, variable)
        except RejectedError:
            if not _outside(model, name):
                found.append(name)
    return found


def _randoms_of(model: NeuronModel, name: str) -> list[int] | None:
    """Return the Randoms that a mechanism draws from; None where others do, or they are none."""
    if not model.mechanisms[name].program.picked:
        return []
    every = list(model.h.List("Random"))
    known = {*model.memory.insides_of(model.memory.objects_of(every)).tolist()} if every else set()
    others, streams = model.draws.streams.copy(), set[int]()
    try:
        pointers = {p for p in model.pointers(name).tolist() if p}
        if not pointers <= known:
            return None
        streams = {drawn_from(model.memory, random)[1] for random in pointers}
        for other, mechanism in model.mechanisms.items():
            if mechanism.program.picked and other != name:
                at = [p for p in model.pointers(other).tolist() if p]
                others |= {drawn_from(model.memory, p)[1] if p in known else p for p in at}
    except OSError:
        return None
    return None if streams & others else sorted(pointers)


def _asks(model: NeuronModel, name: str) -> bool:
    """Whether parameters say that a mechanism draws from the generator, and bar nothing else."""
    mechanism = model.mechanisms[name]
    said, found = mechanism.program.unless, set[int]()
    for block in UNLESS:
        if block in mechanism.program.blocks:
            try:
                flags = asked(mechanism, block, _present(model, name, block))
            except LookupError:
                return False  # said where a simulation takes NEURON's values
            found |= {number for number, where in flags if where.any()}
    return bool(found) and all(ONE_GENERATOR in said[number] for number in found)


def _present(model: NeuronModel, name: str, block: str) -> dict[str, np.ndarray]:
    """Return what a block takes as NEURON has it, of all instances; a LookupError: it is hidden."""
    program, instances = model.mechanisms[name].program, model.every[name]
    entry, found = instances.entry, dict[str, np.ndarray]()
    wanted = {a.name for a in program.blocks[block] if a.direction == "in"}
    for quantity in (*program.parameters, *program.states):
        base, place = split_name(quantity)
        if quantity.name not in wanted:
            continue
        if base in entry.ranges:
            found[quantity.name] = instances.values(base, place)
        elif base in entry.globals_:
            value = getattr(model.h, f"{base}_{name}")
            found[quantity.name] = np.array([value if place is None else value[place]])
        elif base.endswith(f"_{GIVEN}"):
            found[quantity.name] = (model.pointers(name) != 0).astype(np.float64)
        else:
            raise LookupError(base)
    return found


def _outside(model: NeuronModel, name: str) -> str:
    """Return why NEURON cannot run a mechanism's events ahead; empty where it can."""
    if not is_alone(model.mechanisms[name].program):
        return "it does more than answer its own self events"
    wires, pending = model.wires, model.pending
    number = wires.senders.names.index(name)
    heard = (wires.origin >= 0) & (wires.senders.name[wires.target] == number)
    if heard.any() or any(wires.target_of(k)[0] == name for k, _ in pending.netcons):
        return "it gets events of others"
    set_by = [gap.owner for gap in model.gaps] + [p.variable.owner for p in model.players]
    pointed = [v.owner for to in model.pointed.values() for v in to]
    if name in (*set_by, *pointed, *(v.owner for to in model.written.targets.values() for v in to)):
        return "others set or read its variables"
    if any(r.variable is not None and r.variable.owner == name for r in model.plays.recorders):
        return "Vectors record its variables"
    if _randoms_of(model, name) is None:
        return "it draws from what others draw from, too, or from no Random"
    return "CVode.queue_mode(1, 0)" if model.bins is not None else ""


def _called(model: NeuronModel) -> list[Rejected]:
    """Find objects whose events call statements where a run cannot end at them."""
    if on_ranks(model.h):
        late = model.bins is not None and model.bins.late
        rows = (model.plays.calls, "Vector.play of a statement"), (late, LATE)
        return [Rejected("", f"{what}, on several MPI ranks") for is_so, what in rows if is_so]
    senders = {o.sender[0] for o in model.wires.called if o.sender is not None}
    ahead = {*model.trains.ahead} if model.bins is None else senders
    what = "NetCon.record of a statement or a function" + (
        ", of an object that sends events, with CVode.queue_mode(1, 0)"
        if model.bins is not None
        else ", of what draws from NEURON's one generator in turn"
    )
    return [Rejected(name, what, "record into a Vector") for name in sorted(senders & ahead)]


def _run_ahead(model: NeuronModel, names: list[str]) -> None:
    """Let NEURON run the events of mechanisms ahead, which are trains then."""
    randoms = [r for name in names for r in _randoms_of(model, name) or ()]
    kept = {at: size for r in randoms for at, size in drawn_from(model.memory, r)[0].items()}
    trains = model.trains
    trains.names, trains.ahead = (*trains.names, *names), tuple(names)
    parts = model.h, model.memory, model.queue, model.wires, model.sources, trains, kept
    model.turns.sources = OwnEvents(*parts)
    for name in names:
        del model.mechanisms[name]
    del model.every  # which is without them now


def _draw_ahead(model: NeuronModel, name: str, outside: str) -> list[Rejected]:
    """Let the numbers of a mechanism's steps be drawn ahead; return why they cannot."""
    keeps = [v.name for to in model.pointed.values() for v in to if v.owner == name]
    found = _converted(model, name, sorted({*keeps}), in_turn=True)
    if not isinstance(found, Mechanism):
        if ONE_GENERATOR in found[0].construct:
            what = f"{IN_TURN} with others: {outside}, and draws elsewhere than in SOLVE"
            return [Rejected(name, what, _OF_ITS_OWN, found[0].file, found[0].line)]
        return found
    model.mechanisms[name] = found
    if not found.program.turns:
        return []
    inputs = {a.name for a in found.program.blocks[TURNS] if a.direction == "in"}
    changed = {p.variable.name for p in model.players if p.variable.owner == name}
    if inputs & (changed | {gap.name for gap in model.gaps if gap.owner == name}):
        return [Rejected(name, f"{IN_TURN}, where what decides whether it draws is played or set")]
    count = len(model.every[name])
    try:
        flags = asked(found, TURNS, _present(model, name, TURNS))
    except LookupError as error:
        return [Rejected(name, f"{IN_TURN}, where {error.args[0]} decides, which is no RANGE")]
    where = {k: np.broadcast_to(flag, count) for k, flag in flags}
    for instance in np.argsort(model.every[name].columns.numbers()).tolist():
        for place, function in enumerate(found.program.turns):
            if where[place][instance]:
                model.turns.add(name, instance, function, place)
    return []


def _find_external(model: NeuronModel) -> None:
    """Find what sets EXTERNAL variables in a step: POINTERs to the last instance have these."""
    played = {(p.variable.owner, p.variable.name) for p in model.players}
    for name, mechanism in [*model.mechanisms.items()]:
        for external in mechanism.program.external:
            owner = next((o for o in model.every if external.endswith(f"_{o}")), "")
            variable, what = external.removesuffix(f"_{owner}"), ""
            if not owner:
                continue  # no instance sets it
            if (owner, variable) in played:
                what = "which is played into"
            elif variable in set_in_steps(model.every[owner].entry):
                last = int(np.argmax(model.every[owner].columns.numbers()))
                model.external[name, external] = Variable(owner, variable, last)
            if what:
                model.rejected.append(Rejected(name, f"EXTERNAL {external}, {what}"))
    for name in {name for name, _ in model.external}:
        found = _converted(model, name)
        if isinstance(found, Mechanism):
            model.mechanisms[name] = found
        else:
            model.rejected += found


def _find_pointed(model: NeuronModel) -> None:
    """Find what POINTERs point to that are read; their mechanisms keep such variables."""
    known = {(gap.owner, gap.name, gap.instance): gap.node for gap in model.gaps}
    read = model.memory, model.places, model.every, model.mechanisms
    model.pointed, rejected = read_pointed(*read, known, model.external)
    model.rejected += rejected
    kept = dict[str, set[str]]()
    for targets in model.pointed.values():
        if targets and targets[0].owner in model.mechanisms:
            kept.setdefault(targets[0].owner, set()).add(targets[0].name)
    compared = [v for each in model.wires.compared.values() if (v := each[0].variable) is not None]
    compared = [one for one in compared if one.owner in model.mechanisms]
    for one in compared:
        kept.setdefault(one.owner, set()).add(one.name)
    for name, names in kept.items():
        found = _converted(model, name, sorted(names))
        if isinstance(found, Mechanism):
            model.mechanisms[name] = found
        else:  # as where a TABLE depends on a parameter that is a variable then
            model.rejected += found
    for (name, external), to in model.external.items():
        every = model.mechanisms[to.owner].program.blocks.values()
        used = any(a.name == to.name and a.direction != "out" for given in every for a in given)
        if used and len(model.every[to.owner]) > 1:
            what = f"EXTERNAL {external}, which several instances of {to.owner} set and use"
            model.rejected.append(Rejected(name, what))
    for one in compared:
        program, what = model.mechanisms[one.owner].program, ""
        bodies = model.mechanisms[one.owner].compiled.bodies.values()
        set_here = [q for q in program.states if any(q.name in body.writes for body in bodies)]
        own = {q.public or q.name: q.name for q in set_here if not q.is_global}
        if one.name not in own:
            what = "this does not set in a step"
        elif own[one.name] in program.received:
            what = "events set"
        if what:
            what = f"NetCon of {one.owner}.{one.name}, which {what}"
            model.rejected.append(Rejected("", what, "let it compare another variable"))
    played = {(p.variable.owner, p.variable.name) for p in model.players}
    for (name, pointer), targets in model.pointed.items():
        pointing = model.outside.pointing.get(targets[0].owner) if targets else None
        if pointing is not None and targets[0].name in pointing.unknown:
            what = f"POINTER {pointer} points to {targets[0].name}, which depends on i_membrane"
            model.rejected.append(Rejected(name, what))
        if targets and targets[0].owner in model.mechanisms:
            owner, variable = targets[0].owner, targets[0].name
            states = model.mechanisms[owner].program.states
            kept_there = variable in {(q.public or q.name).split("[")[0] for q in states}
            if (owner, variable) in played or not kept_there:
                what = (
                    f"POINTER {pointer} points to {variable} of {owner}, which is set from outside"
                )
                model.rejected.append(Rejected(name, what, "let it point to another variable"))


def _find_written(model: NeuronModel) -> None:
    """Find what POINTERs write; a Vector that records another element of one is rejected."""
    plays = model.plays
    known = model.memory, model.places, model.every, model.mechanisms
    model.written = read_written(*known, [*plays.in_use, *model.linear.vectors])
    model.rejected += model.written.rejected
    for recorder in plays.recorders:
        variable = recorder.variable
        if variable is not None and variable.owner == ELEMENT:
            node, layers = model.linear.node_of(variable.number), model.tree.layers
            if layers is not None and node >= 0 and node not in layers.numbers:
                node = -1 if layers.around[node] >= 0 else node  # a sum of two voltages
            if node >= 0:
                recorder.variable = Variable("", "v", node)
            elif variable.number not in (*model.written.elements, *model.linear.unknowns):
                assert recorder.place is not None
                model.rejected.append(plays.not_recorded(recorder.place))


def _check_made(model: NeuronModel) -> list[Rejected]:
    """Find what is played into a variable after DEPEND of a TABLE as NEURON has it, or makes it."""
    found, played = [], {(p.variable.owner, p.variable.name) for p in model.players}
    made = [(name, block) for name, blocks in model.made.items() for block in blocks]
    for name, block in [*made, *model.aside]:
        entry = model.every[name].entry
        for variable in tables_of(entry.text, entry.file)[block].depends:
            if (name, variable) in played:
                what = f"TABLE of {block}, which is made again where {variable} is played into"
                found.append(Rejected(name, what, f"set usetable_{name} = 0"))
    return found


def _slots(model: NeuronModel, name: str, mechanism: Mechanism) -> list[Rejected]:
    """Find where self events and WATCH conditions are; what cannot be found is rejected."""
    net, instances = mechanism.program.net, model.every[name]
    if net is None or not (net.watches or net.sends):
        return []
    try:
        model.slots.place_of(instances.entry.number, "netsend")
        if net.watches:
            model.watched[name] = model.slots.watched(instances)
    except OSError as error:
        return [Rejected(name, f"net_send or WATCH: NEURON's memory cannot be read: {error}")]
    return []
