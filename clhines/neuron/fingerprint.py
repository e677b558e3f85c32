"""Detect changes of a model: compare NEURON's memory and settings with an earlier reading.

`Column` compares memory bit by bit without calling NEURON; `ReadValue` compares the result of a
function. Each has `same`, which compares, and `take`, which stores the present values.
A `Fingerprint` covers the whole model: structure, parameters and *moving* values, which a run
changes. It holds no reference to NEURON's objects.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from clhines.neuron.convert import RejectedError, split_name, statics_of
from clhines.neuron.extracellular.drivers import POTENTIAL
from clhines.neuron.extracellular.outside import HELD
from clhines.neuron.importer import local_of
from clhines.neuron.mechanisms import asks_generator
from clhines.neuron.memory.channels import read_channel
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.objects import POINTER
from clhines.neuron.memory.raw import WORD, compare, gather, ref, words_at
from clhines.neuron.memory.session import Hoc
from clhines.neuron.memory.sources import NETCON_WORDS, RECORDING
from clhines.neuron.model import NeuronModel
from clhines.neuron.read.catalogue import OUTSIDE
from clhines.neuron.read.contents import Instances
from clhines.neuron.read.hooks import acting, gathering, random_plays, settings_of
from clhines.neuron.read.places import Variable
from clhines.neuron.stepping.advance import step_code_of
from clhines.simulator.mechanisms import Program
from clhines.simulator.mechanisms.nmodl import VECTOR_OF_COUNTER, counts_crossings

_COUNTERS = (  # variables in NEURON's library that count changes to sections and mechanisms
    "structure_change_cnt", "diam_change_cnt", "tree_changed", "v_structure_change",
    "diam_changed", "n_memb_func", "cvode_active_",
)  # fmt: skip
_TEMPLATE_WORDS = 8
_PLACE_WORDS = 4  # per dparam slot, at most
_BLOCK = 1 << 13  # addresses per part


class ReadValue:
    def __init__(self, read: Callable[[], object]) -> None:
        self.read = read
        self.value: Any = read()

    def same(self) -> bool:
        now = self.read()
        if isinstance(now, np.ndarray):
            return np.array_equal(now, self.value)
        return now == self.value

    def take(self) -> None:
        self.value = self.read()


class Column:
    """A stored copy of `count` numbers, to compare with NEURON's; elements `played` may change."""

    def __init__(self, address: int, count: int, played: Sequence[int] = ()) -> None:
        self._begin, self.size = WORD.from_address(address), 8 * count
        self._played = list(played)
        self._copy = np.empty(count, np.uint64)
        self._at = self._copy.ctypes.data
        self.take()

    def same(self) -> bool:
        """Whether the numbers have the same address and bits; `played` elements may differ."""
        if self._begin.value != self._address:
            return False
        if not compare(self._address, self._at, self.size):
            return True
        if not self._played:
            return False
        now = (ctypes.c_char * self.size).from_address(self._address)
        words = np.frombuffer(memoryview(now), np.uint64) != self._copy
        return bool(np.isin(np.flatnonzero(words), self._played).all())

    def take(self) -> None:
        self._address = self._begin.value
        ctypes.memmove(self._at, self._address, self.size)


FingerprintPart = ReadValue | Column


def _words(addresses: np.ndarray, width: int = 1) -> list[FingerprintPart]:
    """Return copies of `width` words at each address, by blocks of addresses."""
    blocks = (addresses[k : k + _BLOCK] for k in range(0, len(addresses), _BLOCK))
    return [ReadValue(partial(gather, block, width)) for block in blocks]


def _take(parts: Sequence[FingerprintPart]) -> None:
    for part in parts:
        part.take()


def _same(parts: Sequence[FingerprintPart]) -> bool:
    """Whether all parts are unchanged; stop at a change, as later addresses may be invalid."""
    return all(part.same() for part in parts)


