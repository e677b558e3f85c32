"""Expressions as a graph (hash-consed): each distinct expression is one immutable node.

Algorithms cache results by node and take time in proportion to the node count. Sums and products
have a light normal form: short sums inside sums are flattened, and so are products; equal terms and
equal bases are collected; numbers are exact. Only a number times a short sum is multiplied out.

An expression with a name is a ``local`` node around its definition. It is never flattened into
other expressions, so formulas do not grow with their definitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import reduce

from clhines.simulator.mechanisms.ir import exact
from clhines.simulator.mechanisms.ir.exact import MAX_POWER, ExpressionError, NotRealError

MAX_NODES = 150_000
_SHORT = 8  # terms in a sum or product that is flattened into another
_NOTHING = Fraction(0)
FUNCTIONS = frozenset("exp log sin cos tan sinh cosh tanh abs sign".split())
CONDITIONS = frozenset(("less", "lessequal", "both"))
STEPS = frozenset(("sign", "floor", "ceil", "entry"))  # functions whose slope is 0


class Node:
    """An expression: an operation `op` on the expressions `args`.

    `op` is ``number``, ``symbol``, ``local``, ``add``, ``mul``, ``pow``, one of `CONDITIONS`,
    ``where``, one of `FUNCTIONS`, ``bernoulli``, ``bernoulli_slope``, ``weight``, ``place`` (an
    interpolation index into a table), ``lookup`` (a table value there); or, without a derivative,
    ``weight_slope``, ``grown`` (with its term count if that is small), ``entry`` (of a table row),
    a C function, ``random_count`` or a function in `random123`. A product has its numeric factor as
    its first argument, a sum its numeric term as its last, a local its definition. `index` is the
    node's number in its graph, larger than its arguments' numbers. `mask` has a bit for each symbol
    on which the node depends, see `Graph.bits`.
    """

    __slots__ = ("args", "graph", "index", "mask", "name", "op", "value")

    def __init__(
        self, graph: Graph, op: str, args: tuple[Node, ...], name: str, value: Fraction
    ) -> None:
        self.graph, self.op, self.args, self.name, self.value = graph, op, args, name, value
        self.index, self.mask = graph.count, 0
        for a in args:
            self.mask |= a.mask

    def __repr__(self) -> str:
        inner = ", ".join(a.name or str(a.value) if not a.args else a.op for a in self.args)
        return f"<{self.op} {self.name or self.value if not self.args else inner}>"

    @property
    def is_number(self) -> bool:
        return self.op == "number"

    def uses(self, *names: str) -> bool:
        return any(self.mask & self.graph.bits.get(name, 0) for name in names)

    @property
    def free(self) -> set[str]:
        return free_of([self])

    def __add__(self, other: Node | int) -> Node:
        return self.graph.add((self, self.graph.node(other)))

    def __sub__(self, other: Node | int) -> Node:
        return self.graph.add((self, -self.graph.node(other)))

    def __neg__(self) -> Node:
        return self.graph.mul((self.graph.number(-1), self))

    def __mul__(self, other: Node | int) -> Node:
        return self.graph.mul((self, self.graph.node(other)))

    def __truediv__(self, other: Node | int) -> Node:
        return self.graph.mul((self, self.graph.node(other) ** -1))

    def __pow__(self, exponent: Node | int) -> Node:
        return self.graph.power(self, self.graph.node(exponent))

    @property
    def definition(self) -> Node:
        node = self
        while node.op == "local":
            node = node.args[0]
        return node


def free_of(nodes: Iterable[Node]) -> set[str]:
    """Return the names of the symbols on which nodes depend."""
    mask, graph = 0, None
    for node in nodes:
        mask, graph = mask | node.mask, node.graph
    names = set()
    while mask and graph is not None:
        low = mask & -mask
        names.add(graph.symbols[low.bit_length() - 1])
        mask ^= low
    return names


class Graph:
    """A mechanism's expressions; `count` is the node count.

    `bits` has each symbol's bit in the nodes' masks, `symbols` the symbols' names by bit. Unless
    `multiplies_out`, a number times a sum stays: ``(x - 1)/5`` has no rounding error near x = 1.
    """

    def __init__(self, multiplies_out: bool = True) -> None:
        self.multiplies_out = multiplies_out
        self.bits: dict[str, int] = {}
        self.symbols: list[str] = []
        self.count = 0
        self._table: dict[tuple[object, ...], Node] = {}
        self._slopes: dict[str, dict[Node, Node]] = {}
        self.zero, self.one = self.number(0), self.number(1)

    def _make(
        self, op: str, args: tuple[Node, ...] = (), name: str = "", value: Fraction = _NOTHING
    ) -> Node:
        indices = [a.index for a in args]
        if op in ("add", "mul", "both"):
            indices.sort()
        key = (op, name, *indices, value.numerator, value.denominator)
        node = self._table.get(key)
        if node is None:
            if self.count >= MAX_NODES:
                raise ExpressionError(f"more than {MAX_NODES} operations")
            node = self._table[key] = Node(self, op, args, name, value)
            self.count += 1
        return node

    def number(self, x: Fraction | int) -> Node:
        return self._make("number", value=exact.bounded(Fraction(x)))

    def node(self, x: Node | Fraction | int) -> Node:
        return x if isinstance(x, Node) else self.number(x)

    def symbol(self, name: str) -> Node:
        node = self._make("symbol", name=name)
        if not node.mask:
            node.mask = self.bits[name] = 1 << len(self.bits)
            self.symbols.append(name)
        return node

    def local(self, name: str, definition: Node) -> Node:
        if not definition.args or definition.op == "local":
            return definition
        return self._make("local", (definition,), name)

    def copied(self, roots: Iterable[Node]) -> dict[Node, Node]:
        """Copy another graph's expressions into this one; return the copies by their originals."""
        copies: dict[Node, Node] = {}
        for node in sorted(postorder(roots), key=lambda node: node.index):
            if node.op == "symbol":
                copies[node] = self.symbol(node.name)
            else:
                args = tuple(copies[a] for a in node.args)
                copies[node] = self._make(node.op, args, node.name, node.value)
        return copies

    def add(self, terms: Iterable[Node]) -> Node:
        factors_of: dict[Node, list[Fraction]] = {}
        for term in self._flat("add", terms):
            factor, rest = split(term)
            factors_of.setdefault(rest, []).append(factor)
        numbers = {rest: exact.total(factors) for rest, factors in factors_of.items()}
        constant = numbers.pop(self.one, Fraction(0))
        result = [self.scaled(factor, rest) for rest, factor in numbers.items() if factor]
        if constant or not result:
            result.append(self.number(constant))
        return result[0] if len(result) == 1 else self._make("add", tuple(result))

    @staticmethod
    def _flat(op: str, args: Iterable[Node]) -> Iterator[Node]:
        for a in args:
            if a.op == op and len(a.args) <= _SHORT:
                yield from a.args
            else:
                yield a

    def scaled(self, factor: Fraction, rest: Node) -> Node:
        """Return ``factor * rest`` without multiplying out; `rest` has no numeric factor."""
        if factor == 1:
            return rest
        if rest is self.one:
            return self.number(factor)
        args = rest.args if rest.op == "mul" else (rest,)
        return self._make("mul", (self.number(factor), *args))

    def mul(self, factors: Iterable[Node]) -> Node:
        number = Fraction(1)
        exponents: dict[Node, Node] = {}
        for factor in self._flat("mul", factors):
            if factor.op == "number":
                if factor is not self.one:
                    number *= factor.value
                continue
            base, exponent = factor.args if factor.op == "pow" else (factor, self.one)
            earlier = exponents.get(base)
            exponents[base] = exponent if earlier is None else earlier + exponent
        number = exact.bounded(number)
        if not number:
            return self.zero
        result = [b if e is self.one else self.power(b, e) for b, e in exponents.items()]
        if any(f.op in ("number", "mul") for f in result):
            flat = [self.number(number)]
            for f in result:
                flat += f.args if f.op == "mul" else (f,)
            return self.mul(flat)
        if not result:
            return self.number(number)
        if len(result) == 1 and self._is_multiplied_out(number, result[0]):
            return self.add(self.mul((self.number(number), a)) for a in result[0].args)
        rest = result[0] if len(result) == 1 else self._make("mul", tuple(result))
        return self.scaled(number, rest)

    def _is_multiplied_out(self, number: Fraction, factor: Node) -> bool:
        is_short_sum = factor.op == "add" and len(factor.args) <= _SHORT
        return is_short_sum and (number == -1 or (number != 1 and self.multiplies_out))

    def power(self, base: Node, exponent: Node) -> Node:
        value = exponent.value
        whole = exponent.is_number and value.denominator == 1
        if whole and abs(value) > MAX_POWER:
            shown = str(value) if abs(value) < 10**12 else "of so many digits"
            raise ExpressionError(f"power {shown} is too large; expected at most {MAX_POWER}")
        if whole and value in (0, 1):
            return base if value else self.one
        if base.is_number and exponent.is_number:
            return self.number(exact.power(base.value, value))
        if base.is_number and base.value > 0:
            return self.call("exp", self.number(exact.log(base.value)) * exponent)
        if base.op == "exp":
            return self.call("exp", base.args[0] * exponent)
        return self._whole_power(base, exponent) if whole else self._make("pow", (base, exponent))

    def _whole_power(self, base: Node, exponent: Node) -> Node:
        if base.op == "pow":
            return self.power(base.args[0], base.args[1] * exponent)
        if base.op == "mul" and len(base.args) <= _SHORT:
            return self.mul([self.power(a, exponent) for a in base.args])
        if base.op == "abs" and exponent.value % 2 == 0:
            return self.power(base.args[0], exponent)
        return self._make("pow", (base, exponent))

    def call(self, name: str, *args: Node) -> Node:
        """Return a function call as a node whose `op` is `name`."""
        if name in exact.FUNCTIONS and args[0].is_number:
            return self.number(exact.FUNCTIONS[name](args[0].value))
        if name in ("floor", "ceil") and args[0].is_number:
            return self.number(getattr(math, name)(args[0].value))
        if name == "exp" and args[0].op == "log":
            return args[0].args[0]
        if name == "log" and args[0].op == "exp":
            return args[0].args[0]
        return self._make(name, args)

    def lookup(self, table: str, column: int, columns: int, n: int, place: Node) -> Node:
        """Return the table value in column number `column`, interpolated between rows at `place`.

        The table has `columns` columns; `place` is from 0, the first row, to `n`, the last.
        """
        numbers = [self.number(k) for k in (column, columns, n)]
        return self._make("lookup", (place, self.symbol(table), *numbers))

    def sqrt(self, x: Node) -> Node:
        return self.power(x, self.number(Fraction(1, 2)))

    def less(self, a: Node, b: Node, or_equal: bool = False) -> Node:
        if a is b:
            return self.number(int(or_equal))
        if a.is_number and b.is_number:
            return self.number(int(a.value <= b.value if or_equal else a.value < b.value))
        return self._make("lessequal" if or_equal else "less", (a, b))

    def both(self, a: Node, b: Node) -> Node:
        if a.op in CONDITIONS and b.op in CONDITIONS:
            args = dict.fromkeys(self._flat("both", (a, b)))
            return self._make("both", tuple(args)) if len(args) > 1 else a
        return self.where(a, self.where(b, self.one, self.zero), self.zero)

    def where(self, condition: Node, a: Node, b: Node) -> Node:
        if condition.is_number:
            return a if condition.value else b
        return a if a is b else self._make("where", (condition, a, b))

    def negated(self, e: Node) -> Node:
        if e.op in ("less", "lessequal"):
            return self.less(e.args[1], e.args[0], or_equal=e.op == "less")
        return self.where(e, self.zero, self.one)

    def rebuilt(self, node: Node, args: tuple[Node, ...]) -> Node:
        """Return the operation of `node` applied to other arguments, in normal form."""
        if all(a is b for a, b in zip(args, node.args, strict=True)):
            return node
        op = node.op
        if op == "local":
            return self.local(node.name, args[0])
        if op == "both":
            return reduce(self.both, args)
        makers = {"add": self.add, "mul": self.mul}
        if op in makers:
            return makers[op](args)
        if op in ("less", "lessequal"):
            return self.less(args[0], args[1], or_equal=op == "lessequal")
        if op == "pow":
            return self.power(*args)
        return self.where(*args) if op == "where" else self.call(op, *args)

    def replaced(self, roots: Iterable[Node], replacements: dict[Node, Node]) -> list[Node]:
        """Replace nodes in expressions; results are added to `replacements`, by node."""
        roots, mask = list(roots), 0
        for node in replacements:
            mask |= node.mask
        for node in postorder(roots, stop=replacements, mask=mask):
            if node not in replacements:
                new = node
                if node.mask & mask:
                    new = self.rebuilt(node, tuple(replacements[a] for a in node.args))
                replacements[node] = new
        return [replacements[root] for root in roots]

    def slope(self, root: Node, name: str) -> Node:
        """Return an expression's derivative with respect to the symbol `name`."""
        slopes = self._slopes.setdefault(name, {})
        bit = self.bits.get(name, 0)
        for node in postorder([root], stop=slopes, mask=bit):
            if node not in slopes:
                slopes[node] = self._slope(node, slopes) if node.mask & bit else self.zero
        return slopes[root]

    def _slope(self, node: Node, known_slopes: dict[Node, Node]) -> Node:
        op, args = node.op, node.args
        if op == "symbol":
            return self.one
        slopes = [known_slopes[a] for a in args]
        if op == "local":
            return slopes[0]
        if op == "add":
            return self.add(slopes)
        if op == "mul":
            parts = []
            for k, slope in enumerate(slopes):
                if slope is not self.zero:
                    parts.append(self.mul([*args[:k], slope, *args[k + 1 :]]))
            return self.add(parts)
        if op == "pow":
            base, exponent = args
            if exponent.is_number and exponent.value < 0:  # a higher power of base may overflow
                inverse = self.local("_inverse", base**-1)
                power = inverse if node is inverse.args[0] else self.local("_power", node)
                return exponent * power * self.local("_share", inverse * slopes[0])
            result = exponent * self.power(base, exponent - 1) * slopes[0]
            if slopes[1] is not self.zero:
                result = result + node * self.call("log", base) * slopes[1]
            return result
        if op == "where":
            return self.where(args[0], slopes[1], slopes[2])
        if op in CONDITIONS or op in STEPS:
            return self.zero
        return self.outer(node) * slopes[0]

    def outer(self, node: Node) -> Node:
        """Return a function call's derivative with respect to its first argument."""
        x = node.args[0]
        if node.op == "exp":
            return node
        if node.op == "log":
            return x**-1
        if node.op == "tan":
            return self.one + node**2
        if node.op == "tanh":  # 1 - tanh(x)**2 would cancel
            return self.call("cosh", x) ** -2
        if node.op == "bernoulli":
            return self.call("bernoulli_slope", *node.args)
        if node.op in _SLOPES:
            return _SLOPES[node.op](self, *node.args)
        others = {"sin": "cos", "cos": "sin", "sinh": "cosh", "cosh": "sinh", "abs": "sign"}
        if node.op not in others:
            raise ExpressionError(f"no derivative of {node.op} is known")
        result = self.call(others[node.op], x)
        return -result if node.op == "cos" else result


