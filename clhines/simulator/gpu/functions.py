"""Choose the mechanisms' functions and storage for epoch kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from clhines.simulator.gpu.blocks import ListBlocks, SiteBlocks
from clhines.simulator.gpu.columns import sole_kinds
from clhines.simulator.gpu.lists import NodeLists
from clhines.simulator.gpu.spec import EpochSpec, KindPlan
from clhines.simulator.gpu.words import SPECIAL, WARP
from clhines.simulator.kinds.kind import KindBlocks, fields_of
from clhines.simulator.kinds.layouts import active_nodes
from clhines.simulator.kinds.spec import ArenaSpec
from clhines.simulator.mechanisms.emit.functions import Functions
from clhines.simulator.mechanisms.emit.lanes import Lanes
from clhines.simulator.mechanisms.emit.series import terms
from clhines.simulator.mechanisms.ir.program import Argument
from clhines.simulator.model.model import ADVANCE_REVERSAL, Kind, Model
from clhines.simulator.state.variables import Variables

BY_LAYERS = frozenset({"instant_events", "set_voltages"})  # all nodes' events come first
_OF_INSTANCE = frozenset(
    {
        *("v", "t", "dt", "parameter", "state", "output", "i", "g", "table", "flag", "noise"),
        *("weight", "send", "arm", "watch", "stream", "drawn"),
    }
)
_OF_TABLES = ("grid_", "table_")  # prefixes of blocks that fill tables
_ENDS = ("after_solve", "before_step", "before_breakpoint")
_MOST_CLASSES = 3  # most node classes with their own statements
_FEW_CLASSES = 8  # with more classes none has its own statements
_FEW_LISTS = 128  # with fewer lists per launch class statements do not pay for compiling
_LONG = 8  # launches with so many steps may compute one more step's states
_MOST_NUMBERS = 256  # most numbers that are kernel arguments


def takes_apart(model: Model) -> frozenset[int]:
    """Return the point mechanisms that are in no list: lanes advance their instances one by one."""
    apart, played = set(), {p.kind for p in model.played}
    played |= model.added_kinds | {to.kind for to in model.read.values()}
    if model.needs & BY_LAYERS:
        return frozenset()
    for k, kind in enumerate(model.kinds):
        program = kind.mechanism.program
        blocks = program.blocks
        if model.layers is not None:  # also kinds whose tables other blocks fill
            blocks = {n: block for n, block in blocks.items() if not n.startswith(_OF_TABLES)}
        roles = {a.role for block in blocks.values() for a in block}
        several = bool((np.diff(kind.node) == 0).any())
        several |= model.forest.num_cells > 1 and bool(kind.varying)
        if kind.mechanism.kind != "point" or not several or k in played or model.of_last(k):
            continue
        if roles <= _OF_INSTANCE and not set(_ENDS) & set(program.blocks):
            apart.add(k)
    return frozenset(apart)


def node_words(model: Model) -> np.ndarray:
    """Return each active node's index in its cell, -1 for other nodes, (n,) int64.

    Active nodes have instances, ions or detectors. The bit `SPECIAL` marks nodes with detectors or
    played parameters.
    """
    active, bounds = active_nodes(model), model.forest.cell_offsets
    first = np.searchsorted(active, bounds)
    words = np.full(model.forest.num_nodes, -1)
    words[active] = np.arange(len(active)) - np.repeat(first[:-1], np.diff(first))
    words[model.sources.detector_node] |= SPECIAL  # -1 stays -1
    for played in model.played:
        words[model.kinds[played.kind].node[played.instance]] |= SPECIAL
    return words


def is_quick(kind: KindBlocks) -> bool:
    return kind.kind == "density" and not kind.takes_events and bool(kind.functions)


def with_sites(spec: EpochSpec, functions: ArenaSpec, model: Model) -> EpochSpec:
    """Return `spec` with all mechanisms' calls, for a kernel that advances instance by instance.

    `functions` is the engine `steps`'s spec, which has the mechanisms' functions.
    """
    pairs = zip(spec.kinds, functions.kinds, strict=True)
    kinds = tuple(_at_sites(spec, plan, kind, model.kinds[kind.number]) for plan, kind in pairs)
    return replace(
        spec, arena=replace(functions, by_cell=True, calls=False, kinds=kinds), blocks=kinds
    )


def _at_sites(spec: EpochSpec, plan: KindPlan, text: KindBlocks, kind: Kind) -> SiteBlocks:
    """Print a mechanism's calls for one instance per lane; shared parameters become literals.

    `plan` has the mechanism's storage, `text` its calls for the engine `steps`.
    """
    compiled, real = kind.mechanism.compiled, spec.real
    names = [name for name in kind.mechanism.parameters if name in kind.singles]
    lanes = Lanes(spec.ptx) if spec.takes_series else None
    step_blocks = [block for block, *_ in text.blocks if block != "receive"]
    events = [block for block, *_ in text.blocks if block == "receive"]
    declared = {q.name for q in kind.mechanism.program.outputs}
    outputs = tuple(name for name in text.outputs if name in declared)
    print_options = real, 1, tuple(names), outputs, lanes

    def printed() -> tuple[str, list[str], dict[str, tuple[Argument, ...]]]:
        functions = Functions(compiled, *print_options)
        source, constants = functions.lifted(step_blocks, events)
        calls = {block: functions.calls(block) for block in step_blocks}
        one = Functions(compiled, real, lanes=lanes)
        return source, constants, calls | {block: one.calls(block) for block in events}

    source, constants, calls = compiled.once(("sites", *print_options), printed)
    return SiteBlocks(
        **{
            **fields_of(text),
            "functions": source,
            "blocks": tuple((block, function, calls[block]) for block, function, _ in text.blocks),
        },
        literals=tuple((name, literal(float(kind.parameters[name]), real)) for name in names),
        constants=tuple(constants),
        series=spec.takes_series,
        most=plan.most,
        factor=plan.factor,
        local=plan.local,
        first_target=max(0, kind.first_target),
    )


def literal(value: float, real: str) -> str:
    return f"({value!r}{'f' if real == 'float' else ''})"


def with_lists(
    spec: EpochSpec,
    functions: ArenaSpec,
    lists: NodeLists,
    variables: Variables,
    network: Model,
    epoch: int,
    leads: bool = False,
) -> tuple[EpochSpec, list[float]]:
    """Add mechanisms' calls to `spec`, for a kernel with node lists; return also some arguments.

    The returned numbers are parameters and constants that the kernel gets as arguments of type
    real. `functions` has the mechanisms' functions for the engine `steps`. `network` is the model
    on all ranks, `epoch` the most steps in a launch. With `leads`, the kernel has the mechanisms'
    last instances, which set GLOBAL variables.
    """
    model, (ions, numbers) = variables.model, constant_ions(functions.kinds, variables)
    apart = takes_apart(network)
    sole = sole_kinds(network, apart)
    held = set() if leads else held_kinds(functions.kinds, network)
    added = network.added_kinds
    blocks, scalar = [], 0
    for k, (kind, text) in enumerate(zip(model.kinds, functions.kinds, strict=True)):
        uniform = lists.numbers.uniform[k]
        of_lane = [n for n in kind.varying if n not in uniform and k not in apart]
        where = (
            {name: f"scalar[{scalar + i}]" for i, name in enumerate(uniform)}
            | {name: f"p[{i * WARP}]" for i, name in enumerate(of_lane)}
            if k not in apart
            else {}
        )
        expressions = [*ions, *_parameters(k, variables, where, numbers)]
        scalar += len(uniform)
        quick = is_quick(text)
        lined = quick and bool(text.states) and k not in added
        blocks.append(
            ListBlocks(
                **fields_of(text), given=tuple(expressions), num_values=len(of_lane), quick=quick,
                held=k in held and k not in added, local=spec.kinds[k].local,
                lined=lined, apart=k in apart, sole=k in sole, unread=lists.lanes.kinds[k].unread,
                shown=network.states_read(k) if lined else (), leads=leads,
            )
        )  # fmt: skip
    texts, blocks, numbers_of_terms = _with_functions(spec, functions.kinds, blocks, variables)
    spec = replace(
        spec,
        arena=replace(functions, by_cell=True, far=spec.far, kinds=tuple(texts)),
        classes=() if lists.lanes.mixed or spec.crowded else _classes(lists),
        mixed=lists.lanes.mixed,
        selects=epoch >= _LONG and not spec.crowded,
        terms=numbers_of_terms,
        blocks=tuple(blocks),
        num_numbers=len(numbers),
        nernst=functions.nernst,
        currents_read=tuple(n for n in functions.ions if f"i{n}" in _read(functions.kinds)),
        reads_nodes=reads_nodes(network),
    )
    return spec, numbers


def _parameters(
    k: int, variables: Variables, where: dict[str, str], numbers: list[float]
) -> list[tuple[str, str, str]]:
    """Return (role, name, expression) for parameters of mechanism `k` that are not in arenas.

    `where` has the expressions of parameters that differ between instances. The other parameters
    become kernel arguments; their values are appended to `numbers`.
    """
    kind, expressions = variables.model.kinds[k], list[tuple[str, str, str]]()
    played = {p.parameter for p in variables.model.played if p.kind == k}
    for name in kind.mechanism.parameters:
        value, expression = kind.parameters[name], where.get(name)
        if np.ndim(value) == 0:
            if len(numbers) >= _MOST_NUMBERS:
                continue
            expression = f"numbers.n{len(numbers)}"
            numbers.append(float(np.append(variables.parameters[k].get(name, []), value)[0]))
        if expression is not None and name not in played:
            expressions.append(("parameter", name, expression))
    return expressions


def _with_functions(
    spec: EpochSpec, kinds: Sequence[KindBlocks], blocks: Sequence[ListBlocks], variables: Variables
) -> tuple[list[KindBlocks], list[ListBlocks], tuple[int, ...]]:
    """Print the mechanisms' functions for lists; return `kinds` and `blocks` with them.

    `kinds` and `blocks` describe the same mechanisms. The third result has the term counts of the
    exp series that the functions use.
    """
    texts, printed, terms, count = list[KindBlocks](), list[ListBlocks](), set[int](), 0
    for block, kind in zip(blocks, kinds, strict=True):
        if not block.quick:
            texts.append(kind)
            printed.append(block)
            continue
        lanes = Lanes(spec.ptx, _few_terms(variables, kind.number, spec.real))
        lane_block = _for_lanes(block, variables, spec.real, lanes, spec.most_once - count)
        texts.append(replace(kind, functions=lane_block.functions))
        printed.append(replace(lane_block, first_constant=count))
        count += len(lane_block.constants)
        every = {number for *_, number in lanes.terms}
        terms |= {number for number in every if f"node_grown_{number}_(" in lane_block.functions}
    return texts, printed, tuple(sorted(terms))


def _few_terms(variables: Variables, kind: int, real: str) -> tuple[tuple[str, int, int], ...]:
    """Return (table, column, term count) for columns that need only a short series for exp.

    Such a column has time constants that are all long compared to dt.
    """
    columns = (
        (table, column, terms(variables.model.dt, values[:, column], real))
        for table, values in variables.tables[kind].items()
        for column in range(values.shape[1])
    )
    return tuple(column for column in columns if column[2])


def _for_lanes(
    block: ListBlocks, variables: Variables, real: str, lanes: Lanes, room: int
) -> ListBlocks:
    """Return `block` with a mechanism's functions for node lists.

    Values that are constant in a launch are computed once and passed to the functions, unless they
    are more than `room` numbers.
    """
    compiled = variables.model.kinds[block.number].mechanism.compiled
    names, outputs = [name for name, *_ in block.blocks], variables.declared(block.number)
    print_options = real, 1, block.alike, outputs, lanes

    def printed(lifts: bool) -> tuple[str, list[str], list[tuple[Argument, ...]]]:
        functions = Functions(compiled, *print_options)
        text, constants = functions.lifted(names) if lifts else (functions.text(names), [])
        return text, constants, [functions.calls(name) for name in names]

    for lifts in (True, False):
        key = "lanes", *print_options, *names, lifts
        text, constants, calls = compiled.once(key, partial(printed, lifts))
        if len(constants) <= room:
            break
    functions = zip(block.blocks, calls, strict=True)
    blocks = tuple((name, function, arguments) for (name, function, _), arguments in functions)
    return replace(block, functions=text, blocks=blocks, constants=tuple(constants))


def _classes(lists: NodeLists) -> tuple[int, ...]:
    """Return the most frequent sets of density mechanisms in lists, as bits.

    If there are few lists or many sets, return (): a single loop then handles all sets.
    """
    if (lists.homes[:, 3] - lists.homes[:, 2]).sum() < _FEW_LISTS:
        return ()
    bits, count = np.unique(lists.rows[:, 0], return_counts=True)
    order = np.argsort(-count, kind="stable")
    several = [int(b) for b in bits[order] if b]
    return tuple(several[:_MOST_CLASSES]) if len(several) <= _FEW_CLASSES else ()


def _of_ions(kinds: Sequence[KindBlocks], directions: tuple[str, ...]) -> set[tuple[str, str]]:
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
    currents = {f"i{ion}" for ion in ions}
    results = _of_ions(kinds, ("out", "inout"))
    return {name for block, name in results if block != "current" or name not in currents}


def constant_ions(
    kinds: Sequence[KindBlocks], variables: Variables
) -> tuple[list[tuple[str, str, str]], list[float]]:
    """Return expressions and values of ion variables that are the same at all nodes and times.

    An expression is (role, name, text), as in `ListBlocks.given`.
    """
    written, constant = _written(kinds, [i.name for i in variables.model.ions]), []
    numbers = list[float]()
    for ion in variables.model.ions:
        advances = ((ion.style & ADVANCE_REVERSAL) > 0).any()
        for name in ion.variables[:3]:
            values = variables.ions[name][ion.node]
            changes = name in written or (advances and name == ion.variables[0])
            if changes or not len(values) or (values != values[0]).any():
                continue
            constant.append(("ion", name, f"numbers.n{len(numbers)}"))
            numbers.append(float(values[0]))
    return constant, numbers


def held_kinds(kinds: Sequence[KindBlocks], network: Model) -> set[int]:
    """Return the mechanisms whose currents may be computed immediately after their states.

    The states then stay in registers. Such a current reads nothing else that changes after the
    states' step. There are none if a cell's lanes must wait at a barrier in between. If states
    diffuse, these mechanisms' states advance later than others.
    """
    names = [ion.name for ion in network.ions]
    needs = network.needs & {"read_currents", *BY_LAYERS}
    if needs or reads_nodes(network) or any(kind.has(x) for kind in kinds for x in _ENDS):
        return set()
    changed = _written(kinds, names)
    for ion in network.ions:
        if ((ion.style & ADVANCE_REVERSAL) > 0).any():
            changed.add(ion.variables[0])
    played = {p.kind for p in network.played}
    currents = {f"i{name}" for name in names}
    return {
        kind.number
        for kind in kinds
        if kind.kind == "density"
        and not (kind.takes_events or kind.outputs or kind.number in played)
        and _may_come_first(kind, changed, currents)
        and not (network.diffusions and _must_keep_order(kind, network))
    }


def reads_nodes(model: Model) -> bool:
    kinds = model.kinds
    nodes = ((kinds[k].node, kinds[to.kind].node[to.instance]) for (k, _), to in model.read.items())
    return any((reader != target).any() for reader, target in nodes)


def _must_keep_order(kind: KindBlocks, network: Model) -> bool:
    """Whether a mechanism's states share a variable with others' in a step, or diffuse."""
    roles = {a.role for block in ("advance",) if kind.has(block) for a in kind.arguments(block)}
    return (
        kind.has("diffuse")
        or "ion" in roles
        or "pointer" in roles
        or bool(network.states_read(kind.number))
    )


def _may_come_first(kind: KindBlocks, changed: set[str], currents: set[str]) -> bool:
    """Whether a current may be computed before other mechanisms' states have advanced.

    It reads no ion variable in `changed`, which mechanisms change, and sets none except ion
    currents, `currents`, to which it adds.
    """
    if not kind.has("current") or {*kind.asks("current", "pointer")} & {*kind.reads}:
        return False
    arguments = kind.arguments("current")
    sets = {
        a.role
        for a in arguments
        if a.direction != "in" and not (a.role == "ion" and a.name in currents)
    }
    reads = {a.name for a in arguments if a.role == "ion" and a.direction == "in"}
    return sets <= {"i", "g", "ion_current"} and not reads & changed
