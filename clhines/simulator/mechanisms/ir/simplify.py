"""Fewer operations: constants worked out once, shared exponentials, products and sums in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import combinations

from clhines.simulator.mechanisms.ir import exact
from clhines.simulator.mechanisms.ir.expressions import (
    CONDITIONS,
    FUNCTIONS,
    Graph,
    Node,
    postorder,
)
from clhines.simulator.mechanisms.ir.forms import Multiples, multiples

MAX_SHARED_POWER = 8  # of one exponential that stands for others: 8 times its rounding error
MAX_SHIFT = 40  # largest constant exponent that is split off: e**40 is far from float32's end
_MAX_ARGUMENTS = 32  # of a sum or product in one line
_MAX_PAIRED = 16  # arguments of a sum or product that is compared with others
_EXPENSIVE = FUNCTIONS | {"pow", "bernoulli", "bernoulli_slope", "weight"}


# ------------------------------------------------------------------------------------- constants


class Constants:
    """Expensive expressions of some symbols alone, and the symbols that stand for them.

    `symbols` are what does not change from step to step, `names` the names of the constants, of
    which none is in `taken`.
    """

    def __init__(self, graph: Graph, symbols: Iterable[str], taken: Iterable[str] = ()) -> None:
        self.graph, self.names, self._taken = graph, dict[Node, str](), frozenset(taken)
        self._known = 0
        for name in symbols:
            self._known |= graph.symbol(name).mask
        self._expensive: dict[Node, bool] = {}

    def lifted(self, roots: Sequence[Node]) -> list[Node]:
        """Return expressions with constants in them."""
        done: dict[Node, Node] = {}
        for node in postorder(roots):
            inner = any(self._expensive[a] for a in node.args)
            self._expensive[node] = inner or node.op in _EXPENSIVE
            done[node] = node if self._is_own(node) else self._inside(node, done)
        return [self._constant(r) if self._is_own(r) else done[r] for r in roots]

    def _is_own(self, node: Node) -> bool:
        return not node.mask & ~self._known

    def _inside(self, node: Node, done: dict[Node, Node]) -> Node:
        own = [a for a in node.args if a.mask and self._is_own(a)]
        if node.op in ("add", "mul") and any(self._expensive[a] for a in own):
            make = self.graph.add if node.op == "add" else self.graph.mul
            group = make(own)
            self._expensive[group] = True
            constant = self._constant(group)
            return make(
                constant if a is own[0] else done[a]
                for a in node.args
                if a is own[0] or a not in own
            )
        args = tuple(self._constant(a) if a in own else done[a] for a in node.args)
        return self.graph.rebuilt(node, args)

    def _constant(self, e: Node) -> Node:
        if not self._expensive.get(e) or not e.mask:
            return e
        if e.op in CONDITIONS:
            return self._condition(e)
        if e not in self.names:
            named = e.op == "local" and not e.name.startswith("_") and e.name not in self._taken
            named = named and e.name not in self.names.values()
            self.names[e] = e.name if named else f"_c{len(self.names)}"
        return self.graph.symbol(_marked(self.names[e]))

    def _condition(self, e: Node) -> Node:
        """Return a condition, which is no number, with constants in it."""
        done: dict[Node, Node] = {}
        for node in postorder([e]):
            if node.op in CONDITIONS:
                args = [done[a] if a in done else self._constant(a) for a in node.args]
                done[node] = self.graph.rebuilt(node, tuple(args))
        return done[e]


def _marked(name: str) -> str:
    """Symbol of a constant: apart from the expression of the same name."""
    return name if name.startswith("_") else f"_{name}_constant"


def constant_symbols(constants: Constants) -> dict[str, str]:
    """Return the name in generated source of each constant's symbol."""
    return {_marked(name): name for name in constants.names.values()}


# ---------------------------------------------------------------------------------- exponentials


def share_bernoullis(roots: Sequence[Node]) -> list[Node]:
    """Make ``B(-x) = B(x)*exp(x) = B(x) + x`` of ``B(x) = x/(exp(x) - 1)`` where both are there.

    The product is taken below 0, the sum above: there nothing cancels and nothing overflows.
    """
    replaced: dict[Node, Node] = {}
    every = {node.args[0]: node for node in postorder(roots) if node.op == "bernoulli"}
    for x, node in every.items():
        other, form = every.get(-x), multiples(x)
        if other is None or form is None or not form.factors:
            continue
        if form.factors[min(form.factors, key=lambda f: f.index)] > 0:
            graph = x.graph
            value, named = graph.local("_bernoulli", node), graph.local("_argument", x)
            both = value * node.args[1], value + named
            replaced[other] = graph.where(graph.less(named, graph.zero), *both)
    return roots[0].graph.replaced(roots, replaced) if replaced else list(roots)