def _series(graph: Graph, coefficients: Sequence[Fraction], x: Node) -> Node:
    total = graph.zero
    for c in reversed(coefficients):
        total = total * x + graph.number(c)
    return total


def _slope_of_weight(graph: Graph, b: Node, h: Node) -> Node:
    weight = graph.local("_weight", graph.call("weight", b, h))  # no factor that `relax` knows
    return graph.call("weight_slope", b, h, weight)


def _slope_of_bernoulli_slope(graph: Graph, x: Node, e: Node) -> Node:
    numbers = exact.bernoulli_numbers(32)
    c = [2 * k * (2 * k - 1) * numbers[2 * k] / math.factorial(2 * k) for k in range(1, 16)]
    value, slope = (graph.call(name, x, e) for name in ("bernoulli", "bernoulli_slope"))
    far = (slope * (graph.one - value * 2) - value * (graph.one - value) / x) / x - slope
    is_near = graph.less(graph.call("abs", x), graph.one)
    return graph.where(is_near, _series(graph, c, x**2), far)


def _slope_of_place(graph: Graph, x: Node, n: Node) -> Node:
    inside = graph.both(graph.less(graph.zero, x), graph.less(x, n))
    return graph.where(inside, graph.one, graph.zero)


def _slope_of_lookup(graph: Graph, place: Node, *table: Node) -> Node:
    row = graph.local("_row", graph.call("floor", place))
    return graph.call("lookup", row + 1, *table) - graph.call("lookup", row, *table)


