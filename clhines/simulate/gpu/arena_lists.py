"""What the lists of nodes of an epoch hold of a network with exact times, and tables of rates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import factorial, log

import numpy as np

from clhines.mechanisms.emit.functions import name_of
from clhines.model.ions import ADVANCE_REVERSAL
from clhines.model.model import Model
from clhines.simulate.engines.variables import Variables
from clhines.simulate.gpu.arena_spec import (
    SPECIAL,
    ArenaEpochSpec,
    EpochBlocks,
    epoch_blocks,
    is_quick,
)
from clhines.simulate.gpu.lists import NodeLists
from clhines.simulate.gpu.rates import coefficients, side_by_side, with_once
from clhines.simulate.gpu.spec import WARP
from clhines.simulate.kinds.calls import ArenaSpec, KindBlocks
from clhines.simulate.kinds.layouts import active_nodes

_LINE = r"(?m)^    const real (\w+) = ([^;]+);\n"
_TURN = re.compile(r"node_grown_\(series__, (\w+) \* dt\)")
_INVERSE = re.compile(r"1\.0f? (?:\* node_inverse_\((\w+)\)|/ (\w+))")


def with_rows(source: str, prefix: str) -> str:
    """Return functions of `side_by_side` that load two rows of a table as a whole."""
    own = rf"(?m)^static \w+ {re.escape(prefix)}_(?:lookup|place)_\("
    functions = re.split(r"(?<=\n}\n)\n", source)
    return "\n".join(_with_rows(f, prefix) for f in functions if not re.search(own, f))


def _with_rows(function: str, prefix: str) -> str:
    """Return a function in which places are rows, and all loads come right after them."""
    own = re.escape(prefix)
    lookup = re.compile(rf"{own}_lookup_\(series__,\s+(\w+),\s+(\w+),\s+(\d+),\s+(\d+),\s+\d+\)")
    used = {(m[1], m[2], int(m[3]), int(m[4])) for m in lookup.finditer(function)}

    def column(found: re.Match[str]) -> str:
        at, low, high = _names(found[1], found[2])
        number, width = int(found[3]), _width(int(found[4]))
        vector, part = divmod(number, width)
        end = f"_{vector}.s{part}" if width > 1 else f"_{vector}"
        return f"node_between_({at}.share, {low}{end}, {high}{end})"

    def loads(found: re.Match[str]) -> str:
        at = f"{found[1]}__at"
        lines = [f"const node_row_ {at} = node_row_of_({found[2]}, {found[3]});"]
        for table in sorted({table for place, table, _, _ in used if place == found[1]}):
            _, low, high = _names(found[1], table)
            columns = next(c for p, t, _, c in used if (p, t) == (found[1], table))
            width = _width(columns)
            sort = f"real{width}" if width > 1 else "real"
            numbers = {n for p, t, n, _ in used if (p, t) == (found[1], table)}
            for vector in sorted({number // width for number in numbers}):
                for name, row in ((low, f"{at}.row"), (high, f"({at}.row + 1)")):
                    where = f"{table} + {row} * {columns} + {vector * width}"
                    lines.append(f"const {sort} {name}_{vector} = node_load{width}_({where});")
        return "    " + "\n    ".join(lines)

    place = rf"(?m)^    const real (\w+) = {own}_place_\(series__,\s+([^;]+),\s+(\d+)\);"
    return lookup.sub(column, re.sub(place, loads, function))


def _names(place: str, table: str) -> tuple[str, str, str]:
    """Names of a row, and of what is loaded from it and from the next one."""
    return f"{place}__at", f"{place}__low_{table}", f"{place}__high_{table}"


def _width(columns: int) -> int:
    """Numbers that one load takes of a row."""
    return next(width for width in (4, 2, 1) if columns % width == 0)


def with_few_terms(
    source: str, prefix: str, tables: Mapping[str, np.ndarray], dt: float, real: str
) -> str:
    """Return functions of `side_by_side` whose exponentials have the terms that tables ask for.

    The `tables` of a mechanism are (rows, columns) float64; `dt` is that of all steps, ms.
    """
    lookup = re.compile(rf"{re.escape(prefix)}_lookup_\(series__,\s+\w+,\s+(\w+)__table,\s+(\d+),")

    def of_function(function: str) -> str:
        known = dict(re.findall(_LINE, function))

        def turn(found: re.Match[str]) -> str:
            inverse = _INVERSE.fullmatch(known.get(known.get(found[1], "").removeprefix("-"), ""))
            tau = lookup.match(known.get((inverse[1] or inverse[2]) if inverse else "", ""))
            if tau is None or not known[found[1]].startswith("-"):
                return found[0]
            number = terms(dt, tables[tau[1]][:, int(tau[2])], real)
            return found[0].replace("grown_", f"grown_{number}_", 1) if number else found[0]

        return _TURN.sub(turn, function)

    return "\n".join(map(of_function, re.split(r"(?<=\n}\n)\n", source)))


def terms(dt: float, tau: np.ndarray, real: str) -> int:
    """Count the terms of ``(exp(-x) - 1) / x`` for ``x = dt/tau``; 0 where x can be too large.

    >>> terms(0.025, np.array([1.0, 2.0]), "double"), terms(0.025, np.array([0.01, 2.0]), "double")
    (8, 0)
    """
    if not (tau > 0).all():
        return 0
    most = dt / float(tau.min()) * (1 + 1e-6)
    if not most < log(2) / 2:
        return 0
    eps = float(np.finfo(np.float64 if real == "double" else np.float32).eps)
    every = sum(name.startswith("exp_") for name in coefficients(real))
    enough = (n for n in range(1, every) if most**n / factorial(n + 1) < eps / 4)
    return next(enough, every)


def counts_of_terms(sources: Iterable[str]) -> tuple[int, ...]:
    """Numbers of terms that functions of `with_few_terms` ask for, ascending."""
    found = (re.findall(r"node_grown_(\d+)_\(", source) for source in sources)
    return tuple(sorted({int(n) for numbers in found for n in numbers}))


_OF_INSTANCE = frozenset(
    {
        *("v", "t", "dt", "parameter", "state", "output", "i", "g", "table", "flag", "noise"),
        *("weight", "other_weight", "send", "arm", "watch", "stream", "drawn"),
    }
)
_ENDS = ("after_solve", "before_step", "before_breakpoint")
_MOST_CLASSES = 3  # of nodes that have statements of their own
_FEW_CLASSES = 8  # up to which some have
_LONG = 8  # steps of a launch that can do the work of one more
_MOST_NUMBERS = 256  # that are arguments of the kernel
Given = tuple[tuple[str, str, str], ...]


def takes_apart(model: Model) -> frozenset[int]:
    """Return the kinds of point processes whose instances lanes take one by one.

    They stand alone: what an instance does depends on v, time, events and its own values, and it
    gives a current and a conductance. A node has several, maybe hundreds, or cells are alike but
    for the parameters of theirs.
    """
    found, played = set(), {p.kind for p in model.played}
    if "instant_events" in model.needs:  # which have an order of their own, for all
        return frozenset()
    for k, kind in enumerate(model.kinds):
        program = kind.mechanism.program
        roles = {a.role for block in program.blocks.values() for a in block}
        several = bool((np.diff(kind.node) == 0).any())
        several |= model.forest.num_cells > 1 and any(map(np.ndim, kind.parameters.values()))
        if kind.mechanism.kind != "point" or not several or k in played:
            continue
        if roles <= _OF_INSTANCE and not set(_ENDS) & set(program.blocks):
            found.add(k)
    return frozenset(found)


def node_words(model: Model) -> np.ndarray:
    """(n,) int64: number of each active node in its cell, with `SPECIAL`; -1 of others."""
    active, bounds = active_nodes(model), model.forest.cell_offsets
    first = np.searchsorted(active, bounds)
    words = np.full(model.forest.num_nodes, -1)
    words[active] = np.arange(len(active)) - np.repeat(first[:-1], np.diff(first))
    special = np.zeros(len(words), bool)
    special[model.sources.detector_node] = True
    for played in model.played:
        special[model.kinds[played.kind].node[played.instance]] = True
    return np.where(special, words | SPECIAL, words)


def first_active(model: Model, cells: np.ndarray) -> np.ndarray:
    """(2, m) int64: number of the first active node of cells, and of the first after them."""
    bounds = model.forest.cell_offsets
    return np.searchsorted(active_nodes(model), [bounds[cells], bounds[cells + 1]])


def with_blocks(
    spec: ArenaEpochSpec,
    functions: ArenaSpec,
    lists: NodeLists,
    variables: Variables,
    network: Model,
    epoch: int,
) -> tuple[ArenaEpochSpec, list[float]]:
    """Return the spec of a plan with its kinds, and the numbers that are arguments of the kernel.

    Variables of ions that nothing changes are arguments where they are one number; `network` is the
    whole, of which others may have a part, `epoch` the most steps of a launch.
    """
    model, numbers = variables.model, list[float]()
    ions = _constant_ions(functions.kinds, variables, numbers)
    held, apart = held_kinds(functions.kinds, network), takes_apart(network)
    blocks, scalar = [], 0
    for k, (kind, text) in enumerate(zip(model.kinds, functions.kinds, strict=True)):
        played = {p.parameter for p in variables.model.played if p.kind == k}
        uniform, given = lists.numbers.uniform[k], list(ions)
        varying = [n for n, value in kind.parameters.items() if np.ndim(value)]
        of_lane = [n for n in varying if n not in uniform and k not in apart]
        for name, value in kind.parameters.items():
            if np.ndim(value) == 0 and len(numbers) < _MOST_NUMBERS:
                found = f"numbers.n{len(numbers)}"
                numbers.append(float(value))
            elif np.ndim(value) == 0:
                continue
            elif k in apart:
                continue
            elif name in uniform:
                found = f"scalar[{scalar + uniform.index(name)}]"
            else:
                found = f"p[{of_lane.index(name) * WARP}]"
            if name not in played:
                given.append(("parameter", name, found))
        scalar += len(uniform)
        of_states = spec.kinds[k].local, k in apart, lists.lanes.kinds[k].unread
        blocks.append(epoch_blocks(text, tuple(given), k in held, len(of_lane), *of_states))
    texts, once = list[KindBlocks](), list[str]()
    for k, text in enumerate(functions.kinds):
        text, known = _quick(text, variables, spec), _same_in_all(blocks[k])
        source, more = with_once(text.functions, known, spec.num_once(once), spec.most_once)
        texts.append(replace(text, functions=source))
        blocks[k] = replace(blocks[k], once=bool(more))
        once += more
    spec = replace(
        spec,
        arena=replace(functions, by_cell=True, far=spec.far, kinds=tuple(texts)),
        once=tuple(once),
        classes=() if lists.lanes.mixed else _classes(lists),
        mixed=lists.lanes.mixed,
        selects=epoch >= _LONG,
        terms=counts_of_terms(k.functions for k in texts),
        blocks=tuple(blocks),
        num_numbers=len(numbers),
        nernst=functions.nernst,
        currents_read=tuple(n for n in functions.ions if f"i{n}" in _read(functions.kinds)),
    )
    return spec, numbers


def _same_in_all(kind: EpochBlocks) -> dict[str, dict[str, str]]:
    """Arguments of functions that are the same in all calls in lists, by name, with expressions."""
    values = {n: text for role, n, text in kind.given if role == "parameter"}
    same = {n: text for n, text in values.items() if text.startswith("numbers.")}
    return {
        function: {
            name_of(a): same.get(a.name, "dt")
            for a in arguments
            if a.role == "dt" or (a.role == "parameter" and a.name in same)
        }
        for block, function, arguments in kind.blocks
        if kind.quick and block in (*_ENDS, "advance", "current")
    }


def _quick(kind: KindBlocks, variables: Variables, spec: ArenaEpochSpec) -> KindBlocks:
    """Return a kind with functions for lanes side by side, where lists alone call them."""
    if not is_quick(kind):
        return kind
    tables = variables.tables[kind.number]
    source = side_by_side(kind.functions, kind.name, spec.ptx)
    source = with_few_terms(source, kind.name, tables, variables.model.dt, spec.real)
    return replace(kind, functions=with_rows(source, kind.name))


def _classes(lists: NodeLists) -> tuple[int, ...]:
    """Return the sets of density mechanisms, as bits, that most lists have; none of many sets.

    Lists of different classes would run different code then, all of which a multiprocessor's cache
    of instructions cannot hold at once.
    """
    bits, count = np.unique(lists.rows[:, 0], return_counts=True)
    order = np.argsort(-count, kind="stable")
    several = [int(b) for b in bits[order] if b]
    return tuple(several[:_MOST_CLASSES]) if len(several) <= _FEW_CLASSES else ()


def _of_ions(kinds: Sequence[KindBlocks], directions: tuple[str, ...]) -> set[tuple[str, str]]:
    """Blocks and variables of ions of all arguments of some directions."""
    return {
        (block, a.name)
        for kind in kinds
        for block, _, arguments in kind.blocks
        for a in arguments
        if a.role == "ion" and a.direction in directions
    }


def _read(kinds: Sequence[KindBlocks]) -> set[str]:
    return {name for _, name in _of_ions(kinds, ("in", "inout"))}


def _written(kinds: Sequence[KindBlocks], ions: Sequence[str]) -> set[str]:
    """Variables of ions that blocks set, besides currents that they add up."""
    currents = {f"i{ion}" for ion in ions}
    found = _of_ions(kinds, ("out", "inout"))
    return {name for block, name in found if block != "current" or name not in currents}


def _constant_ions(
    kinds: Sequence[KindBlocks], variables: Variables, numbers: list[float]
) -> list[tuple[str, str, str]]:
    """Variables of ions that are one number for good, which is added to `numbers`."""
    written, found = _written(kinds, [i.name for i in variables.model.ions]), []
    for ion in variables.model.ions:
        advances = ((ion.style & ADVANCE_REVERSAL) > 0).any()
        for name in ion.variables[:3]:
            values = variables.ions[name][ion.node]
            changes = name in written or (advances and name == ion.variables[0])
            if changes or not len(values) or (values != values[0]).any():
                continue
            found.append(("ion", name, f"numbers.n{len(numbers)}"))
            numbers.append(float(values[0]))
    return found


def held_kinds(kinds: Sequence[KindBlocks], network: Model) -> set[int]:
    """Return the kinds whose currents may come before what other kinds do at the end of a step.

    Those are currents that depend on v, the kind's own states, and variables of ions that nothing
    changes at the end of a step; they leave nothing that is recorded or read there. None where
    events of all instances come between.
    """
    names = [ion.name for ion in network.ions]
    needs = network.needs & {"read_currents", "instant_events"}
    if needs or any(kind.has(x) for kind in kinds for x in _ENDS):
        return set()
    changed = _written(kinds, names)
    for ion in network.ions:
        if ((ion.style & ADVANCE_REVERSAL) > 0).any():
            changed.add(ion.variables[0])
    currents = {f"i{name}" for name in names}
    played = {p.kind for p in network.played}
    found = set()
    for kind in kinds:
        if kind.kind != "density" or kind.has_net or kind.number in played:
            continue
        if kind.outputs or not kind.has("current"):
            continue
        arguments = kind.arguments("current")
        sets = {
            a.role for a in arguments
            if a.direction != "in" and not (a.role == "ion" and a.name in currents)
        }  # fmt: skip
        reads = {a.name for a in arguments if a.role == "ion" and a.direction == "in"}
        if sets <= {"i", "g", "ion_current"} and not reads & changed:
            found.add(kind.number)
    return found
