"""One step of the states: new values as expressions of the old ones.

Statements are executed in the order of the text, as NEURON does. A state that is linear in itself
takes exponential Euler and is new for what stands below; states of a method are advanced together,
where the first of their rates stands. Rates under exponential Euler and implicit methods are those
of the end of the step, like the voltage; those of explicit methods begin at its begin.

Implicit methods solve their linear systems in expressions: elimination without pivoting, each time
of the state whose elimination makes the fewest new entries.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from clhines.mechanisms.ir.compiled import Loop
from clhines.mechanisms.ir.exact import ExpressionError
from clhines.mechanisms.ir.expressions import Node
from clhines.mechanisms.ir.forms import linear_form, linear_parts
from clhines.mechanisms.ir.program import HIDDEN
from clhines.mechanisms.text.equations import Equations, Scope

MAX_PRODUCTS = 12_000  # of an elimination
MAX_PASSES = 20  # of Newton's iteration

Entries = dict[str, dict[str, Node]]  # of a matrix, by row and column


@dataclass
class Advance:
    """New values of the states that change, in terms of symbols."""

    values: dict[str, Node] = field(default_factory=dict)
    loops: list[Loop] = field(default_factory=list)


def advance(eq: Equations) -> Advance:
    """Return one step of a mechanism, of its substeps."""
    if eq.substeps == 1:
        return _Step(eq, eq.graph.symbol("dt")).result
    share = eq.graph.symbol("dt") * eq.graph.number(Fraction(1, eq.substeps))
    step = _Step(eq, eq.graph.local("_h", share))
    return _repeated(eq, step.result, step.h)


def _repeated(eq: Equations, step: Advance, h: Node) -> Advance:
    """Return substeps: a loop over a step, which is in terms of values at its own begin."""
    graph = eq.graph
    moving = [name for name in step.values if name != HIDDEN] + ["t"]
    loop = Loop(
        names=[f"_{name}__sub" for name in moving],
        ends=[f"_{name}__last" for name in moving],
        starts=[graph.symbol(name) for name in moving],
        values=[*(step.values[name] for name in moving[:-1]), graph.symbol("t") + h],
        most=eq.substeps,
        inner=step.loops,
    )
    inside = {graph.symbol(name): graph.symbol(f"_{name}__sub") for name in moving}
    inside |= {graph.symbol(begin(q.name)): graph.symbol(q.name) for q in eq.states}
    inside[graph.symbol(begin("t"))] = graph.symbol("t")
    graph.replaced([*loop.values, *(e for one in loop.inner for e in one.nodes())], inside)
    starts, loop = loop.starts, loop.mapped(lambda e: inside.get(e, e))
    loop.starts = starts
    loop = loop.without_unneeded({f"_{name}__last" for name in moving[:-1]})
    values = {name: graph.symbol(f"_{name}__last") for name in moving[:-1]}
    values |= {name: e for name, e in step.values.items() if name == HIDDEN}
    return Advance(values, [loop] if loop.names else [])


def begin(name: str) -> str:
    """Return the symbol of a value at the begin of a step that has substeps."""
    return f"_{name}__begin"


class _Step:
    def __init__(self, eq: Equations, h: Node) -> None:
        self.eq, self.graph, self.result = eq, eq.graph, Advance()
        self.h, self.t = h, eq.graph.symbol("t")
        given = {"t": self.t + self.h}
        if eq.uses_currents:
            given |= self._currents()
        self.scope = Scope(eq, given)
        for statement in eq.statements:
            if statement.sort == "name":
                self.scope.assign(statement.name)
            elif statement.sort == "rate" and statement.name not in eq.stepped:
                self._exponential(statement.name, statement.value)
            elif statement.sort == "rate" and statement.name == eq.stepped[0]:
                self._together()
        if eq.uses_currents:
            self.result.values[HIDDEN] = self.graph.symbol("v")

    def _currents(self) -> dict[str, Node]:
        """Return the currents as they were before the voltage was solved for."""
        half = self.graph.symbol("dt") * self.graph.number(Fraction(1, 2))
        old: dict[str, Node] = {"v": self.graph.symbol(HIDDEN)}
        several = self.eq.substeps > 1
        old["t"] = self.graph.symbol(begin("t") if several else "t") + half
        if several:
            old |= {q.name: self.graph.symbol(begin(q.name)) for q in self.eq.states}
        before = Scope(self.eq, old)
        return {name: before.value(name) for name in self.eq.currents}

    def _set(self, name: str, value: Node) -> None:
        self.result.values[name] = value
        self.scope.values[name] = self.scope.named(f"_{name}_new", value)

    def _exponential(self, name: str, rate: Node) -> None:
        x, h = self.graph.symbol(name), self.h
        parts = linear_parts(self.scope.expression(rate, keep=False), name)
        assert parts is not None
        a, b = parts
        if b is self.graph.zero:
            self._set(name, x + h * a)
        elif a is self.graph.zero:
            self._set(name, x * self.graph.call("exp", b * h))
        else:
            b = self.scope.named(f"_b_{name}", b)
            self._set(name, x + self.graph.call("weight", b, h) * (a + b * x))

    # -------------------------------------------------------------------- several together

    def _rates(self, at: dict[str, Node], t: Node) -> dict[str, Node]:
        """Rates of the method's states, with names as they are at these values of the states.

        Names that do not depend on these states keep the value of their place.
        """
        moving = set(at) | {"t"}
        names = {
            name: value
            for name, value in self.scope.values.items()
            if not self._depends(name, moving)
        }
        inner = Scope(self.eq, {**names, **at, "t": t})
        rates = self.eq.rates
        return {name: inner.expression(rates[name]) for name in self.eq.stepped}

    def _depends(self, name: str, moving: set[str]) -> bool:
        if name in self.eq.currents:
            return False
        if not hasattr(self, "_base"):
            self._base = Scope(self.eq, {c: self.graph.symbol(f"_{c}") for c in self.eq.currents})
        return self._base.value(name).uses(*moving)

    def _together(self) -> None:
        method = self.eq.method
        if method == "sparse":
            self._sparse()
        elif method == "derivimplicit":
            self._newton()
        else:
            self._explicit(method)

    def _explicit(self, method: str) -> None:
        """Advance by Euler's, the midpoint or the classical method of Runge and Kutta."""
        graph, h, old = self.graph, self.h, {n: self.graph.symbol(n) for n in self.eq.stepped}
        half = graph.number(Fraction(1, 2)) * h

        def stage(number: int, step: Node | None, before: dict[str, Node]) -> dict[str, Node]:
            at, t = old, self.t
            if step is not None:
                at = {
                    n: self.scope.named(f"_y{number}_{n}", x + step * before[n])
                    for n, x in old.items()
                }
                t = self.t + step
            rates = self._rates(at, t)
            return {n: self.scope.named(f"_k{number}_{n}", rate) for n, rate in rates.items()}

        k1 = stage(1, None, {})
        if method == "euler":
            new = {n: x + h * k1[n] for n, x in old.items()}
        elif method == "rk2":
            k2 = stage(2, half, k1)
            new = {n: x + h * k2[n] for n, x in old.items()}
        else:
            k2 = stage(2, half, k1)
            k3 = stage(3, half, k2)
            k4 = stage(4, h, k3)
            sixth = self.scope.named("_sixth", graph.number(Fraction(1, 6)) * h)
            new = {
                n: x + sixth * (k1[n] + graph.number(2) * (k2[n] + k3[n]) + k4[n])
                for n, x in old.items()
            }
        for name, value in new.items():
            self._set(name, value)

    def _sparse(self) -> None:
        """Solve ``(1 - h*J) (x_new - x) = h*(a + J*x)`` of the rates ``a + J*x_new``.

        As NEURON does, for the change: at rest it is zero with its roundings, which else add up.
        """
        graph, names = self.graph, self.eq.stepped
        rates = self._rates({n: graph.symbol(n) for n in names}, self.t + self.h)
        matrix: Entries = {}
        right: dict[str, Node] = {}
        for row in names:
            form = linear_form(rates[row], names)
            assert form is not None
            matrix[row] = self._row(row, form.coefficients)
            right[row] = self.h * rates[row]
        for name, change in solved(matrix, right, self.scope.named).items():
            self._set(name, graph.symbol(name) + change)

    def _row(self, row: str, slopes: dict[str, Node]) -> dict[str, Node]:
        """Row of ``1 - h*J``."""
        entries = {c: -(self.h * slope) for c, slope in slopes.items()}
        entries[row] = self.graph.one + entries.get(row, self.graph.zero)
        return {c: e for c, e in entries.items() if e is not self.graph.zero}

    def _newton(self) -> None:
        """Solve ``x_new - x - h*rate(x_new) = 0`` by Newton's iteration from the old values."""
        graph, names = self.graph, self.eq.stepped
        now = {n: f"_{n}__now" for n in names}
        new = {n: f"_{n}__end" for n in names}
        at = {n: graph.symbol(now[n]) for n in names}
        rates = self._rates(at, self.t + self.h)
        matrix, right = Entries(), {}
        for row in names:
            slopes = {c: graph.slope(rates[row], now[c]) for c in names}
            matrix[row] = self._row(row, {c: s for c, s in slopes.items() if s is not graph.zero})
            right[row] = at[row] - graph.symbol(row) - self.h * rates[row]
        change = solved(matrix, right, self.scope.named)
        after = {n: graph.local(f"{now[n]}_next", at[n] - change[n]) for n in names}
        relative, absolute = graph.symbol("_bound_relative"), graph.symbol("_bound_absolute")
        done = graph.one
        for n in names:
            bound = relative * graph.call("abs", after[n]) + absolute
            small = graph.less(graph.call("abs", change[n]), bound, or_equal=True)
            done = small if done is graph.one else graph.both(done, small)
        self.result.loops.append(
            Loop(
                names=[now[n] for n in names],
                ends=[new[n] for n in names],
                starts=[graph.symbol(n) for n in names],
                values=[after[n] for n in names],
                go_on=graph.where(done, graph.zero, graph.one),
                most=MAX_PASSES,
            )
        )
        for n in names:
            value = graph.symbol(new[n])
            self.result.values[n] = self.scope.values[n] = value