_SLOPES: dict[str, Callable[..., Node]] = {
    "weight": _slope_of_weight,
    "bernoulli_slope": _slope_of_bernoulli_slope,
    "place": _slope_of_place,
    "lookup": _slope_of_lookup,
    "asin": lambda graph, x: graph.sqrt(graph.one - x**2) ** -1,
    "acos": lambda graph, x: -(graph.sqrt(graph.one - x**2) ** -1),
    "atan": lambda graph, x: (graph.one + x**2) ** -1,
}


def split(term: Node) -> tuple[Fraction, Node]:
    """Split a term into its numeric factor and the rest."""
    graph = term.graph
    if term.is_number:
        return term.value, graph.one
    if term.op == "mul" and term.args[0].is_number:
        rest = term.args[1:]
        return term.args[0].value, rest[0] if len(rest) == 1 else graph._make("mul", rest)
    return Fraction(1), term


def postorder(
    roots: Iterable[Node],
    stop: Container[Node] = (),
    mask: int | None = None,
    operands: Callable[[Node], Sequence[Node]] | None = None,
) -> Iterator[Node]:
    """Yield each node once, operands before the nodes that use them.

    By default a node's operands are its arguments. Do not descend below nodes in `stop` or, with
    `mask`, below nodes that depend on none of its symbols.
    """
    seen: set[Node] = set()
    for root in roots:
        stack = [(root, False)]
        while stack:
            node, done = stack.pop()
            if done:
                yield node
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                if node not in stop and (mask is None or node.mask & mask):
                    below = node.args if operands is None else operands(node)
                    stack.extend((a, False) for a in reversed(below))


__all__ = ["CONDITIONS", "FUNCTIONS", "ExpressionError", "Graph", "Node", "NotRealError"]
__all__ += ["postorder", "split"]
