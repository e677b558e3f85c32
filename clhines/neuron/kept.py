"""A model and its simulation, kept from one call of `run` to the next.

A call takes all steps but the last, which is NEURON's own. Where NEURON's memory is then as that
step has left it, the next call goes on from the simulation's state; where only values differ, they
are taken again; all else is read anew. Nothing of NEURON's is held between calls.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import partial
from itertools import groupby, starmap
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from clhines.errors import InputError
from clhines.mechanisms.nmodl.meaning.verbatim import VECTOR_OF_COUNTER, counts_crossings
from clhines.neuron.back.states import Iterated, put_values, take_values
from clhines.neuron.back.writeback import (
    NEAR,
    Counters,
    Records,
    Runaways,
    clock,
    last_delivery,
    put_events,
)
from clhines.neuron.convert import RejectedError, function_tables_of, split_name, statics_of
from clhines.neuron.extracellular.drivers import POTENTIAL
from clhines.neuron.extracellular.outside import HELD
from clhines.neuron.importer import Imported, local_of, values_of
from clhines.neuron.memory.linear import read_linear
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.objects import POINTER
from clhines.neuron.memory.places import Variable
from clhines.neuron.memory.raw import WORD, compare, gather, ref, words_at
from clhines.neuron.memory.sources import NETCON_WORDS, RECORDING
from clhines.neuron.model import NeuronModel
from clhines.neuron.read.catalogue import OUTSIDE
from clhines.neuron.read.channels import read_channel
from clhines.neuron.read.contents import Instances
from clhines.neuron.read.hooks import acting, gathering, random_plays, settings_of
from clhines.neuron.read.patterns import OF_GID
from clhines.neuron.stepping.everything import Everything
from clhines.neuron.stepping.gathered import Gathering
from clhines.neuron.stepping.reads import stepping_of
from clhines.neuron.stepping.replay import Replay, alone, call_own
from clhines.neuron.stimuli import read_stimuli
from clhines.simulate.engines.arena_run import state_follows
from clhines.simulate.events.sources import SPIKE_LATE
from clhines.simulate.ranks.split import JoinedRun, Joints
from clhines.simulate.result import Result
from clhines.simulate.simulation import Simulation, take_state

_COUNTERS = (  # of NEURON's library: what they count is changes of sections and mechanisms
    "structure_change_cnt", "diam_change_cnt", "tree_changed", "v_structure_change",
    "diam_changed", "n_memb_func", "cvode_active_",
)  # fmt: skip
_TEMPLATE_WORDS = 8
_PLACE_WORDS = 4  # of a place that is no variable, at most
_BETWEEN = 512  # steps that are taken at once where events may call a statement
_LOOKED_AHEAD = 1 << 20  # steps at once where statements come, at most
_MOST_START = 1 << 26  # bytes of a simulation's start that are kept
_BLOCK = 1 << 13  # addresses whose words are read at once
_NONE = frozenset[str]()  # code in hoc that changes what follows from other things, which is seen
_OF_NETCONS = frozenset({"delay", "active", "setpost"})
_OF_STYLES = frozenset({"ion_style"})
_LARGE, _MOST_THREADS = 1 << 24, 8  # bytes from which on threads compare and copy them; how many


class ComesError(Exception):
    """A statement of `NetCon.record` comes: NEURON's own step is to be the one after `steps`."""

    def __init__(self, steps: int) -> None:
        super().__init__(steps)
        self.steps = steps


class ReadValue:
    size = 0  # bytes that are compared without NEURON's code
    names: frozenset[str] | None = None

    def __init__(self, read: Callable[[], object]) -> None:
        self.read, self.known = read, read()

    def same(self) -> bool:
        now = self.read()
        if isinstance(now, np.ndarray):
            return np.array_equal(now, self.known)  # type: ignore[arg-type]
        return now == self.known

    def take(self) -> None:
        self.known = self.read()


