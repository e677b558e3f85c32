"""Replace expensive expressions that are the same in all steps by symbols of constants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clhines.simulator.mechanisms.ir.expressions import (
    CONDITIONS,
    FUNCTIONS,
    Graph,
    Node,
    postorder,
    split,
)

_EXPENSIVE = FUNCTIONS | {"pow", "bernoulli", "bernoulli_slope", "weight", "weight_slope", "grown"}


class Constants:
    """Expensive expressions that depend on constant symbols only.

    `symbols` names the symbols that are the same in all steps. `names` has the name of each
    constant that was found so far; none of the names is in `reserved`.
    """

    def __init__(self, graph: Graph, symbols: Iterable[str], reserved: Iterable[str] = ()) -> None:
        self.graph, self.names, self._reserved = graph, dict[Node, str](), frozenset(reserved)
        self._known_mask = 0
        for name in symbols:
            self._known_mask |= graph.symbol(name).mask
        self._expensive: dict[Node, bool] = {}
        self._alike, self._inlined = dict[Node, Node](), set[Node]()

    def inline(self) -> None:
        """Drop constants that are sums or multiples of others: computing them is as fast as a load.

        `lifted` then replaces them by expressions in the others.
        """
        for node in sorted(self.names, key=lambda node: node.index):
            self._alike.setdefault(node.definition, node)
        for node in sorted(self.names, key=lambda node: node.index, reverse=True):
            constants = [self._alike.get(part.definition) for part in self._parts(node)]
            cheap = (not self._expensive.get(part) for part in self._parts(node))
            if self._alike[node.definition] is not node:
                del self.names[node]
            elif all(c or (k in self.names and k is not node) for c, k in zip(cheap, constants)):
                self._inlined.add(node)
                del self.names[node]

    @staticmethod
    def _parts(node: Node) -> list[Node]:
        plain = node.definition
        return [split(term)[1] for term in (plain.args if plain.op == "add" else (plain,))]

    def lifted(self, roots: Sequence[Node]) -> list[Node]:
        """Replace the expensive constant parts of expressions by symbols."""
        done: dict[Node, Node] = {}
        for node in postorder(roots):
            inner = any(self._expensive[a] for a in node.args)
            self._expensive[node] = inner or node.op in _EXPENSIVE
            done[node] = node if self._is_own(node) else self._inside(node, done)
        return [self._constant(r) if self._is_own(r) else done[r] for r in roots]

    def _is_own(self, node: Node) -> bool:
        return not node.mask & ~self._known_mask

    def _inside(self, node: Node, done: dict[Node, Node]) -> Node:
        constant_args = [a for a in node.args if a.mask and self._is_own(a)]
        if node.op in ("add", "mul") and any(self._expensive[a] for a in constant_args):
            make = self.graph.add if node.op == "add" else self.graph.mul
            group = make(constant_args)
            self._expensive[group] = True
            constant = self._constant(group)
            return make(
                constant if a is constant_args[0] else done[a]
                for a in node.args
                if a is constant_args[0] or a not in constant_args
            )
        args = tuple(self._constant(a) if a in constant_args else done[a] for a in node.args)
        return self.graph.rebuilt(node, args)

    def _constant(self, e: Node) -> Node:
        if not self._expensive.get(e) or not e.mask:
            return e
        if e.op in CONDITIONS:
            return self._condition(e)
        e = self._alike.get(e.definition, e)
        if e in self._inlined:
            return self._combined(e)
        if e not in self.names:
            named = e.op == "local" and not e.name.startswith("_") and e.name not in self._reserved
            named = named and e.name not in self.names.values()
            self.names[e] = e.name if named else f"_c{len(self.names)}"
        return self.graph.symbol(_marked(self.names[e]))

    def _combined(self, e: Node) -> Node:
        done = {part: self._constant(part) for part in self._parts(e)}
        return self.graph.replaced([e.definition], done)[0]

    def _condition(self, e: Node) -> Node:
        done: dict[Node, Node] = {}
        for node in postorder([e]):
            if node.op in CONDITIONS:
                args = [done[a] if a in done else self._constant(a) for a in node.args]
                done[node] = self.graph.rebuilt(node, tuple(args))
        return done[e]


def _marked(name: str) -> str:
    return name if name.startswith("_") else f"_{name}_constant"


def constant_symbols(constants: Constants) -> dict[str, str]:
    return {_marked(name): name for name in constants.names.values()}
