"""Turn expressions into assignments: choose local variables, and their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clhines.simulator.mechanisms.ir.expressions import CONDITIONS, Node, postorder, split
from clhines.simulator.mechanisms.ir.passes import SIMPLIFY

_LONG = 24  # most operations in one line, about


def without_sign(node: Node) -> tuple[bool, Node]:
    number, rest = split(node)
    if number >= 0:
        return False, node
    return True, node.graph.scaled(-number, rest)


def operands(node: Node) -> list[Node]:
    """Return an expression's operands as they appear in its source.

    An operand that appears twice is returned twice; a sign is no operand. Powers appear as products
    of powers, or as reciprocals.
    """
    graph = node.graph
    if node.op == "add":
        return [without_sign(a)[1] for a in node.args]
    negative, positive = without_sign(node)
    if negative and not node.is_number:
        return [positive]
    if node.op != "pow" or not node.args[1].is_number:
        return list(node.args)
    base, value = node.args[0], node.args[1].value
    if value < 0:
        return [graph.power(base, graph.number(-value))]
    if value.denominator != 1:
        return [base] if value * 2 == 1 else list(node.args)
    whole = int(value)
    if whole <= 3:
        return [base] * whole
    half = graph.power(base, graph.number(whole // 2))
    return [half, half, *([base] if whole % 2 else [])]


@dataclass
class Assignments:
    """Assignments to local variables in order, and results in terms of these variables."""

    names: dict[Node, str]  # an expression's local variable
    steps: list[list[Node]]  # for each phase, the expressions that get a local variable, in order
    results: list[Node]


def make_block(
    results: Sequence[Node],
    phases: Mapping[str, int] | None = None,
    num_phases: int = 1,
    reserved: Sequence[str] = (),
) -> Assignments:
    """Simplify expressions, and choose local variables for their parts.

    An expression gets a local variable if it has a name in the text, is used more than once, is
    long, or is used in a later phase than it can be computed in. Phases are the parts of a function
    before, in and after its loops; `phases` has the first phase in which a symbol has its value, by
    default 0. Names in `reserved` are not used.
    """
    roots = list(results)
    for simplify in SIMPLIFY:
        roots = simplify(roots)
    alias: dict[Node, Node] = {}
    for node in postorder(roots, operands=operands):
        if node.op == "local":
            alias.setdefault(node.args[0], node)

    def resolved(node: Node) -> list[Node]:
        is_first = node.op == "local" and alias[node.args[0]] is node
        return [_through(a, node, alias) for a in operands(node.args[0] if is_first else node)]

    roots = [_through(r, None, alias) for r in roots]
    order = [*postorder(roots, operands=resolved)]
    users = {node: resolved(node) for node in order}
    count = Counter(roots)
    for node in order:
        count.update(users[node])
    phase = _phases(order, users, phases or {})
    chosen = _chosen(order, users, count, phase)
    block = Assignments({}, [[] for _ in range(num_phases)], roots)
    spare, uses_of_name = 0, Counter[str](reserved)
    for node in order:
        if node in chosen:
            name = node.name
            if node.op != "local":
                name, spare = f"_x{spare}", spare + 1
            uses_of_name[name] += 1
            block.names[node] = name if uses_of_name[name] == 1 else f"{name}__{uses_of_name[name]}"
            block.steps[phase[node]].append(node)
    for definition, node in alias.items():
        if node in block.names:
            block.names[definition] = block.names[node]
    return block


def _through(a: Node, user: Node | None, alias: Mapping[Node, Node]) -> Node:
    local = alias.get(a)
    return a if local is None or local is user else local


def _phases(
    order: Sequence[Node], users: Mapping[Node, list[Node]], symbols: Mapping[str, int]
) -> dict[Node, int]:
    phase: dict[Node, int] = {}
    for node in order:
        if node.op == "symbol":
            phase[node] = symbols.get(node.name, 0)
        else:
            phase[node] = max((phase[a] for a in users[node]), default=0)
    return phase


def _chosen(
    order: Sequence[Node],
    users: Mapping[Node, list[Node]],
    count: Counter[Node],
    phase: Mapping[Node, int],
) -> set[Node]:
    early: set[Node] = set()
    for node in order:
        early |= {a for a in users[node] if phase[a] < phase[node]}
    chosen: set[Node] = set()
    length: dict[Node, int] = {}
    for node in order:
        length[node] = 1 + sum(0 if a in chosen else length[a] for a in users[node])
        if not node.args or node.op in CONDITIONS or without_sign(node)[0]:
            continue
        named = node.op == "local" and not node.name.startswith("_")
        if named or count[node] > 1 or length[node] > _LONG or node in early:
            chosen.add(node)
    return chosen