class Words:
    """Runs of `width` words at each of some addresses; `names` as of `Column`."""

    def __init__(
        self, addresses: np.ndarray, width: int = 1, names: frozenset[str] | None = None
    ) -> None:
        self._addresses, self._width, self.names = addresses, width, names
        self.take()
        self.size = self._known.nbytes

    def same(self) -> bool:
        return np.array_equal(gather(self._addresses, self._width), self._known)

    def take(self) -> None:
        self._known = gather(self._addresses, self._width)

    def words(self) -> np.ndarray:
        """(n,) int64: addresses of all."""
        every = self._addresses.astype(np.int64)[:, None] + 8 * np.arange(self._width)
        return every.ravel()

    @classmethod
    def by_blocks(
        cls, addresses: np.ndarray, width: int = 1, names: frozenset[str] | None = None
    ) -> list[Words]:
        """Return parts that are read block by block, which stay in the cache."""
        blocks = (addresses[k : k + _BLOCK] for k in range(0, len(addresses), _BLOCK))
        return [cls(block, width, names) for block in blocks]


class Column:
    """NEURON's column of a variable of `count` instances; those `played` are not compared.

    `names`: code in hoc that changes it has one of these; None: any may.
    """

    def __init__(
        self,
        address: int,
        count: int,
        played: Sequence[int] = (),
        names: frozenset[str] | None = None,
    ) -> None:
        self.names = names
        self.address, self._begin, self.size = address, WORD.from_address(address), 8 * count
        self._played = list(played)
        self._copy = np.empty(count, np.uint64)
        self._at = self._copy.ctypes.data
        self.take()

    def same(self) -> bool:
        """Whether it is where it was, and all numbers have the same bits."""
        if self._begin.value != self._known:
            return False
        if not compare(self._known, self._at, self.size):
            return True
        if not self._played:
            return False
        now = (ctypes.c_char * self.size).from_address(self._known)
        words = np.frombuffer(memoryview(now), np.uint64) != self._copy
        return bool(np.isin(np.flatnonzero(words), self._played).all())

    def words(self) -> np.ndarray:
        """(n,) int64: addresses of all numbers, as long as the column is where it is."""
        return self._begin.value + 8 * np.arange(len(self._copy))

    def take(self) -> None:
        self._known = self._begin.value
        ctypes.memmove(self._at, self._known, self.size)


Compared = ReadValue | Words | Column


def _differing(parts: Sequence[Compared]) -> list[Compared]:
    return [part for part in parts if not part.same()]


def _take(parts: Sequence[Compared]) -> list[Compared]:
    for part in parts:
        part.take()
    return []


def _over(
    parts: Sequence[Compared], do: Callable[[Sequence[Compared]], list[Compared]]
) -> list[Compared]:
    """Do something, where it is much memory by threads, which call nothing of NEURON's code."""
    chosen, threads = [part for part in parts if part.size], 1
    if sum(part.size for part in chosen) >= _LARGE:
        allowed = getattr(os, "sched_getaffinity", None)
        threads = min(len(allowed(0)) if allowed else os.cpu_count() or 1, _MOST_THREADS)
    if threads == 1:
        return do(parts)
    with ThreadPoolExecutor(threads) as pool:
        each = pool.map(do, [chosen[k::threads] for k in range(threads)])
        found = [part for some in each for part in some]
    return found + do([part for part in parts if not part.size])


def _same(parts: Sequence[Compared]) -> bool:
    """Whether all are as they were; what is not is known before the addresses of later ones."""
    for is_memory, some in groupby(parts, lambda part: part.size > 0):
        together = list(some)
        if _over(together, _differing) if is_memory else not all(p.same() for p in together):
            return False
    return True


