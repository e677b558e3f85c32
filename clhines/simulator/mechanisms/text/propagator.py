"""`method exact`: exact integration of a linear point neuron between events.

This is the spike response model (Gerstner and Kistler 2002), one step at a time. With ``dy/dt =
M*y`` for y = (v, states, 1), a step of h adds ``E*y``, ``E = exp(M*h) - 1`` (Rotter and Diesmann
1999, Biological Cybernetics 81, 381-402). Taylor's series gives E for a small fraction of the step;
doubling by ``2*E + E*E`` gives E for the step, with small entries exact to rounding. E depends on
parameters and dt only, so engines that hoist constants compute it once.

The cable equation advances the voltage. Current and slope are chosen such that its implicit step is
exact, for the neuron alone and with a constant current of other mechanisms.
"""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from math import factorial

from clhines.simulator.mechanisms.ir.elimination import MAX_PRODUCTS, Entries
from clhines.simulator.mechanisms.ir.expressions import ExpressionError, Graph, Node
from clhines.simulator.mechanisms.ir.forms import linear_form
from clhines.simulator.mechanisms.ir.program import CAPACITANCE, HELD, HIDDEN
from clhines.simulator.mechanisms.text.reader import Equations
from clhines.simulator.mechanisms.text.scope import Scope
from clhines.simulator.mechanisms.text.statements import Line

_DOUBLINGS, _TERMS = 10, 8  # the series has one more term for each variable
_SMALL = Fraction(1, 2**50)  # largest share that the series' last two terms have in its sum
_ONE, _DRIVE = "_one", "_drive"  # columns for constants, and for other mechanisms' current, C/h


def check_exact(eq: Equations, line: Line) -> None:
    if eq.spike is None:
        raise eq.fail(line, "'method exact' is for point neurons; expected a line 'spike: v > ...'")
    _matrix(eq)


def _matrix(eq: Equations) -> Entries:
    """Return the rows of M in ``dy/dt = M*y`` by name, where y = (v, states, 1)."""
    graph, scope, names = eq.graph, Scope(eq), ["v", *eq.states]
    parameters = {q.name for q in eq.parameters}

    def entries(line: Line, e: Node, factor: Node) -> dict[str, Node]:
        form = linear_form(e, names)
        coefficients = None if form is None else {**form.coefficients, _ONE: form.constant}
        if coefficients is None or not all(c.free <= parameters for c in coefficients.values()):
            problem = f"'{line.shown}' is not linear in v and the states with coefficients of"
            raise eq.fail(line, f"{problem} parameters alone, which 'method exact' needs")
        return {column: factor * c for column, c in coefficients.items() if c is not graph.zero}

    per = -(graph.symbol(CAPACITANCE) ** -1)
    parts = [entries(line, scope.value(n), per) for n, line in eq.currents.items()]
    columns = dict.fromkeys(c for part in parts for c in part)
    sums = {c: graph.add(part[c] for part in parts if c in part) for c in columns}
    rows = {"v": {c: e for c, e in sums.items() if e is not graph.zero}}
    for name, line in eq.rates.items():
        rows[name] = entries(line, scope.expression(line.value), graph.one)
    return rows


class _Matrices:
    def __init__(self, graph: Graph, rows: Entries) -> None:
        self.graph, self.rows, self._products = graph, rows, 0

    def product(self, a: Entries, b: Entries) -> Entries:
        matrix: Entries = {}
        for row, entries in a.items():
            sums: dict[str, list[Node]] = {}
            for k in (k for k in entries if k in b):
                for column, e in b[k].items():
                    sums.setdefault(column, []).append(entries[k] * e)
            self._products += sum(map(len, sums.values()))
            matrix[row] = {
                c: self.graph.local("_p", self.graph.add(terms)) for c, terms in sums.items()
            }
        if self._products > MAX_PRODUCTS:
            raise ExpressionError(f"more than {MAX_PRODUCTS} products; expected fewer states")
        return matrix

    def total(self, parts: list[tuple[Fraction, Entries]]) -> Entries:
        graph, matrix = self.graph, Entries()
        for row in self.rows:
            sums: dict[str, list[tuple[Fraction, Node]]] = {}
            for factor, part in parts:
                for c, e in part[row].items():
                    sums.setdefault(c, []).append((factor, e))
            matrix[row] = {
                c: graph.local("_e", graph.add(graph.number(factor) * e for factor, e in terms))
                for c, terms in sums.items()
            }
        return matrix


def _propagator(rows: Entries, h: Node) -> tuple[Entries, Node]:
    """Return the matrix ``exp(M*h) - 1`` for a step h of ``dy/dt = M*y``.

    Also return a factor: 1, or NaN if the series is too short for h. `rows` has M's rows; columns
    without a row belong to constants.
    """
    graph, matrices = h.graph, _Matrices(h.graph, rows)
    part = h * graph.number(Fraction(1, 2**_DOUBLINGS))
    small = {r: {c: graph.local("_m", part * e) for c, e in es.items()} for r, es in rows.items()}
    powers = [small]
    while len(powers) < _TERMS + len(rows):
        powers.append(matrices.product(powers[-1], small))
    series = [(Fraction(1, factorial(k)), power) for k, power in enumerate(powers, 1)]
    e = matrices.total(series)
    enough = []
    for row in rows:
        terms = (graph.number(f) * p[row][row] for f, p in series[-2:] if row in p[row])
        last = [graph.call("abs", term) for term in terms]
        if last:
            most = graph.number(_SMALL) * graph.call("abs", e[row][row])
            enough.append(graph.less(graph.add(last), most, or_equal=True))
    for _ in range(_DOUBLINGS):
        e = matrices.total([(Fraction(2), e), (Fraction(1), matrices.product(e, e))])
    if not enough:
        return e, graph.one
    return e, graph.sqrt(graph.where(reduce(graph.both, enough), graph.one, -graph.one))


def _change(eq: Equations, row: dict[str, Node], v: Node) -> Node:
    """Return a variable's change in a step from its `row` of the propagator."""
    values = {"v": v, _ONE: eq.graph.one} | {name: eq.graph.symbol(name) for name in eq.states}
    return eq.graph.add(e * values[column] for column, e in row.items() if column != _DRIVE)


def exact_current(eq: Equations) -> tuple[Node, Node]:
    """Return i and g = di/dv with which a backward-Euler step of v gives the exact solution."""
    graph, dt = eq.graph, eq.graph.symbol("dt")
    rows = _matrix(eq)
    rows["v"][_DRIVE] = dt**-1
    e, drive = _propagator(rows, dt)
    capacitive = graph.symbol(CAPACITANCE) / dt
    whole = graph.local("_whole", drive * capacitive / e["v"][_DRIVE])
    return -(whole * _change(eq, e["v"], graph.symbol("v"))), whole - capacitive


def exact_advance(eq: Equations, steps: Node) -> dict[str, Node]:
    """Return the states after a step; after a spike v is held for `steps` steps."""
    graph, dt, before = eq.graph, eq.graph.symbol("dt"), eq.graph.symbol(HIDDEN)
    rows, held = _matrix(eq), graph.symbol(HELD)
    free = _propagator(rows, dt)[0]
    fixed = _propagator({n: row for n, row in rows.items() if n != "v"}, dt)[0]
    holds = graph.both(graph.less(graph.zero, held), graph.less(graph.one, steps, or_equal=True))
    new = {HIDDEN: graph.symbol("v")} if eq.keeps_v else {}
    for name in eq.rates:
        changes = (_change(eq, e[name], before) for e in (fixed, free))
        new[name] = graph.symbol(name) + graph.where(holds, *changes)
    return new