def share_exponentials(roots: Sequence[Node]) -> list[Node]:
    """Make exponentials of multiples of one thing powers of one, where few multiplications do.

    ``exp(b + a*s)`` with numbers a and b is ``exp(b) * e**k`` with ``e = exp(g*s)``, ``k = a/g`` a
    whole number. Rounding errors grow k-fold, hence `MAX_SHARED_POWER`.
    """
    graph = roots[0].graph if roots else Graph()
    has_exp: dict[Node, bool] = {}
    found: dict[tuple[tuple[int, Fraction], ...], list[tuple[Node, Fraction, Multiples]]] = {}
    for node in postorder(roots):
        inner = any(has_exp[a] for a in node.args)
        has_exp[node] = inner or node.op == "exp"
        form = multiples(node.args[0]) if node.op == "exp" and not inner else None
        if form is None or not form.factors or abs(form.shift) > MAX_SHIFT:
            continue
        lead = form.factors[min(form.factors, key=lambda x: x.index)]
        parts = sorted((x.index, factor / lead) for x, factor in form.factors.items())
        found.setdefault(tuple(parts), []).append((node, lead, form))
    replaced: dict[Node, Node] = {}
    count = 0
    for members in found.values():
        rest: dict[Fraction, list[tuple[Node, Fraction, Multiples]]] = {}
        for member in sorted(members, key=lambda m: (abs(m[1]), m[0].index)):
            rest.setdefault(abs(member[1]), []).append(member)
        for unit in [*rest]:
            powers = (k * unit for k in range(1, MAX_SHARED_POWER + 1)) if unit in rest else ()
            cluster = [member for size in powers for member in rest.pop(size, ())]
            if len(cluster) > 1:
                count = _share(graph, cluster, unit, replaced, count)
    return graph.replaced(roots, replaced) if replaced else list(roots)


def _share(
    graph: Graph,
    cluster: list[tuple[Node, Fraction, Multiples]],
    unit: Fraction,
    replaced: dict[Node, Node],
    count: int,
) -> int:
    negative = sum(lead < 0 for _, lead, _ in cluster) * 2 > len(cluster)
    if negative:
        unit = -unit
    _, lead, form = cluster[0]
    scale = unit / lead
    base = Multiples(Fraction(0), {x: factor * scale for x, factor in form.factors.items()})
    first = graph.local(f"_e{count}", graph.call("exp", base.node(graph)))
    made = {1: first}

    def power(k: int) -> Node:
        if k not in made:
            if k < 0:
                value = power(-k) ** -1 if k == -1 else power(-1) ** -k
            else:
                value = power(k // 2) ** 2 * (first if k % 2 else graph.one)
            made[k] = graph.local(f"_e{count + len(made)}", value)
        return made[k]

    for node, own, parts in cluster:
        factor = graph.number(exact.exp(parts.shift))
        replaced[node] = factor * power(int(own / unit))
    return count + len(made)


# ----------------------------------------------------------------------------- common arguments


def in_parts(roots: Sequence[Node]) -> list[Node]:
    """Give long sums and products parts of their own, as compilers nest one argument in another."""
    done: dict[Node, Node] = {}
    for node in postorder(roots):
        args = tuple(done[a] for a in node.args)
        make = {"add": node.graph.add, "mul": node.graph.mul}.get(node.op)
        while make is not None and len(args) > _MAX_ARGUMENTS:
            cuts = range(0, len(args), _MAX_ARGUMENTS)
            groups = (make(args[k : k + _MAX_ARGUMENTS]) for k in cuts)
            args = tuple(node.graph.local("_part", group) for group in groups)
        done[node] = node.graph.rebuilt(node, args) if make is None else make(args)
    return [done[r] for r in roots]


def share_arguments(roots: Sequence[Node], op: str) -> list[Node]:
    """Give products (or sums) in common in several products (sums) a name.

    The pair of arguments that most of them have in common becomes one argument, again and again
    (greedy; each round costs in proportion to what it changes)::

        g*m*h*(v - e), g*m*h  ->  _x0 = g*m;  _x0*h*(v - e), _x0*h
                              ->  _x1 = _x0*h;  _x1*(v - e), _x1
    """
    if not roots:
        return []
    graph = roots[0].graph
    lists = {
        node: [a for a in node.args if not a.is_number]
        for node in postorder(roots)
        if node.op == op and len(node.args) <= _MAX_PAIRED
    }
    lists = {node: args for node, args in lists.items() if len(args) > 1}
    pairs = _ArgumentPairs(lists, graph)
    while pairs.take():
        pass
    if not pairs.made:
        return list(roots)
    return _rebuilt_with_pairs(roots, op, pairs)


Item = int  # index of a node, or -1 - number of a pair


class _ArgumentPairs:
    """Which pairs of arguments are in which expressions, the most frequent one first."""

    def __init__(self, lists: dict[Node, list[Node]], graph: Graph) -> None:
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
        """Put the most frequent pair in the place of its arguments, if any is frequent."""
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
        """Yield new arguments for old ones; a pair that is used once is not kept."""
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
