"""Whether a model in NEURON's memory is as it was: what `kept` asks before it goes on.

Covered are all numbers that a user can change and a simulation has: sections, nodes and what is in
them; every variable of each mechanism and ion, GLOBAL ones, styles of ions; point processes, their
pointers and RANDOM streams; NetCons with weights and delays, thresholds, events on their way;
vectors that record or play, and what is played; `celsius`, `dt`, `t`, `secondorder` and the other
settings; and what NEURON calls in each step. Numbers are compared bit by bit, with copies.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial

import numpy as np

from clhines.neuron.importer import split_name
from clhines.neuron.memory.memory import Memory
from clhines.neuron.memory.objects import POINTER
from clhines.neuron.memory.raw import WORD, gather, ref, words_at
from clhines.neuron.memory.sources import NETCON_WORDS
from clhines.neuron.model import Model, settings_of
from clhines.neuron.read.contents import Instances
from clhines.neuron.read.hooks import acting, stepping_of

_COUNTERS = (  # of NEURON's library: what they count is changes of sections and mechanisms
    "structure_change_cnt", "diam_change_cnt", "tree_changed", "v_structure_change",
    "diam_changed", "n_memb_func", "cvode_active_",
)  # fmt: skip
_TEMPLATE_WORDS = 8
_PLACE_WORDS = 4  # of a place that is no variable, at most


class Value:
    """What a function returns."""

    def __init__(self, read: Callable[[], object]) -> None:
        self._read, self._known = read, read()

    def same(self) -> bool:
        """Whether it returns what it did."""
        now = self._read()
        if isinstance(now, np.ndarray):
            return np.array_equal(now, self._known)  # type: ignore[arg-type]
        return now == self._known

    def take(self) -> None:
        """Take what it returns now."""
        self._known = self._read()


class Column:
    """A variable of all instances of a mechanism: NEURON's column of `count` numbers."""

    def __init__(self, address: int, count: int) -> None:
        self._begin, self._count = WORD.from_address(address), count
        self.take()

    def same(self) -> bool:
        """Whether it is where it was, and all numbers have the same bits."""
        return self._begin.value == self._known and bool((self._words == self._copy).all())

    def take(self) -> None:
        """Copy it."""
        self._known = self._begin.value
        kind = ctypes.c_uint64 * self._count
        self._words = np.ctypeslib.as_array(kind.from_address(self._known))
        self._copy = self._words.copy()


Part = Value | Column


class Fingerprint:
    """A model as it was read, with the values of when they were last taken.

    `covers_all` says whether there is no variable of the model that is not compared.
    """

    def __init__(self, model: Model) -> None:
        self._model, self.covers_all = model, True
        memory, tree = model.memory, model.tree
        self._library = [ctypes.c_int.from_address(memory.address(name)) for name in _COUNTERS]
        self._templates = _counts(memory, ("NetCon", *model.point_names))
        self._first = Value(self._counters)
        cells = [n for n, i in model.contents.points.items() if i.entry.kind == "artificial"]
        fixed: list[Part] = [
            Value(lambda: [memory.objects_of(list(model.h.List(n))).tolist() for n in cells]),
            Value(lambda: settings_of(model.h, memory)),
            Value(lambda: gather(model.wires.every, NETCON_WORDS)),
            Value(lambda: gather(tree.addresses + 8 * model.fields.rinv)),
            Value(model.sources.words),
            Value(memory.play_words),
            Value(lambda: acting(model.h, memory)),
            Value(lambda: stepping_of(model.h, memory)),
            Value(lambda: [memory.vector_data(a).tobytes() for a in model.plays.watched]),
        ]
        moving: list[Part] = [
            Value(lambda: float(model.h.t)),
            Value(model.queue.words),
            Value(model.wires.present_weights),
        ]
        rows = int(model.fields.rows(tree.v, tree.addresses)[1].max()) + 1
        moving.append(Column(tree.v, rows))
        fixed.append(Column(memory.area(int(tree.inner[0])).column, rows))
        for name in ("cm", "diam"):
            column = memory.place(ref(tree.sections[0](0.5), name)).column
            fixed.append(Column(column, len(tree.inner)))
        self._add_mechanisms(fixed, moving)
        self._fixed, self._moving = fixed, moving

    def _counters(self) -> list[int]:
        return [c.value for c in (*self._library, *self._templates)]

    def _add_mechanisms(self, fixed: list[Part], moving: list[Part]) -> None:
        model, contents = self._model, self._model.contents
        for name, instances in {**contents.density, **contents.points}.items():
            program = model.mechanisms[name].program if name in model.mechanisms else None
            given = [split_name(q)[0] for q in program.parameters] if program is not None else []
            columns = _columns(model.memory, instances)
            for variable, column in columns.items():
                (fixed if variable in given else moving).append(column)
            for variable in program.random if program is not None else ():
                fixed.append(Value(partial(_streams, instances, variable, "get_ids")))
                moving.append(Value(partial(_streams, instances, variable, "get_seq")))
            pointers = program.pointers if program is not None else ()
            if pointers:
                words = _PLACE_WORDS * model.memory.num_places(instances.entry.number)
                fixed.append(Value(partial(gather, instances.places, words)))
            self.covers_all &= {*instances.entry.ranges} <= {*columns, *pointers}
            names = [f"{n}_{name}" for n in instances.entry.globals_]
            fixed.append(Value(partial(_globals, model, names)))
        for ion in contents.ions.values():
            fixed.append(Value(partial(gather, ion.instances.places + 8 * POINTER)))
            moving += _columns(model.memory, ion.instances).values()

    def structure_is_same(self) -> bool:
        """Whether all but what a run changes is as it was."""
        return self._first.same() and all(part.same() for part in self._fixed)

    def values_are_same(self) -> bool:
        """Whether what a run changes is as it was, where the structure is."""
        return all(part.same() for part in self._moving)

    def take_values(self) -> None:
        """Take what a run changes as it is now."""
        for part in self._moving:
            part.take()


def _counts(memory: Memory, names: tuple[str, ...]) -> list[ctypes.c_uint64]:
    """Return NEURON's counts of the objects of some classes, and of those ever made."""
    template = memory.template("Vector")
    before = words_at(template, _TEMPLATE_WORDS)
    vector = memory.new_vector()
    after = words_at(template, _TEMPLATE_WORDS)
    at = [k for k in range(_TEMPLATE_WORDS) if before[k] != after[k]]
    del vector
    if not at:
        raise OSError("the number of objects is not found")
    return [WORD.from_address(memory.template(name) + 8 * k) for name in names for k in at]


def _columns(memory: Memory, instances: Instances) -> dict[str, Column]:
    """Return all variables of a mechanism that NEURON has in columns, by name."""
    rows, found = int(instances.columns.numbers().max()) + 1, {}
    ranges = instances.entry.ranges or {f"e{instances.entry.name.removesuffix('_ion')}": 1}
    for name, size in ranges.items():
        try:
            found = memory.columns(ref(instances.things[0], name, size))
        except (AttributeError, RuntimeError, TypeError):
            continue
        if found:
            break
    return {n: Column(at, rows * ranges.get(n, 1)) for n, at in found.items()}


def _streams(instances: Instances, variable: str, method: str) -> list[object]:
    values = [getattr(getattr(thing, variable), method)() for thing in instances.things[:]]
    return [v if isinstance(v, float) else list(v) for v in values]


def _globals(model: Model, names: list[str]) -> list[object]:
    values = [getattr(model.h, name) for name in names]
    return [v if isinstance(v, float) else [v[k] for k in range(len(v))] for v in values]
