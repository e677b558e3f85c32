"""A NEURON model, read from memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from clhines.neuron.convert import (
    Rejected,
    RejectedError,
    reject,
    rejection,
    statics_of,
    tables_of,
)
from clhines.neuron.extracellular.outside import Outside
from clhines.neuron.memory.fields import Fields
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.raw import Place
from clhines.neuron.memory.session import Hoc
from clhines.neuron.memory.sources import EventSources
from clhines.neuron.memory.streams import Generator, PointerStreams, RandomVariable, Streams
from clhines.neuron.memory.tables import depended, read_made, static_at
from clhines.neuron.read.contents import Contents, Instances, SharedVariables, WatchSlots
from clhines.neuron.read.draws import Draws
from clhines.neuron.read.places import MemoryPlaces, Variable
from clhines.neuron.read.played import Gap, Player, PlayReader, read_gaps, steps_at_once
from clhines.neuron.read.queue import Bins, EventQueue, PendingEvents, in_no_bin, read_pending
from clhines.neuron.read.trains import Trains, read_trains
from clhines.neuron.read.tree import Tree
from clhines.neuron.read.wiring import NeuronWires
from clhines.neuron.read.written import PointerTargets
from clhines.simulator.mechanisms import GENERATOR, Mechanism
from clhines.simulator.mechanisms.nmodl import GIVEN, MADE, FunctionTable


@dataclass(eq=False)
class StepCode:
    """Python code that only reads some variables of a model after each step."""

    name: str
    reads: dict[Place, Variable]
    call: Callable[[], object]  # run the code after a step that NEURON took
    take: Callable[[np.ndarray], object]  # run it for the values of `reads`, (steps, variables)
    block: Callable[[], int]  # step count until the code may change the model

    @property
    def most_steps(self) -> int:
        """Maximum number of steps to take at once, including the last one, which NEURON takes."""
        return min(steps_at_once(len(self.reads)) + 1, self.block())


@dataclass(eq=False)
class NeuronModel:
    """Everything that clhines reads from NEURON's memory."""

    h: Hoc
    memory: NeuronMemory
    queue: EventQueue
    sources: EventSources
    fields: Fields
    tree: Tree
    contents: Contents
    places: MemoryPlaces
    wires: NeuronWires
    pending: PendingEvents
    plays: PlayReader
    trains: Trains
    slots: WatchSlots
    draws: Draws
    outside: Outside
    gaps: list[Gap] = field(default_factory=list)
    nodes: range = range(0)  # this rank's node numbers among all ranks' `all_nodes`
    all_nodes: int = 0
    mechanisms: dict[str, Mechanism] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)
    # armed WATCH conditions by mechanism: instance, index of the WATCH, whether it is true
    watched: dict[str, list[tuple[int, int, bool]]] = field(default_factory=dict)
    written: PointerTargets = field(default_factory=PointerTargets)
    # by mechanism and POINTER that events set, (count, 2): NetCons and their weight indices
    steered: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    # by mechanism and POINTER that is read: each instance's target
    pointed: dict[tuple[str, str], list[Variable]] = field(default_factory=dict)
    bins: Bins | None = None  # NEURON's event bins (``CVode.queue_mode(1, 0)``)
    point_names: tuple[str, ...] = ()  # all point processes and artificial cells in NEURON
    made: dict[str, list[str]] = field(default_factory=dict)  # blocks whose TABLE NEURON has filled
    beyond: dict[str, set[str]] = field(default_factory=dict)  # TABLE inputs that DEPEND lacks
    # mechanism and block, for TABLEs that also set variables which other blocks use
    aside: list[tuple[str, str]] = field(default_factory=list)
    step_code: StepCode | None = None  # runs after each step in continuerun()
    draws_graphs: bool = False  # its own advance() or Plot() draws; a run leaves that out
    # reasons why its own advance(), step() or Plot() is not supported
    uncalled: list[Rejected] = field(default_factory=list)
    gathers: bool = False  # CVode.extra_scatter_gather has functions
    lone: Hoc | None = None  # section created if a model only has artificial cells

    @property
    def players(self) -> list[Player]:
        return [*self.plays.players, *self.draws.players]

    def waits_for_transfer(self) -> bool:
        """Whether a voltage transfer would now change `target_var` variables; all ranks call it."""
        names = {(gap.owner, gap.name) for gap in self.gaps}
        before = {(o, n): self.every[o].values(n).copy() for o, n in names}
        self.memory.transfer()
        changed = [not np.array_equal(self.every[o].values(n), v) for (o, n), v in before.items()]
        for (owner, name), values in before.items():
            self.every[owner].put(name, values)
        return any(changed)

    def unready(self, begins: bool = True) -> Iterator[Rejected]:
        """Yield what only NEURON's next step can do before a run; `begins`: not going on.

        A TABLE that the step fills may also set variables that other blocks read. An overdue event
        might send more of them.
        """
        for name, block in self.aside:
            saved = depended(self.every[name].entry.number, block)
            if saved is None or any((self._now(name, n) != x).any() for n, x in saved.items()):
                yield reject(name, "neuron.table-not-filled", block=block)
        pending, begin = self.pending, float(self.h.t) - 0.5 * float(self.h.dt)
        times = [t for _, t in pending.netcons] + [event.time for event in pending.selves]
        if begins and self.bins is None and min(times, default=np.inf) < begin:
            yield reject("", "neuron.event-overdue", t=min(times))

    def made_tables(self, name: str) -> dict[str, FunctionTable]:
        blocks = self.made.get(name, ())
        tables = {MADE.format(block): self.made_table(name, block) for block in blocks}
        return {key: table for key, table in tables.items() if table is not None}

    def made_table(self, name: str, block: str) -> FunctionTable | None:
        """Return a TABLE as NEURON has filled it; None if its next use would fill it again."""
        entry = self.every[name].entry
        table = tables_of(entry.text, entry.file)[block]
        saved = depended(entry.number, block)
        if saved is None or saved.keys() != {*table.depends}:
            return None
        if any((self._now(name, n) != x).any() for n, x in saved.items()):
            return None
        values = read_made(entry.number, table.columns, table.rows)
        return None if values is None else table.with_values(values)

    def first_of(self, name: str, variable: str) -> float:
        """Return the first instance's value of a variable; NaN if there is no such variable."""
        return float(np.ravel(self._now(name, variable))[0])

    def _now(self, name: str, variable: str) -> np.ndarray:
        """Return a mechanism's variable by instance; NaN if it is not found."""
        owner = self.owner_of(name, variable)
        if owner is not None and self.every[name].entry.globals_.get(variable, 1) == 1:
            return owner.values(variable, None)
        return np.array(getattr(self.h, variable) if variable in ("celsius", "dt") else np.nan)

    def owner_of(self, name: str, variable: str) -> Instances | SharedVariables | None:
        """Return what reads and writes a mechanism's variable in NEURON; None if it is not found.

        The variable is in RANGE or GLOBAL, or an ASSIGNED variable that hoc does not show.
        """
        instances = self.every[name]
        if variable in instances.entry.ranges:
            return instances
        if variable in instances.entry.globals_:
            return SharedVariables(self.h, name, int(np.argmax(instances.columns.numbers())))
        return instances if variable in instances.hidden else None

    def statics(self, name: str) -> dict[str, int]:
        """Return the values of a mechanism's static C ints that are found in memory, by name."""
        entry = self.every[name].entry
        at = {n: static_at(n, entry.number) for n in statics_of(entry.text)}
        return {n: ctypes.c_int.from_address(a).value for n, a in at.items() if a}

    def streams(self, name: str, variable: str) -> Streams:
        index, instances = int(self.h.Random().Random123_globalindex()), self.every[name]
        if variable == GENERATOR:
            return Generator(self.memory, name, len(instances.things))
        if variable not in self.mechanisms[name].program.picked:
            return RandomVariable(self.memory, name, instances.things, variable, index)
        try:
            lack = f"{variable}_{GIVEN}" in self.mechanisms[name].defaults
            pointers = self.pointers(name)
            return PointerStreams(self.memory, name, variable, pointers, index, lack)
        except OSError as error:
            raise rejection(
                name, "neuron.pointer-unreadable", variable=variable, error=error
            ) from None

    def pointers(self, name: str) -> np.ndarray:
        """Return the address in each instance's POINTER from which VERBATIM draws, (k,) int64."""
        return self.slots.pointers(self.every[name], self._slot_bytes())

    def lacking(self, name: str, variables: Sequence[str]) -> list[str]:
        """Return the POINTERs among `variables` that some instances have not set."""
        try:
            return [v for v in variables if not self.pointers(name).all()]
        except OSError:
            return []  # reported when streams are read

    def _slot_bytes(self) -> int:
        for one in self.every.values():
            if one.entry.kind == "point":
                return self.memory.points.slots_of(self.memory.object_address(one.things[0]))[1]
        raise OSError("a model without point processes")

    def read_gaps(self) -> tuple[list[Gap], list[Rejected]]:
        read = self.memory, self.fields, self.tree, self.contents
        return read_gaps(*read, self.nodes, self.all_nodes)

    @property
    def remote(self) -> np.ndarray:
        """Nodes of other MPI ranks whose voltages come to this rank, ascending, (r,) int64."""
        nodes = {gap.node for gap in self.gaps} - {-1}
        return np.array(sorted(n for n in nodes if n not in self.nodes), np.int64)

    def refresh(self, values: bool) -> None:
        """Read the Vectors again and, with `values`, everything else that a run changes."""
        self.plays.refresh()
        if values or self.trains.names:
            self.wires.refresh()
            self.pending = read_pending(self.queue, self.wires)
        if self.trains.names:
            self.trains = read_trains(self.memory, self.contents, self.pending)
        if values:
            for instances in (*self.every.values(), *self.contents.others):
                instances.columns.refresh()
            for name in self.watched:
                self.watched[name] = self.slots.watched(self.every[name])
            if self.bins is not None:
                self.bins = Bins(self.memory, self.queue, float(self.h.t), float(self.h.dt))
        rejected = [*self.pending.rejected, *self.plays.rejected, *self.trains.rejected]
        if values and self.bins is not None:
            rejected += in_no_bin(self.wires, self.pending)
        if rejected:
            raise RejectedError(rejected)

    def forget(self) -> None:
        """Drop all references to NEURON's objects, so that NEURON can delete them."""
        self.tree.forget()
        self.plays.forget()
        mechanisms = self.contents.density, self.contents.points
        for instances in (*mechanisms[0].values(), *mechanisms[1].values(), *self.contents.others):
            instances.things.forget()

    @contextmanager
    def forgotten_on_error(self) -> Iterator[None]:
        """Context manager: call `forget` after an error, as a traceback holds the model longer."""
        try:
            yield
        except BaseException:
            self.forget()
            raise

    @cached_property
    def every(self) -> dict[str, Instances]:
        """All mechanisms with simulated instances, in the order in which NEURON runs them."""
        instances = {**self.contents.density, **self.contents.points}
        order = {number: k for k, number in enumerate(self.memory.order())}
        names = sorted(instances, key=lambda n: order.get(instances[n].entry.number, len(order)))
        return {name: instances[name] for name in names if name not in self.trains.names}