class Fingerprint:
    """A copy of a model's structure, parameters and state, to detect changes in NEURON's memory."""

    def __init__(self, model: NeuronModel) -> None:
        self._model, self.covers_all = model, True
        memory, tree = model.memory, model.tree
        self._library = [ctypes.c_int.from_address(memory.address(name)) for name in _COUNTERS]
        self._templates = counts(model.h, memory, ("NetCon", *model.point_names))
        self._first, self._sources = ReadValue(self._counters), ReadValue(model.sources.words)
        cells = [n for n, i in model.contents.points.items() if i.entry.kind == "artificial"]
        self._fixed: list[FingerprintPart] = [
            ReadValue(lambda: [memory.objects_of(list(model.h.List(n))).tolist() for n in cells]),
            ReadValue(lambda: settings_of(model.h, memory)),
            *_words(model.wires.every, NETCON_WORDS),
            *_words(tree.addresses + 8 * model.fields.rinv),
            self._sources,
            ReadValue(memory.vectors.play_words),
            ReadValue(lambda: acting(model.h, memory)),
            ReadValue(lambda: gather(gathering()).tobytes()),
            ReadValue(lambda: random_plays(model.h, memory)),
            ReadValue(step_code_of(model)),
            ReadValue(lambda: [memory.vectors.data(a).tobytes() for a in model.plays.watched]),
        ]
        self._parameters: list[tuple[str, FingerprintPart]] = []
        stepped = [p.variable for p in model.plays.players if not p.continuous]
        self._stepped = {(v.owner, v.name) for v in stepped}  # parameters that a run changes
        self._played: list[FingerprintPart] = []
        self._clock = [ReadValue(lambda: float(model.h.t)), ReadValue(model.queue.words)]
        self._moving: list[FingerprintPart] = [*_words(model.wires.weight_addresses)]
        rows = int(model.fields.rows(tree.v, tree.addresses)[1].max()) + 1
        self._moving.append(Column(tree.v, rows))
        self._fixed.append(Column(memory.area(int(tree.inner[0])).column, rows))
        for name in ("cm", "diam"):
            column = memory.place(ref(tree.sections[0](0.5), name)).column
            self._fixed.append(Column(column, len(tree.inner)))
        self._add_mechanisms()

    def _counters(self) -> list[int]:
        return [c.value for c in (*self._library, *self._templates)]

    def _add_mechanisms(self) -> None:
        model, contents = self._model, self._model.contents
        for name, instances in {**contents.density, **contents.points}.items():
            program = model.mechanisms[name].program if name in model.mechanisms else None
            columns = self._add_columns(name, instances, program)
            pointers = self._add_places(name, instances, program)
            self.covers_all &= {*instances.entry.ranges} <= {*columns, *pointers}
            if program is None:
                names = [f"{n}_{name}" for n in instances.entry.globals_]
                self._fixed.append(ReadValue(partial(_globals, model, names)))
                continue
            self._fixed += self._of_program(name, instances, program)
            for variable in program.random:
                self._fixed.append(ReadValue(partial(_streams, model, name, variable)))
                self._moving.append(ReadValue(partial(_drawn, model, name, variable)))
            for words, quantities in (
                (self._moving, program.states),
                (self._fixed, program.parameters),
            ):
                at = [np.zeros(0, np.uint64), *(local_of(model, name, q) for q in quantities)]
                words += _words(np.concatenate(at))
            self._add_globals(name, instances, program)
        for ion in contents.ions.values():
            self._fixed += _words(ion.instances.places + 8 * POINTER)
            self._moving += _columns(model.memory, ion.instances).values()
        self._add_outside()

    def _add_columns(
        self, name: str, instances: Instances, program: Program | None
    ) -> dict[str, Column]:
        """Add a mechanism's RANGE variables; return a `Column` for each, by name."""
        model = self._model
        parameters = {split_name(q)[0] for q in program.parameters} if program else set[str]()
        stays = {*model.beyond.get(name, ())}
        if counts_crossings(instances.entry.text):
            stays.add(VECTOR_OF_COUNTER)
        columns = _columns(model.memory, instances, model.plays.continuous(name))
        for variable, column in columns.items():
            if variable in stays:
                self._fixed.append(column)
            elif variable in parameters:
                self._parameters.append((name, column))
                self._played += [column] * ((name, variable) in self._stepped)
            else:
                self._moving.append(column)
        return columns

    def _add_places(
        self, name: str, instances: Instances, program: Program | None
    ) -> tuple[str, ...]:
        """Add the targets of a mechanism's POINTERs; return the POINTER names."""
        pointers: tuple[str, ...] = ()
        if program is not None:
            pointers = *program.pointers, *program.written, *program.steered, *program.picked
        if pointers or name in self._model.outside.pointing:
            words = _PLACE_WORDS * self._model.memory.num_places(instances.entry.number)
            self._fixed += _words(instances.places, words)
        return pointers

    def _of_program(
        self, name: str, instances: Instances, program: Program
    ) -> Iterator[FingerprintPart]:
        """Yield copies of tables and other inputs that must not change."""
        model, text = self._model, instances.entry.text
        if instances.entry.channel is not None:
            yield ReadValue(partial(read_channel, model.h, model.memory, name))
        elif name in model.made:
            yield ReadValue(partial(model.made_tables, name))
        if program.unless:
            yield ReadValue(partial(asks_generator, model, name))
        if statics_of(text):
            yield ReadValue(partial(model.statics, name))

    def _add_globals(self, name: str, instances: Instances, program: Program) -> None:
        """Add a mechanism's GLOBAL variables: constants, parameters, and values that blocks set."""
        parameters = {split_name(q)[0] for q in program.parameters}
        first = {"usetable", *self._model.beyond.get(name, ())}
        set_here = {split_name(q)[0] for q in program.states} - {*first, *parameters}
        parameters -= first
        names = [
            [f"{n}_{name}" for n in instances.entry.globals_ if n in kind]
            for kind in (first, parameters, set_here)
        ]
        stays, of_parameters, moves = (ReadValue(partial(_globals, self._model, n)) for n in names)
        self._fixed.append(stays)
        self._parameters.append((name, of_parameters))
        self._played += [of_parameters] * any((name, n) in self._stepped for n in parameters)
        self._moving.append(moves)

    def _add_outside(self) -> None:
        model, instances = self._model, self._model.contents.outside
        if instances is None:
            return
        played = [p.variable for p in model.players if p.variable.owner == OUTSIDE]
        driven = [k for driver in model.outside.drivers.values() for k in driver.of.tolist()]
        played += [Variable(OUTSIDE, POTENTIAL, k) for k in driven]
        columns = _columns(model.memory, instances, played)
        self._fixed += [column for name, column in columns.items() if name in HELD]
        kept = {*model.plays.continuous(OUTSIDE)}
        stepped = [v.number for v in played if v not in kept and v.number not in driven]
        self._moving.append(ReadValue(lambda: model.outside.potentials()[stepped]))
        self.covers_all &= {*HELD} <= {*columns}
        if (layers := model.tree.layers) is not None:
            self._moving += _words(layers.addresses)

    def follow_recordings(self) -> None:
        """Accept new Vectors that record sources of events, if the sources have not changed."""
        before, now = self._sources.value, self._sources.read()
        assert isinstance(before, np.ndarray) and isinstance(now, np.ndarray)
        if before.shape != now.shape:
            return
        same = before == now
        if same.all() or not np.delete(same, RECORDING, 1).all():
            return
        moved = now[~same.all(1)].astype(np.int64)
        at = moved[:, 0].tolist()
        vectors = (tuple(row) for row in moved[:, RECORDING].tolist())
        if self._model.wires.record_into(dict(zip(at, vectors, strict=True))):
            self._sources.take()

    def structure_is_same(self) -> bool:
        """Whether the model is unchanged except for parameters and values that a run changes."""
        return self._first.same() and _same(self._fixed)

    def take_parameters(self) -> list[str]:
        """Store the present parameters; return the mechanisms whose parameters have changed."""
        changed = {part for _, part in self._parameters if not part.same()}
        _take([*changed])
        return [*dict.fromkeys(name for name, part in self._parameters if part in changed)]

    def values_are_same(self) -> bool:
        """Whether time, pending events and all values that a run changes are unchanged."""
        return _same(self._clock) and self.state_is_same()

    def state_is_same(self) -> bool:
        """Whether values that a run or Vectors change, except time and events, are unchanged."""
        return _same(self._moving) and _same(self._played)

    def take_values(self) -> None:
        _take(self._clock + self._moving + self._played)