def solved(
    matrix: Entries, right: dict[str, Node], named: Callable[[str, Node], Node]
) -> dict[str, Node]:
    """Return the solution of a linear system whose entries are expressions.

    Gaussian elimination. The next unknown is the one whose row and column have the fewest other
    entries (Markowitz), so that little is filled in. Rows are exchanged only where all diagonal
    entries that are left are 0, whatever the values of what they depend on. `matrix` has rows by
    name, of the entries that are not 0, and the diagonal; `named` gives an expression a name, to be
    worked out once. An ExpressionError says that the system is singular, or too large.
    """
    _check_size(matrix)
    rows = {row: dict(entries) for row, entries in matrix.items()}
    b = dict(right)
    left: list[str] = list(rows)
    order: list[str] = []
    while left:
        able = [n for n in left if n in rows[n]] or [_exchanged(rows, b, left)]
        pivot = min(able, key=lambda n: _fill(rows, left, n))
        left.remove(pivot)
        order.append(pivot)
        below = [row for row in left if pivot in rows[row]]
        if not below and not any(c in rows[pivot] for c in left):
            continue
        inverse = named("_inverse", rows[pivot][pivot] ** -1)
        for row in below:
            factor = named("_factor", rows[row].pop(pivot) * inverse)
            for column in left:
                entry = rows[pivot].get(column)
                if entry is None:
                    continue
                old = rows[row].get(column)
                change = -(factor * entry)
                new = change if old is None else old + change
                if new is new.graph.zero:
                    rows[row].pop(column, None)
                else:
                    rows[row][column] = named("_entry", new)
            b[row] = named("_right", b[row] - factor * b[pivot])
    x: dict[str, Node] = {}
    for name in reversed(order):
        others = [rows[name][c] * x[c] for c in x if c in rows[name]]
        above = b[name] - b[name].graph.add(others) if others else b[name]
        x[name] = named(f"_{name}_solved", above * rows[name][name] ** -1)
    return x


