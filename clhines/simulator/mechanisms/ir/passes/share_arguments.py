"""Compute common factors of products, and common terms of sums, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import combinations

from clhines.simulator.mechanisms.ir.expressions import Node, postorder

_MAX_PAIRED = 16  # most arguments in a sum or product that is compared with others


def share_arguments(roots: Sequence[Node], op: str) -> list[Node]:
    """Name the common parts of several products (`op` ``mul``) or sums (``add``).

    The most frequent pair of arguments becomes one argument, again and again (greedy). Each
    replacement costs time in proportion to the number of expressions that it changes::

        g*m*h*(v - e), g*m*h  ->  _x0 = g*m;  _x0*h*(v - e), _x0*h
                              ->  _x1 = _x0*h;  _x1*(v - e), _x1
    """
    if not roots:
        return []
    lists = {
        node: [a for a in node.args if not a.is_number]
        for node in postorder(roots)
        if node.op == op and len(node.args) <= _MAX_PAIRED
    }
    lists = {node: args for node, args in lists.items() if len(args) > 1}
    pairs = _ArgumentPairs(lists)
    while pairs.take():
        pass
    if not pairs.made:
        return list(roots)
    return _rebuilt_with_pairs(roots, op, pairs)


Item = int  # an argument: a node's index, or -1 - k for pair number k


class _ArgumentPairs:
    """Pairs of arguments and the expressions that have them, the most frequent pair first."""

    def __init__(self, lists: dict[Node, list[Node]]) -> None:
        self.args: dict[Node, list[Item]] = {
            n: [a.index for a in args] for n, args in lists.items()
        }
        self.nodes = {a.index: a for args in lists.values() for a in args}
        self.where: dict[tuple[Item, Item], dict[Node, None]] = {}
        self.made: list[tuple[Item, Item]] = []
        for node, args in self.args.items():
            for a, b in combinations(args, 2):
                self.where.setdefault((min(a, b), max(a, b)), {})[node] = None
        self.heap = [(-len(n), p) for p, n in self.where.items() if len(n) > 1]
        heapify(self.heap)

    def take(self) -> bool:
        """Replace the most frequent pair by one argument; return whether there was a pair."""
        while self.heap:
            count, pair = heappop(self.heap)
            here = self.where.get(pair, {})
            if len(here) != -count:
                if len(here) > 1:
                    heappush(self.heap, (-len(here), pair))
                continue
            self._replace(pair, list(here))
            return True
        return False

    def _replace(self, pair: tuple[Item, Item], here: list[Node]) -> None:
        new = -1 - len(self.made)
        first, second = sorted(pair, key=self.args[here[0]].index)
        self.made.append((first, second))
        fresh: dict[tuple[Item, Item], None] = {}
        for node in here:
            args = self.args[node]
            for k, a in enumerate(args):
                for b in args[k + 1 :]:
                    key = (min(a, b), max(a, b))
                    if a in pair or b in pair:
                        self.where[key].pop(node, None)
            at = min(args.index(p) for p in pair)
            rest = [a for a in args if a not in pair]
            rest.insert(min(at, len(rest)), new)
            self.args[node] = rest
            for a in rest:
                if a != new:
                    key = (min(a, new), max(a, new))
                    self.where.setdefault(key, {})[node] = None
                    fresh[key] = None
        for key in fresh:
            if len(self.where[key]) > 1:
                heappush(self.heap, (-len(self.where[key]), key))


def _rebuilt_with_pairs(roots: Sequence[Node], op: str, pairs: _ArgumentPairs) -> list[Node]:
    graph = roots[0].graph
    done: dict[Node, Node] = {}
    names: dict[Item, Node] = {}
    make = graph.mul if op == "mul" else graph.add

    used = Counter(k for args in pairs.args.values() for k in args)
    for k in range(len(pairs.made) - 1, -1, -1):
        if used[-1 - k]:
            used.update(pairs.made[k])

    def items(ks: Iterable[Item]) -> Iterator[Node]:
        """Yield the arguments with the numbers `ks`; a negative number stands for a pair.

        A pair that is used several times gets a name; else yield its two arguments.
        """
        for k in ks:
            if k >= 0:
                yield done[pairs.nodes[k]]
            elif used[k] == 1:
                yield from items(pairs.made[-1 - k])
            else:
                if k not in names:
                    names[k] = graph.local(f"_{op}{-1 - k}", make(items(pairs.made[-1 - k])))
                yield names[k]

    for node in postorder(roots):
        if node in pairs.args:
            number = [a for a in node.args if a.is_number]
            done[node] = make([*number, *items(pairs.args[node])])
        else:
            done[node] = graph.rebuilt(node, tuple(done[a] for a in node.args))
    return [done[r] for r in roots]
