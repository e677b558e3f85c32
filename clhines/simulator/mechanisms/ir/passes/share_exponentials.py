"""Compute exponentials of an expression's multiples as powers of one exponential."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from clhines.simulator.mechanisms.ir import exact
from clhines.simulator.mechanisms.ir.expressions import Graph, Node, postorder
from clhines.simulator.mechanisms.ir.forms import Multiples, multiples

MAX_SHARED_POWER = 8  # a shared exponential's largest power: 8 times its rounding error
MAX_SHIFT = 40  # largest constant exponent that is split off: e**40 is no problem in float32


def share_exponentials(roots: Sequence[Node]) -> list[Node]:
    """Replace exponentials of one expression's multiples by powers of one exponential.

    ``exp(b + a*s)`` with numbers a and b is ``exp(b) * e**k`` with ``e = exp(g*s)`` and an integer
    ``k = a/g``. Rounding errors grow k-fold, hence `MAX_SHARED_POWER`.
    """
    graph = roots[0].graph if roots else Graph()
    has_exp: dict[Node, bool] = {}
    members_of: dict[tuple[tuple[int, Fraction], ...], list[tuple[Node, Fraction, Multiples]]] = {}
    for node in postorder(roots):
        inner = any(has_exp[a] for a in node.args)
        has_exp[node] = inner or node.op == "exp"
        form = multiples(node.args[0]) if node.op == "exp" and not inner else None
        if form is None or not form.factors or abs(form.shift) > MAX_SHIFT:
            continue
        lead = form.factors[min(form.factors, key=lambda x: x.index)]
        parts = sorted((x.index, factor / lead) for x, factor in form.factors.items())
        members_of.setdefault(tuple(parts), []).append((node, lead, form))
    replaced: dict[Node, Node] = {}
    count = 0
    for members in members_of.values():
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
    if sum(lead < 0 for _, lead, _ in cluster) * 2 > len(cluster):
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

    for node, lead_of_node, parts in cluster:
        factor = graph.number(exact.exp(parts.shift))
        replaced[node] = factor * power(int(lead_of_node / unit))
    return count + len(made)