def _exchanged(rows: Entries, b: dict[str, Node], left: Sequence[str]) -> str:
    """Exchange two rows so that an unknown has an entry in its row, and return it."""
    name = left[0]
    row = next((r for r in left if name in rows[r]), None)
    if row is None:
        raise ExpressionError("a system of equations that is singular")
    rows[name], rows[row] = rows[row], rows[name]
    b[name], b[row] = b[row], b[name]
    return name


def _check_size(matrix: Entries) -> None:
    """Refuse a system whose elimination takes more than `MAX_PRODUCTS` products."""
    rows = {row: set(entries) for row, entries in matrix.items()}
    left, products = list(rows), 0
    while left:
        pivot = min(left, key=lambda n: _fill(rows, left, n))
        left.remove(pivot)
        columns = rows[pivot].intersection(left)
        below = [row for row in left if pivot in rows[row]]
        for row in below:
            rows[row] |= columns
        products += len(below) * (len(columns) + 1)
        if products > MAX_PRODUCTS:
            raise ExpressionError(f"more than {MAX_PRODUCTS} products; expected fewer or sparser")


def _fill(rows: Mapping[str, Container[str]], left: Sequence[str], n: str) -> int:
    column = sum(n in rows[row] for row in left) - 1
    return column * (sum(c in rows[n] for c in left) - 1)
