"""Let everything that depends on an element outside its array become NaN.

NEURON reads other memory for such an element; here its value is NaN. A comparison with NaN would
silently choose a branch; so a choice's result becomes NaN if a compared number is NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from clhines.simulator.mechanisms.ir.compiled import Body, Loop
from clhines.simulator.mechanisms.ir.expressions import CONDITIONS, Node, postorder
from clhines.simulator.mechanisms.nmodl.blocks import FileBlocks
from clhines.simulator.mechanisms.nmodl.reading.tree import refuse

_DECIDING = "arm", "watch", "unless"  # results that decide by themselves


def mark_outside(blocks: FileBlocks) -> FileBlocks:
    if blocks.shared.outside is None:
        return blocks
    return replace(blocks, bodies=_marked(blocks.bodies, *blocks.shared.outside))


def _marked(blocks: Mapping[str, Body], outside: Node, line: int) -> dict[str, Body]:
    """Make choices and loops NaN if they compare `outside`, a NaN; Refused if a WATCH does."""
    graph, lost = outside.graph, _lost(blocks, outside)
    done: dict[Node, Node] = {}

    def passed(conditions: Iterable[Node], value: Node) -> Node:
        for x in dict.fromkeys(x for e in conditions for x in _compared(e, lost)):
            number, chosen = graph.local("_compared", done[x]), graph.local("_chosen", value)
            value = graph.where(graph.less(graph.zero, number, or_equal=True), chosen, outside)
            value = graph.where(graph.less(number, graph.zero), chosen, value)
        return value

    def changed(root: Node) -> Node:
        for node in postorder([root], stop=done):
            if node in done:
                continue
            done[node] = graph.rebuilt(node, tuple(done[a] for a in node.args))
            if node.op in ("where", "lookup", "entry") and node.args[0] in lost:
                at = node.args[0].definition
                by = at.args[0] if node.op == "lookup" else at
                done[node] = passed([by], done[node])
        return done[root]

    def loop_of(loop: Loop) -> Loop:
        new = loop.mapped(changed)
        entered, go_on = ([e] if e in lost else [] for e in (loop.entered, loop.go_on))
        starts = [passed(entered, e) for e in new.starts]
        return replace(new, starts=starts, values=[passed(go_on, e) for e in new.values])

    marked = {}
    for name, body in blocks.items():
        marked[name] = new = body.mapped(changed)
        new.loops = [*map(loop_of, body.loops)]
        if any(role in _DECIDING and node in lost for role, _, node in body.results):
            raise refuse("mod.watch-element", line)
    return marked


def _compared(condition: Node, lost: set[Node]) -> list[Node]:
    if condition not in lost:
        return []
    if condition.definition.op in CONDITIONS:
        return [x for a in condition.definition.args for x in _compared(a, lost)]
    return [condition]


def _lost(blocks: Mapping[str, Body], outside: Node) -> set[Node]:
    kept = set[str]()
    while True:
        lost = {outside}
        for node in postorder([n for body in blocks.values() for n in body.every()]):
            if (node.name in kept and node.op == "symbol") or not lost.isdisjoint(node.args):
                lost.add(node)
        more = set[str]()
        for body in blocks.values():
            more |= {key for key, node in body.writes.items() if node in lost}
            for loop in body.loops:
                alike = zip(loop.names, loop.ends, loop.starts, loop.values, strict=True)
                decided = not lost.isdisjoint(loop.decides())
                more |= {n for *names, a, b in alike if decided or {a, b} & lost for n in names}
        if more <= kept:
            return lost
        kept |= more
