"""Write expressions as linear forms in some symbols, or as sums of multiples; reduce quotients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction

from clhines.simulator.mechanisms.ir import exact
from clhines.simulator.mechanisms.ir.expressions import Graph, Node, postorder, split

_TERMS = 32  # most terms in a `Multiples`


@dataclass(frozen=True)
class LinearForm:
    """A sum: ``constant + sum(coefficients[name] * symbol(name))``."""

    constant: Node
    coefficients: dict[str, Node]


def linear_form(e: Node, names: Sequence[str]) -> LinearForm | None:
    """Return an expression as a linear form in the symbols `names`; None if it is not linear."""
    graph = e.graph
    mask = 0
    for name in names:
        mask |= graph.bits.get(name, 0)
    forms: dict[Node, LinearForm | None] = {}
    for node in postorder([e], mask=mask):
        forms[node] = _linear(node, mask, forms) if node.mask & mask else LinearForm(node, {})
    return forms[e]


def linear_parts(rate: Node, name: str) -> tuple[Node, Node] | None:
    """Return (a, b) such that ``rate = a + b*x`` for the symbol x, `name`; None if not linear."""
    form = linear_form(rate, [name])
    return None if form is None else (form.constant, form.coefficients.get(name, rate.graph.zero))


def _linear(node: Node, mask: int, forms: dict[Node, LinearForm | None]) -> LinearForm | None:
    graph, op = node.graph, node.op
    if op == "symbol":
        return LinearForm(graph.zero, {node.name: graph.one})
    parts = [form for a in node.args if (form := forms[a]) is not None]
    if len(parts) < len(node.args):
        return None
    moving = [p for a, p in zip(node.args, parts, strict=True) if a.mask & mask]
    if op == "local":
        return parts[0]
    if op == "add":
        return _joined(parts, graph.add)
    if op == "mul" and len(moving) == 1:
        rest = graph.mul(a for a in node.args if not a.mask & mask)
        return _joined(moving, lambda values: rest * values[0])
    if op == "where" and not node.args[0].mask & mask:
        return _joined(parts[1:], lambda values: graph.where(node.args[0], *values))
    return None


def _joined(forms: Sequence[LinearForm], join: Callable[[list[Node]], Node]) -> LinearForm:
    names = dict.fromkeys(n for form in forms for n in form.coefficients)
    constant = join([form.constant for form in forms])
    zero = constant.graph.zero
    coefficients = {n: join([form.coefficients.get(n, zero) for form in forms]) for n in names}
    return LinearForm(constant, coefficients)


def adds_multiples(values: Mapping[str, Node], name: str, parameters: Set[str]) -> bool:
    """Return whether each value is its variable plus a multiple of the symbol `name`.

    `values` are by variable. The factors may depend on `parameters` only.
    """
    for key, value in values.items():
        form = linear_form(value, [name])
        if form is None or form.constant.definition is not value.graph.symbol(key):
            return False
        if not all(factor.free <= parameters for factor in form.coefficients.values()):
            return False
    return True


@dataclass(frozen=True)
class Multiples:
    """The sum ``shift + sum(factors[x] * x)``; `shift` and factors are numbers, no x is a sum."""

    shift: Fraction
    factors: dict[Node, Fraction]

    def minus(self, other: Multiples) -> Multiples:
        factors = dict(self.factors)
        for x, factor in other.factors.items():
            factors[x] = exact.total([factors.get(x, Fraction(0)), -factor])
        shift = exact.total([self.shift, -other.shift])
        return Multiples(shift, {x: f for x, f in factors.items() if f})

    def node(self, graph: Graph) -> Node:
        terms = [graph.scaled(f, x) for x, f in self.factors.items()]
        return graph.add([*terms, graph.number(self.shift)])


def multiples(e: Node) -> Multiples | None:
    """Return an expression as a sum of multiples; None if it is too long.

    Expressions with a name are replaced by their definitions. Sums inside products get a positive
    first term, so that ``a - b`` and ``b - a`` are multiples of the same expression.
    """
    graph = e.graph
    shift, factors = [Fraction(0)], dict[Node, list[Fraction]]()
    waiting = [(Fraction(1), e)]
    visited = 0
    while waiting:
        visited += 1
        if visited > 4 * _TERMS:
            return None
        factor, node = waiting.pop()
        number, rest = split(node)
        factor *= number
        plain = rest.definition
        if plain.op == "add":
            waiting.extend((factor, a) for a in reversed(plain.args))
        elif plain.is_number:
            shift.append(factor * plain.value)
        elif plain is not rest and split(plain)[0] != 1:
            waiting.append((factor, plain))
        else:
            sign, x = _signed(graph, plain if plain is not rest and plain.op == "mul" else rest)
            factors.setdefault(x, []).append(sign * factor)
    if len(factors) > _TERMS:
        return None
    sums = {x: exact.total(f) for x, f in factors.items()}
    return Multiples(exact.total(shift), {x: f for x, f in sums.items() if f})


def _signed(graph: Graph, x: Node) -> tuple[int, Node]:
    if x.op != "mul":
        return 1, x
    sign, args = 1, []
    for a in x.args:
        if a.op == "add" and split(min(a.args, key=lambda t: split(t)[1].index))[0] < 0:
            sign, a = -sign, -a
        args.append(a)
    return sign, graph.mul(args) if sign < 0 else x


def without_quotients(e: Node) -> Node:
    """Reduce the quotients in a product.

    ``1/tau`` with ``tau = 1/(a + b)`` becomes ``a + b``; ``m_inf*(a + b)`` with ``m_inf = a/(a +
    b)`` becomes ``a``.
    """
    graph = e.graph
    factors = list(e.args) if e.op == "mul" else [e]
    for k, factor in enumerate(factors):
        if factor.op == "pow" and _power_of(factor) < 0:
            plain = factor.args[0].definition
            if any(_power_of(f) < 0 for f in (plain.args if plain.op == "mul" else (plain,))):
                factors[k] = graph.power(plain, factor.args[1])
    product = graph.mul(factors)
    for factor in product.args if product.op == "mul" else ():
        plain = factor.definition
        if plain is factor or plain.op != "mul":
            continue
        for below in (f.args[0] for f in plain.args if _power_of(f) == -1):
            for other in product.args:
                ratio = _ratio(other, below)
                if ratio:
                    rest = [f for f in product.args if f is not factor and f is not other]
                    opened = graph.mul((graph.number(ratio), below, plain))
                    return without_quotients(graph.mul((*rest, opened)))
    return product


def _ratio(a: Node, b: Node) -> Fraction | None:
    if a is b:
        return Fraction(1)
    sums = [dict((x, f) for f, x in map(split, e.definition.args)) for e in (a, b)]
    if any(e.definition.op != "add" for e in (a, b)) or sums[0].keys() != sums[1].keys():
        return None
    ratios = {sums[0][x] / sums[1][x] for x in sums[0]}
    return ratios.pop() if len(ratios) == 1 else None


def _power_of(e: Node) -> Fraction:
    return e.args[1].value if e.op == "pow" else Fraction(0)