def counts(h: Hoc, memory: NeuronMemory, names: tuple[str, ...]) -> list[ctypes.c_uint64]:
    """Return how many objects of the hoc classes `names` exist, and how many were ever created."""
    template = memory.symbols.template("Vector")
    before = words_at(template, _TEMPLATE_WORDS)
    vector = h.Vector(1)
    after = words_at(template, _TEMPLATE_WORDS)
    at = [k for k in range(_TEMPLATE_WORDS) if before[k] != after[k]]
    del vector
    if not at:
        raise OSError("the object count is not found")
    return [WORD.from_address(memory.symbols.template(name) + 8 * k) for name in names for k in at]


def _columns(
    memory: NeuronMemory, instances: Instances, played: Sequence[Variable] = ()
) -> dict[str, Column]:
    """Return a `Column` per variable of a mechanism; elements that are `played` may change."""
    numbers = instances.columns.numbers()
    rows = int(numbers.max()) + 1
    ranges = instances.entry.ranges or {f"e{instances.entry.name.removesuffix('_ion')}": 1}
    column_of = memory.columns_of(instances.things[0], ranges)
    sizes, moved = {n: ranges.get(n, 1) for n in column_of}, dict[str, list[int]]()
    for one in played:
        at = int(numbers[one.number]) * sizes.get(one.name, 1) + (one.place or 0)
        moved.setdefault(one.name, []).append(at)
    return {n: Column(at, rows * sizes[n], moved.get(n, ())) for n, at in column_of.items()}


def _streams(model: NeuronModel, name: str, variable: str) -> np.ndarray:
    try:
        streams = model.streams(name, variable)
    except RejectedError:
        return np.zeros(0)  # an instance has lost its stream
    return np.hstack([streams.ids(), streams.distribution()])


def _drawn(model: NeuronModel, name: str, variable: str) -> np.ndarray:
    return model.streams(name, variable).drawn()


def _globals(model: NeuronModel, names: list[str]) -> list[object]:
    values = [getattr(model.h, name) for name in names]
    return [v if isinstance(v, float) else [v[k] for k in range(len(v))] for v in values]
