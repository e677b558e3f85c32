"""Check at run time that parameters rule out draws from NEURON's global generator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from random import Random

from clhines.simulator.mechanisms.ir.compiled import Body
from clhines.simulator.mechanisms.ir.expressions import ExpressionError, Graph, Node
from clhines.simulator.mechanisms.ir.program import UNLESS
from clhines.simulator.mechanisms.nmodl.blocks import FileBlocks


def guard_draws(blocks: FileBlocks) -> FileBlocks:
    """Add blocks that compute at run time whether to refuse a mechanism, and their messages.

    A file may use constructs that are not supported in an IF, if the IF's condition is false in
    every run. The file is refused if the condition holds for all parameters, or if no part of it
    depends only on parameters and on variables that only INITIAL sets.
    """
    initial = {*blocks.parameters, *_settled_by_initial(blocks, raw=True)}
    later = {*blocks.parameters, *_settled_by_initial(blocks, raw=False)}
    conditions, results = dict[str, list[Node]](), dict[str, list[tuple[str, Node]]]()
    for block, guard, refused in blocks.shared.unless:
        of = UNLESS[block != "initial"]
        parts = [e for e in _all(guard) if e.free <= (later if of == "unless" else initial)]
        if not parts:
            raise refused
        what = reduce(blocks.graph.both, parts)
        message = f"{refused.construct} (line {refused.line}); {refused.way_out}"
        conditions.setdefault(message, []).append(what)
        results.setdefault(of, []).append((str([*conditions].index(message)), what))
    every = [e for nodes in conditions.values() for e in nodes]
    if every and not _can_be_without(blocks, every):
        raise blocks.shared.unless[0][2]
    added = {name: _joined(blocks.graph, results[name]) for name in results}
    return replace(blocks, bodies={**blocks.bodies, **added}, unless=tuple(conditions))


def _can_be_without(blocks: FileBlocks, conditions: Sequence[Node]) -> bool:
    random, graph = Random(3), blocks.graph
    names = sorted({name for e in conditions for name in e.free})
    for turn in range(200):
        values = [Fraction(blocks.names.default(k)) for k in names]
        if turn:
            values = [random.choice([x, Fraction(random.randint(-1, 2))]) for x in values]
        point = {graph.symbol(k): graph.number(x) for k, x in zip(names, values, strict=True)}
        if all(e is graph.zero for e in graph.replaced(conditions, point)):
            return True
    return False


def _settled_by_initial(blocks: FileBlocks, raw: bool) -> set[str]:
    """Return the states that only INITIAL sets, from parameters and the state's earlier value.

    Unless `raw`, leave out states that a second INITIAL changes.
    """
    writes = blocks.bodies.get("initial", Body()).writes
    others = {k for name, b in blocks.bodies.items() if name != "initial" for k in b.writes}
    guards = {name for _, guard, _ in blocks.shared.unless for name in guard.free}
    keys = [k for k in blocks.states if k in guards and k in writes and k not in others]
    keys = [k for k in keys if writes[k].free <= {*blocks.parameters, k}]
    return {k for k in keys if raw or _stays(blocks.graph, k, writes[k])}


def _stays(graph: Graph, key: str, value: Node) -> bool:
    """Return whether setting the variable `key` to `value` twice is the same as setting it once."""
    random, symbol = Random(2), graph.symbol
    for _ in range(12):
        point = {
            symbol(k): graph.number(Fraction(random.randint(-9, 9), 4)) for k in sorted(value.free)
        }
        try:
            once = graph.replaced([value], {**point})[0]
            again = graph.replaced([value], {**point, symbol(key): once})[0]
        except ExpressionError:
            return False
        if once is not again:
            return False
    return True


def _all(guard: Node) -> list[Node]:
    plain = guard.definition
    if plain.op == "both":
        return [e for part in plain.args for e in _all(part)]
    if plain.op == "where" and plain.args[2] is plain.graph.zero:
        return [e for part in plain.args[:2] for e in _all(part)]
    return [guard]


def _joined(graph: Graph, results: Sequence[tuple[str, Node]]) -> Body:
    """Return a block with a result ``unless`` for each name: 1 if any of its conditions holds."""
    joined = dict[str, Node]()
    for name, node in results:
        joined[name] = graph.where(joined.get(name, graph.zero), graph.one, node)
    return Body([("unless", name, node) for name, node in joined.items()])