class Fingerprint:
    """A model as it was read: structure, parameters and moving values, compared bit by bit."""

    def __init__(self, model: NeuronModel) -> None:
        self._model, self.covers_all = model, True
        memory, tree = model.memory, model.tree
        self._library = [ctypes.c_int.from_address(memory.address(name)) for name in _COUNTERS]
        self._templates = counts(memory, ("NetCon", *model.point_names))
        self._first, self._sources = ReadValue(self._counters), ReadValue(model.sources.words)
        cells = [n for n, i in model.contents.points.items() if i.entry.kind == "artificial"]
        fixed: list[Compared] = [
            ReadValue(lambda: [memory.objects_of(list(model.h.List(n))).tolist() for n in cells]),
            ReadValue(lambda: settings_of(model.h, memory)),
            *Words.by_blocks(model.wires.every, NETCON_WORDS, _OF_NETCONS),
            *Words.by_blocks(tree.addresses + 8 * model.fields.rinv, names=_NONE),
            self._sources,
            ReadValue(memory.play_words),
            ReadValue(lambda: acting(model.h, memory)),
            ReadValue(lambda: gather(gathering()).tobytes()),
            ReadValue(lambda: read_stimuli(model.h, memory, tree)),
            ReadValue(lambda: read_linear(model.h, memory, tree.in_layers).as_bytes()),
            ReadValue(lambda: random_plays(model.h, memory)),
            ReadValue(stepping_of(model)),
            ReadValue(lambda: [memory.vector_data(a).tobytes() for a in model.plays.watched]),
        ]
        self._given: list[tuple[str, Compared]] = []
        stepped = [p.variable for p in model.plays.players if not p.continuous]
        self._stepped = {(v.owner, v.name) for v in stepped}  # parameters that a run sets, too
        self._played: list[Compared] = []
        self._clock: list[Compared] = [
            ReadValue(lambda: float(model.h.t)),
            ReadValue(model.queue.words),
        ]
        weights = Words.by_blocks(model.wires.weight_addresses, names=frozenset({"weight"}))
        moving: list[Compared] = [*weights]
        moving += Words.by_blocks(np.array(model.linear.unknowns, np.int64))
        rows = int(model.fields.rows(tree.v, tree.addresses)[1].max()) + 1
        moving.append(Column(tree.v, rows, names=frozenset("v")))
        fixed.append(Column(memory.area(int(tree.inner[0])).column, rows, names=_NONE))
        for name in ("cm", "diam"):
            column = memory.place(ref(tree.sections[0](0.5), name)).column
            fixed.append(Column(column, len(tree.inner), names=frozenset({name})))
        self._add_mechanisms(fixed, moving)
        self._fixed, self._moving = fixed, moving

    def _counters(self) -> list[int]:
        return [c.value for c in (*self._library, *self._templates)]

    def _add_mechanisms(self, fixed: list[Compared], moving: list[Compared]) -> None:
        model, contents, memory = self._model, self._model.contents, self._model.memory
        for name, instances in {**contents.density, **contents.points}.items():
            program = model.mechanisms[name].program if name in model.mechanisms else None
            given = [split_name(q)[0] for q in program.parameters] if program is not None else []
            vector = VECTOR_OF_COUNTER if counts_crossings(instances.entry.text) else ""
            columns = _columns(memory, instances, model.plays.continuous(name))
            for variable, column in columns.items():
                if variable == vector:
                    fixed.append(column)
                elif variable in model.beyond.get(name, ()):
                    fixed.append(column)
                elif variable in given:
                    self._given.append((name, column))
                    self._played += [column] * ((name, variable) in self._stepped)
                else:
                    moving.append(column)
            for variable in program.random if program is not None else ():
                fixed.append(ReadValue(partial(_streams, model, name, variable)))
                moving.append(ReadValue(partial(_drawn, model, name, variable)))
            if instances.entry.channel is not None:
                fixed.append(ReadValue(partial(read_channel, model.h, memory, name)))
            elif function_tables_of(instances.entry.text) or name in model.made:
                fixed.append(ReadValue(partial(model.function_tables, name)))
            for external in program.external if program is not None else ():
                fixed.append(ReadValue(partial(getattr, model.h, external)))
            if statics_of(instances.entry.text) and program is not None:
                fixed.append(ReadValue(partial(model.statics, name)))
            pointers = (
                (*program.pointers, *program.written, *program.steered, *program.picked)
                if program is not None
                else ()
            )
            if pointers or name in model.outside.pointing:
                words = _PLACE_WORDS * memory.num_places(instances.entry.number)
                fixed += Words.by_blocks(instances.places, words)
            self.covers_all &= {*instances.entry.ranges} <= {*columns, *pointers}
            set_here = set[str]()
            if program is not None:  # of what blocks set, only what they keep is taken
                set_here = {split_name(q)[0] for q in program.states}
                at = [np.zeros(0, np.uint64), *(local_of(model, name, q) for q in program.states)]
                moving += Words.by_blocks(np.concatenate(at), names=_NONE)
            first = {"usetable", *model.beyond.get(name, ())}
            kinds = first, {*given} - first, set_here - {*first, *given}
            if program is None:
                kinds = {*instances.entry.globals_}, set(), set()
            names = [[f"{n}_{name}" for n in instances.entry.globals_ if n in k] for k in kinds]
            of_kinds = [ReadValue(partial(_globals, model, own)) for own in names]
            fixed.append(of_kinds[0])
            self._given.append((name, of_kinds[1]))
            self._played += [of_kinds[1]] * any((name, n) in self._stepped for n in kinds[1])
            moving.append(of_kinds[2])
        for ion in contents.ions.values():
            fixed += Words.by_blocks(ion.instances.places + 8 * POINTER, names=_OF_STYLES)
            moving += _columns(memory, ion.instances).values()
        self._add_outside(fixed, moving)

    def _add_outside(self, fixed: list[Compared], moving: list[Compared]) -> None:
        model, instances = self._model, self._model.contents.outside
        if instances is None:
            return
        played = [p.variable for p in model.players if p.variable.owner == OUTSIDE]
        driven = [k for driver in model.outside.drivers.values() for k in driver.of.tolist()]
        played += [Variable(OUTSIDE, POTENTIAL, k) for k in driven]
        columns = _columns(model.memory, instances, played)
        fixed += [column for name, column in columns.items() if name in HELD]
        kept = {*model.plays.continuous(OUTSIDE)}
        stepped = [v.number for v in played if v not in kept and v.number not in driven]
        moving.append(ReadValue(lambda: model.outside.potentials()[stepped]))
        self.covers_all &= {*HELD} <= {*columns}
        if (layers := model.tree.layers) is not None:
            moving += Words.by_blocks(layers.addresses)

    def words(self, names: Set[str] | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return addresses, int64, of words by which changes are seen without NEURON's code.

        As long as the first are as they were the others are where they were: those that code in
        hoc with some names changes, None: any code; and the rest.
        """
        parts = [*self._fixed, *(part for _, part in self._given), *self._moving]
        columns = [part.address for part in parts if isinstance(part, Column)]
        counts = [ctypes.addressof(one) for one in self._templates]
        inside: tuple[list[np.ndarray], ...] = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for part in parts:
            if isinstance(part, Words | Column):
                is_named = names is None or part.names is None or not names.isdisjoint(part.names)
                inside[not is_named].append(part.words())
        changed, rest = map(np.concatenate, inside)
        return np.array([*counts, *columns], np.int64), changed, rest

    def follow_recordings(self) -> None:
        """Take other Vectors into which sources record, where that alone of them has changed."""
        known, now = self._sources.known, self._sources.read()
        assert isinstance(known, np.ndarray) and isinstance(now, np.ndarray)
        if known.shape != now.shape:
            return
        same = known == now
        if same.all() or not np.delete(same, RECORDING, 1).all():
            return
        moved = now[~same.all(1)].astype(np.int64)
        at = moved[:, 0].tolist()
        vectors = (tuple(row) for row in moved[:, RECORDING].tolist())
        if self._model.wires.record_into(dict(zip(at, vectors, strict=True))):
            self._sources.take()

    def structure_is_same(self) -> bool:
        """Whether all but parameters and what a run changes is as it was."""
        return self._first.same() and _same(self._fixed)

    def take_parameters(self) -> list[str]:
        """Take parameters as they are now; return the mechanisms of those that have changed."""
        changed = {*_over([part for _, part in self._given], _differing)}
        _take([*changed])
        return [*dict.fromkeys(name for name, part in self._given if part in changed)]

    def values_are_same(self) -> bool:
        """Whether what a run changes is as it was, where the structure is."""
        return _same(self._clock) and self.state_is_same()

    def state_is_same(self) -> bool:
        """Whether all of it but the time and the events on their way is as it was."""
        return _same(self._moving)

    def take_values(self) -> None:
        _over(self._clock + self._moving + self._played, _take)


def counts(memory: NeuronMemory, names: tuple[str, ...]) -> list[ctypes.c_uint64]:
    """Return NEURON's counts of the objects of some classes: present, and ever made."""
    template = memory.template("Vector")
    before = words_at(template, _TEMPLATE_WORDS)
    vector = memory.new_vector()
    after = words_at(template, _TEMPLATE_WORDS)
    at = [k for k in range(_TEMPLATE_WORDS) if before[k] != after[k]]
    del vector
    if not at:
        raise OSError("the number of objects is not found")
    return [WORD.from_address(memory.template(name) + 8 * k) for name in names for k in at]


def _columns(
    memory: NeuronMemory, instances: Instances, played: Sequence[Variable] = ()
) -> dict[str, Column]:
    """Return all variables of a mechanism that NEURON has in columns, by name."""
    numbers = instances.columns.numbers()
    rows, found = int(numbers.max()) + 1, {}
    ranges = instances.entry.ranges or {f"e{instances.entry.name.removesuffix('_ion')}": 1}
    for name, size in ranges.items():
        try:
            found = memory.columns(ref(instances.things[0], name, size))
        except (AttributeError, RuntimeError, TypeError):
            continue
        if found:
            break
    if instances.entry.channel is not None:
        shown = instances.entry.channel.variables
        found = {shown.get(name, name): at for name, at in found.items()}
    sizes, moved = {n: ranges.get(n, 1) for n in found}, dict[str, list[int]]()
    for one in played:
        at = int(numbers[one.number]) * sizes.get(one.name, 1) + (one.place or 0)
        moved.setdefault(one.name, []).append(at)
    own = instances.entry.name
    return {
        n: Column(at, rows * sizes[n], moved.get(n, ()), frozenset({n, f"{n}_{own}"}))
        for n, at in found.items()
    }


def _streams(model: NeuronModel, name: str, variable: str) -> np.ndarray:
    if model.draws_by_mcell(name) != (name in model.by_mcell):
        return np.zeros(0)  # a Random's generator is another
    try:
        found = model.streams(name, variable)
    except RejectedError:
        return np.zeros(0)  # an instance has none any more
    return np.hstack([found.ids(), found.distribution()])


def _drawn(model: NeuronModel, name: str, variable: str) -> np.ndarray:
    return model.streams(name, variable).drawn()


def _globals(model: NeuronModel, names: list[str]) -> list[object]:
    values = [getattr(model.h, name) for name in names]
    return [v if isinstance(v, float) else [v[k] for k in range(len(v))] for v in values]


class RunOptions(NamedTuple):
    device: object
    dtype: str
    engine: str
    calls: bool = True  # a model's own advance() and step(), as continuerun() does
    solves: bool = False  # as psolve() does

    @classmethod
    def of(cls, device: object, dtype: DTypeLike, engine: str) -> RunOptions:
        """Return a request with the name of a dtype, which `Simulation` checks."""
        try:
            return cls(device, np.dtype(dtype).name, engine)
        except TypeError:
            return cls(device, str(dtype), engine)


class Checkpoint(NamedTuple):
    """Where a simulation is, with its arrays; what NEURON sees of this, see `KeptModel`."""

    step: int
    arrays: dict[str, np.ndarray]
    t: float  # ms
    crossed: list[int]
    lag: int
    first: int  # rows of the next run that NEURON has
    delivered: float  # ms


class KeptModel:
    def __init__(self, model: NeuronModel, request: RunOptions) -> None:
        self.model, self.request = model, request
        self.sim: Simulation | None = None
        self.imported: Imported | None = None
        self.joints: Joints | None = None
        self.records: Records | None = None
        self._counters: Counters | None = None
        self._runaways: Runaways | None = None
        self._iterated: Iterated | None = None
        self._replay: Replay | None = None
        self.gathering = Gathering(model) if model.gathers else None
        self.everything: Everything | None = None  # that the simulation records for loops
        self.is_called = False  # code of each step, for all steps to come
        self.known: Fingerprint | None = None
        self._start: dict[str, np.ndarray] | None = None  # arrays of the simulation at its start
        self._lag, self.delivered = 0, -np.inf
        self._calls = bool(model.wires.called)
        self._due, self._foreseen = np.inf, False  # ms of a statement; whether one was looked for
        self._played = np.inf  # ms: of one that `Vector.play` calls

    def is_of(self, request: RunOptions) -> bool:
        """Whether NEURON still has this model; parts that change in a run are read again."""
        if self.known is None or request[:3] != self.request[:3]:
            return False
        if self.everything is None:
            self.known.follow_recordings()
        if not self.known.structure_is_same():
            return False
        changed = self.known.take_parameters()
        same = not changed and self.known.values_are_same()
        trains = self.model.trains
        self.model.refresh(not same or self.sim is None)  # after steps of NEURON's alone
        if not self.model.trains.follow(trains):
            self.sim = None
        if not same:
            self._due, self._foreseen = np.inf, False
        if not same and self.sim is not None:
            self._take(changed)
        return True

    def _take(self, changed: list[str]) -> None:
        """Start from NEURON's values and parameters of `changed`; drop the run if events differ."""
        imported, pending = self.imported, self.model.pending
        assert self.sim is not None and imported is not None
        began = float(imported.network.settings["t"]), float(self.model.h.t)
        trains = {*self.model.trains.names} - {OF_GID}  # of other ranks there are no times
        has_events = pending.netcons or trains or (imported.connections < 0).any()
        steps = any(not p.continuous for p in self.model.plays.players)
        assert self._runaways is not None
        run, fits = self.sim.runner, self._runaways.are_seen()
        if isinstance(run, JoinedRun):  # other ranks would have to make a new run as well
            fits &= run.can_restart and not changed
        if any(began) or has_events or steps or not fits or not all(map(self._set, changed)):
            self.sim = None
            return
        start = self._start
        if start is None:
            with state_follows():
                self.sim.reset()
                start = self.sim.arrays()
            if sum(a.nbytes for a in start.values()) <= _MOST_START:
                self._start = start  # the parameters are the same as long as it is kept
        take_values(self.sim, imported, {name: a.copy() for name, a in start.items()})
        self._begin()

    def _begin(self) -> None:
        """Go on from values of NEURON that the simulation has taken."""
        if self.joints is not None:
            assert self.sim is not None and self.imported is not None
            crossed = np.array(self.imported.crossed, np.int64)
            late = np.full(len(crossed), float(self.model.h.t) + SPIKE_LATE)
            self.sim.runner.send(crossed, late)  # type: ignore[attr-defined]
        self._lag, self.delivered = 0, -np.inf

    def _set(self, name: str) -> bool:
        """Give the simulation the parameters of a mechanism; False where it cannot take them."""
        assert self.sim is not None and self.imported is not None
        if any(p.variable.owner == name for p in self.model.plays.players):
            return False  # some of them are those of the play
        if name in self.model.outside.drivers:
            return False  # whose copies have them, too
        wanted = list(self.model.mechanisms[name].program.parameters)
        self._start = None
        try:
            self.sim.set(self.imported.groups[name], **values_of(self.model, name, wanted))
        except InputError:
            return False
        return True

    @property
    def lag(self) -> int:
        """Steps that the simulation is behind NEURON; -1 where there is none."""
        return -1 if self.sim is None else self._lag

    @property
    def _first(self) -> int:
        """Rows of the next run that NEURON has: of steps that it has taken, and of the start."""
        assert self.sim is not None
        return self._lag + (1 if self.sim.step == 0 else 0)

    def start(self, sim: Simulation, imported: Imported, joints: Joints | None = None) -> None:
        self.sim, self.imported, self.joints = sim, imported, joints
        self._start = self.everything = None
        self.records, self._counters = Records(sim, imported), Counters(sim, imported)
        self._runaways = Runaways(sim, imported, self.records)
        self._iterated = None if joints else Iterated(sim, imported)
        self._replay = Replay(sim, imported) if self.model.stepping is not None else None
        if self.gathering is not None:
            self.gathering.start(sim, imported)
        self._begin()

    def advance(self, steps: int, progress: bool) -> None:
        sim, imported, h = self.sim, self.imported, self.model.h
        assert sim is not None and imported is not None
        assert self.records is not None and self._counters is not None
        assert self._runaways is not None
        begin, dt, first = float(h.t), sim.model.dt, self._first
        before = self.place(begin) if self._calls else None
        result = sim.run((steps + self._lag) * dt, progress)
        if before is not None:
            self._foresee(result, begin, steps, before)
        of_hoc = dict[int, np.ndarray]()
        if self._replay is not None and not self.is_called:
            with alone(self.joints is not None):
                of_hoc = self._replay.play(result, begin, first)
        if self.gathering is not None:
            self.gathering.play(result, first, begin, dt)
        if self.joints is not None:
            sim.runner.exchange()  # type: ignore[attr-defined]
            self.model.queue.exchange()  # spikes of NEURON's last step, which `sim` has as well
        h.t = float(clock(begin, dt, steps)[-1])
        if self.joints is not None:
            self.model.queue.exchange()  # of none, but NEURON counts their times from it
        last = last_delivery(begin, dt, steps)
        with nullcontext() if self.joints is None else self.joints.agreed():
            self._counters.fill(result, first)  # before numbers of the end are in NEURON's memory
            self.records.fill(result, begin, first, of_hoc)
            self.records.fill_spikes(result, begin, self.delivered, last)
            arrays = sim.runner.save()
            put_values(sim, imported, arrays)
            put_events(sim, imported, arrays, last)
            if self._iterated is not None:
                self._iterated.put(arrays)
            self._runaways.tell(result, first, arrays["v"])
        imported.crossed.clear()
        self._lag = 0

    def _foresee(self, result: Result, begin: float, steps: int, before: Checkpoint) -> None:
        """Let NEURON itself take the step in which a statement comes, and the one before it.

        That sets all variables which the statement may read.
        """
        sim, records = self.sim, self.records
        assert sim is not None and records is not None
        due = records.first_call(result, begin, self.delivered)
        ends = clock(begin, sim.model.dt, steps + 1)[1:]
        if due > ends[-1] and any(o.sender is not None for o in self.model.wires.called):
            here = self.place(float(ends[-2]))
            of_next = sim.run(sim.model.dt)
            self.go_back(here)
            due = min(due, records.first_call(of_next, begin, self.delivered))
        earlier = max(int(np.searchsorted(ends, due)) - 1, 0)
        self._foreseen = True
        if due <= ends[-1]:
            self._due = due
        if earlier < steps:
            self.go_back(before)
            raise ComesError(earlier)

    def ahead(self, steps: int) -> tuple[Result, int]:
        """Run some steps that NEURON does not know of; return what is found, less first rows.

        NEURON's memory stays as it is; `go_back` goes back to where that is.
        """
        assert self.sim is not None and self.imported is not None
        first = self._first
        result = self.sim.run((steps + self._lag) * self.sim.model.dt)
        self._lag = 0
        self.imported.crossed.clear()
        return result, first

    def place(self, t: float) -> Checkpoint:
        """Return where the simulation is, at a time, ms."""
        assert self.sim is not None and self.imported is not None
        arrays = {name: np.array(array) for name, array in self.sim.runner.save().items()}
        crossed = [*self.imported.crossed]
        lag, first = self._lag, self._first
        return Checkpoint(self.sim.step, arrays, t, crossed, lag, first, self.delivered)

    def go_back(self, place: Checkpoint) -> None:
        """Go back to where the simulation was."""
        assert self.sim is not None and self.imported is not None
        arrays = {name: np.array(array) for name, array in place.arrays.items()}
        take_state(self.sim, place.step, arrays, 1.0)
        self.imported.crossed[:] = place.crossed
        self._lag, self.delivered = place.lag, place.delivered

    def waits(self) -> bool:
        """Whether NEURON is to take the next step; there is no simulation after it."""
        return self.model.waits_for_tables() or (self.sim is None and self.model.is_behind())

    def steps_ahead(self, most: int) -> int:
        """Return steps to take at once; NEURON takes those with transfers or code of events."""
        if self.model.memory.transfers and self.model.waits_for_transfer():
            self.sim = None  # it would begin with the voltages of now
            return 1
        h, statements = self.model.h, self.model.pending.statements
        if self._is_late or not self.is_tried:
            return 1
        for ahead in (self.model.draws, self.model.turns):
            if ahead:
                most = min(most, ahead.most_steps)
        if self.model.stepping is not None and not self.is_called:
            most = min(most, self.model.stepping.most_steps)
        if self.gathering is not None:
            most = min(most, self.gathering.most_steps)
        if self._calls:
            most = min(most, _BETWEEN)
        self._played = self.model.queue.next_of(self.model.plays.calls) - NEAR * float(h.dt)
        called = min(self._due, self._played)
        if not statements and called == np.inf:
            return most
        most = min(most, _LOOKED_AHEAD)
        ends = clock(float(h.t), float(h.dt), most)[1:]
        between, within = np.searchsorted(ends, [min(statements, default=np.inf), called]).tolist()
        return min(between + 1, max(within, 1), most)

    def step(self) -> None:
        """Take a step by NEURON, with the model's own code of each step."""
        self.call(self._step)

    def call(self, step: Callable[[], object]) -> None:
        """Take a step, in the model's own procedure where it has one."""
        own, model = self.model.stepping, self.model
        if self.gathering is not None:
            with self.gathering.watched():
                step()
        elif own is None or self.is_called:
            step()
        else:
            call_own(model.h, model.memory, own.procedure, step)

    @property
    def is_tried(self) -> bool:
        """Whether NEURON has called what it calls in the middle of each step."""
        return self.gathering is None or self.gathering.is_tried

    def _step(self) -> None:
        """Take a step, which sets all ASSIGNED variables and runs code of events at its end."""
        h, pending = self.model.h, self.model.pending
        begin, end = clock(float(h.t), float(h.dt), 1).tolist()
        due = [t for t in pending.statements if t <= end]
        acted = bool(due)  # what is due, for all that is known
        alone = bool(due) and np.sum(self.model.queue.columns().time == min(due)) == 1
        if alone and min(due) > begin:  # an earlier event would put others of its time in its place
            before = list[np.ndarray]()

            def begins() -> None:
                self._take_print()
                before[:] = self.model.queue.others()

            def ends() -> None:  # the last of its time, and before an exchange
                nonlocal acted
                same = self.known is not None and self.known.state_is_same()
                pairs = zip(before, self.model.queue.others(), strict=True)
                times, _ = self.model.queue.statements()  # none that is due may still come
                same &= min(times, default=np.inf) > max(due)
                acted = not same or not all(starmap(np.array_equal, pairs))

            h.CVode().event(float(np.nextafter(min(due), begin)), begins)
            h.CVode().event(max(due), ends)
        if self.joints is not None:  # NEURON's exchange, which would set its time, comes later
            self.model.queue.put_exchange_off(end)
        h.fadvance()
        called = min(self._due, self._played) <= end or (self._calls and not self._foreseen)
        called |= self._is_late
        self._foreseen = self._due < np.inf
        rest = [t for t in pending.statements if t > end]
        if due and not acted:  # but for calls of the next ones
            rest, of_points = self.model.queue.statements()
            acted = bool(of_points)  # which are rejected when all is read
        if not acted and not called:
            self._take_print()
        elif called or min(due) <= begin:  # they come before the step: all is read again
            self.known = None
        pending.statements = rest
        self.delivered = float(h.t)  # what is due until the end of its step
        self._lag += 1

    def _take_print(self) -> None:
        """Take NEURON's memory as it is now for what the simulation has."""
        if self.known is not None:
            self.known.take_values()
        elif self._is_free:
            with suppress(OSError):  # something is not found: it is read again each time
                self.known = Fingerprint(self.model)

    @property
    def _is_late(self) -> bool:
        """Whether NEURON's bins of events are right only after a step of its own."""
        return self.model.bins is not None and self.model.bins.late

    @property
    def _is_free(self) -> bool:
        """Whether nothing of NEURON's must be held, and the network has all of the model."""
        model = self.model
        return not (model.lone is not None or model.trains.patterns or model.draws or model.turns)

    @property
    def can_stay(self) -> bool:
        """Whether it can be kept: all of it can be compared."""
        return self._is_free and self.known is not None and self.known.covers_all


_kept: list[KeptModel] = []


def kept_model(request: RunOptions, stepped: bool = False) -> KeptModel | None:
    """Return the model that is kept, if NEURON has it still; it is kept no more.

    Its simulation records everything if that is for a loop's steps, and else does not.
    """
    found, same = _kept.pop() if _kept else None, False
    if found is not None and (found.everything is not None) != stepped:
        found.sim = found.everything = None
    try:
        same = found is not None and found.is_of(request)
        return found if same else None
    finally:
        if found is not None and not same:
            found.model.forget()


def keep(kept: KeptModel) -> None:
    _kept.clear()
    kept.model.forget()
    if kept.can_stay:
        _kept.append(kept)
