"""SOLVE's methods as NEURON computes them, with NEURON's errors.

- ``cnexp``: exponential Euler, state by state in the order of the rates. If nocmodl has no closed
  form for a rate, ``derivimplicit`` solves the whole block. A rate that is a polynomial of degree 2
  or more in its own state loses its terms without the state, as in nocmodl's formula.
- ``derivimplicit``: Newton's iteration with central differences of 2 %, which are computed again
  while the solution changes by more than 5 %. If all rates are linear in the states, a linear
  system gives the solution.
- ``euler``: the explicit method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from clhines.simulator.mechanisms.ir.elimination import Entries, exponential_euler, solved
from clhines.simulator.mechanisms.ir.expressions import Graph, Node, postorder
from clhines.simulator.mechanisms.ir.forms import linear_form, without_quotients
from clhines.simulator.mechanisms.nmodl.execute import Execution
from clhines.simulator.mechanisms.nmodl.meaning.kinetic import extrapolate, sparse
from clhines.simulator.mechanisms.nmodl.reading.tree import (
    Block,
    Expression,
    Statement,
    all_of,
    refuse,
)

RENEW, ITERATIONS = Fraction(1, 20), 50
STEP, SHARE = Fraction(1, 10**6), Fraction(1, 50)  # smallest and relative step for differences
MAX_NEWTON = 24  # states in an iteration with differences
_METHODS = {
    "DERIVATIVE": ("", "cnexp", "derivimplicit", "euler"),
    "KINETIC": ("sparse",),
    "LINEAR": ("", "simeq"),
    "PROCEDURE": ("", "after_cvode", "cvode_t", "cvode_t_v", "none"),
    "FUNCTION": ("", "after_cvode", "none"),
}


def solve(run: Execution, s: Statement) -> None:
    name, method, steady = str(s.names[0]), str(s.names[1]), bool(s.names[2])
    block = run.file.blocks.get(name)
    if block is None:
        raise refuse("mod.solve-no-block", s.line, name=name)
    supported = _METHODS.get(block.sort)
    if supported is None:
        raise refuse("mod.solve-of-block", s.line, sort=block.sort, name=name)
    if method not in supported and not (block.sort == "DERIVATIVE" and method == "sparse"):
        raise refuse("mod.solve-method", s.line, name=name, method=method)
    if block.sort in ("PROCEDURE", "FUNCTION"):
        run.inlined(block, [], s.line)
        return
    before, run.is_repeated = run.is_repeated, not _is_once(block, method)
    if block.sort == "KINETIC":
        if sum(other.sort == "KINETIC" for other in run.file.blocks.values()) > 1:
            raise refuse("mod.two-kinetic", block.line, name=name)
        sparse(run, block, steady)
    elif block.sort == "LINEAR":
        _equations(run, block)
    elif steady:
        raise refuse("mod.steadystate-derivative", s.line, method=method, name=name)
    else:
        _derivative(run, block, "derivimplicit" if method == "sparse" else method)
    run.is_repeated = before


def _is_once(block: Block, method: str) -> bool:
    """Return whether NEURON executes a DERIVATIVE block exactly once in a step.

    This holds for cnexp with rates whose degree in their own states is 0 or 1.
    """
    return method == "cnexp" and all(_order(rate) in (0, 1) for rate in all_of(block.body, "prime"))


def halves(run: Execution, s: Statement) -> bool:
    """Return whether NEURON's secondorder halves dt in a SOLVE and then extrapolates."""
    block = run.file.blocks.get(str(s.names[0]))
    if block is None or s.names[2]:
        return False
    if block.sort == "DERIVATIVE" and s.names[1] == "cnexp":
        return any(_order(rate) is None for rate in all_of(block.body, "prime"))
    return block.sort in ("DERIVATIVE", "KINETIC")


def _derivative(run: Execution, block: Block, method: str) -> None:
    rates = all_of(block.body, "prime")
    if not rates:
        raise refuse("mod.derivative-has-no-rate", block.line, name=block.name)
    if method == "cnexp" and all(_order(s) is not None for s in rates):
        _cnexp(run, block)
    elif method == "euler":
        _euler(run, block)
    elif not method:  # NEURON executes the block and leaves the states alone
        extrapolate(run, {k: run.read("dt") * x for k, x in _evaluated(run, block).items()})
    else:
        _implicit(run, block)


def _order(s: Statement) -> int | None:
    """Return nocmodl's degree of a rate in its own state; None if nocmodl finds no degree."""
    if s.names[1] is not None:
        return None
    name = str(s.names[0])
    order = _degree(s.values[0], name)
    if order == -2:
        raise refuse("mod.power-method-cnexp", s.line, name=name)
    return None if order == -1 else order


def _degree(e: Expression, name: str) -> int:
    """Return the degree of `e` in the variable `name`, as nocmodl finds it.

    -1 if nocmodl finds none, as for a call or a divisor with the variable; -2 for
    a power with the variable, for which nocmodl fails.
    """
    pending: list[tuple[str, int]] = []
    while e[0] in ("+", "-", "*", "/"):
        pending.append((str(e[0]), _degree(e[2], name)))
        e = e[1]
    total = _leaf_degree(e, name)
    for sign, other in reversed(pending):
        if min(total, other) < 0:
            return min(total, other)
        if sign in "+-":
            total = max(total, other)
        elif sign == "*":
            total += other
        elif other:
            return -1
    return total


def _leaf_degree(e: Expression, name: str) -> int:
    if e[0] == "name":
        return int(e[1] == name)
    if e[0] == "neg":
        return _degree(e[1], name)
    if e[0] == "number":
        return 0
    inner: Sequence[Expression] = e[2] if e[0] == "call" else e[1:]
    used = any(_degree(a, name) for a in inner)
    return (-2 if e[0] == "^" else -1) if used else 0


def _cnexp(run: Execution, block: Block) -> None:
    graph = run.graph

    def prime(s: Statement, key: str) -> None:
        name, itself = str(s.names[0]), f"_{key}__itself"
        order = _order(s)
        symbol = graph.symbol(itself)
        with run.scope():  # functions that the rate calls read the state itself, as in NEURON
            run.values[run.new_local(name)] = symbol
            rate = run.expression(s.values[0])
        x, h = run.value(key), run.read("dt")
        if order is not None and order > 1:
            [slope] = graph.replaced([graph.slope(rate, itself)], {symbol: x})
            run.set(key, x * graph.call("exp", slope * h))
            return
        form = linear_form(rate, [itself])
        assert form is not None, name  # the degree is 0 or 1
        a, b = form.constant, form.coefficients.get(itself, graph.zero)
        a, b = without_quotients(a), without_quotients(b)
        if any(e.op.startswith(("scop_", "random_")) for e in postorder([b])):
            raise refuse("mod.random-number-factor", s.line, name=name)
        run.set(key, exponential_euler(x, a, b, h, graph.local, f"{key}_rate"))

    _in_block(run, block, prime)


def _in_block(run: Execution, block: Block, prime: Callable[[Statement, str], None]) -> None:
    def rule(s: Statement) -> None:
        prime(s, run.key(str(s.names[0]), run.index(s.names[1]), s.line))

    with run.scope({"prime": rule, "once": rule} if not run.is_repeated else {"prime": rule}):
        run.body(block.body)


def _evaluated(run: Execution, block: Block) -> dict[str, Node]:
    rates: dict[str, Node] = {}
    guard = run.guard

    def prime(s: Statement, key: str) -> None:
        if run.guard is not guard:
            raise refuse("mod.rate-in-if", s.line, name=s.names[0])
        rates[key] = run.expression(s.values[0])

    _in_block(run, block, prime)
    return rates


def _euler(run: Execution, block: Block) -> None:
    rates = _evaluated(run, block)
    steps = {key: run.read("dt") * rate for key, rate in rates.items()}
    for key, step in steps.items():
        run.set(key, run.value(key) + step)
    extrapolate(run, steps)


def _implicit(run: Execution, block: Block) -> None:
    keys = list[str]()

    def rates_here() -> Iterable[Node]:
        rates = _evaluated(run, block)
        keys[:] = rates
        yield from rates.values()
        written = ((key, run.values[key]) for key in run.writes)
        yield from (value for key, value in written if value.uses(key, f"_{key}__late"))

    for key in run.late(rates_here):  # in NEURON the next of several executions would use it
        shown = run.names.public.get(key, key)
        raise refuse("mod.set-after-use", block.line, shown=shown, name=block.name)
    old = [run.value(key) for key in keys]
    h = run.read("dt")

    def deviations(at: Sequence[Node]) -> list[Node]:
        with run.trial():
            for key, value in zip(keys, at, strict=True):
                run.values[key] = value
            rates = _evaluated(run, block)
        return [rates[key] - (x - before) / h for key, x, before in zip(keys, at, old, strict=True)]

    new = newton(run, keys, old, deviations)
    for key, value in zip(keys, new, strict=True):
        run.set(key, value)
    for _ in range(2):  # leaves variables at the end of the step; the last one sees what was set
        rates = _evaluated(run, block)
    extrapolate(run, {key: h * rates[key] for key in keys})


def newton(
    run: Execution,
    keys: Sequence[str],
    old: Sequence[Node],
    deviations: Callable[[Sequence[Node]], list[Node]],
) -> list[Node]:
    """Return the states at which all `deviations` are 0, by NEURON's iteration from `old`.

    `keys` are the states' names. ``deviations(states)`` returns one expression for each state.
    """
    graph = run.graph
    symbols = [graph.symbol(f"_{key}__try") for key in keys]
    names = [s.name for s in symbols]
    at = deviations(symbols)
    forms = [linear_form(e, names) for e in at]
    if all(f is not None for f in forms):
        matrix, right = {}, {}
        first = graph.replaced(at, dict(zip(symbols, old, strict=True)))
        for name, form, e in zip(names, forms, first, strict=True):
            assert form is not None
            row = {c: -x for c, x in form.coefficients.items() if x is not graph.zero}
            matrix[name] = {**row, name: row.get(name, graph.zero)}
            right[name] = e
        change = _system(matrix, right, graph)
        return [x + change[name] for x, name in zip(old, names, strict=True)]
    return _iterated(run, keys, list(old), at, symbols)


def _system(matrix: Entries, right: dict[str, Node], graph: Graph) -> dict[str, Node]:
    names = list(matrix)
    if any(matrix[name].get(name, graph.zero) is graph.zero for name in names):
        row_of = _matching(matrix, graph)
        matrix = {name: matrix[row_of[name]] for name in names}
        right = {name: right[row_of[name]] for name in names}
    return solved(matrix, right, graph.local)


def _matching(matrix: Entries, graph: Graph) -> dict[str, str]:
    """Return a different row for each unknown, in which the unknown's entry is not always 0.

    Augmenting paths find the matching. An unknown prefers the row in which its entry is the sum
    with the most terms. In a reaction scheme's equations this is the diagonal entry, the column's
    largest one.
    """
    terms = {
        name: {
            row: _terms(entries[name])
            for row, entries in matrix.items()
            if entries.get(name, graph.zero) is not graph.zero
        }
        for name in matrix
    }
    owners: dict[str, str] = {}

    def place(name: str, seen: set[str]) -> bool:
        rows = sorted(terms[name], key=lambda row: -terms[name][row])
        free = next((row for row in rows if row not in owners), None)
        if free is not None:
            owners[free] = name
            return True
        for row in rows:
            if row not in seen:
                seen.add(row)
                if place(owners[row], seen):
                    owners[row] = name
                    return True
        return False

    for name in sorted(matrix, key=lambda n: -max(terms[n].values(), default=0)):
        if not place(name, set()):
            raise refuse("mod.singular")
    return {name: row for row, name in owners.items()}


def _terms(e: Node) -> int:
    e = e.definition
    if e.op == "mul":
        return max(_terms(a) for a in e.args)
    return len(e.args) if e.op == "add" else 1


def _iterated(
    run: Execution, keys: Sequence[str], old: list[Node], at: list[Node], symbols: list[Node]
) -> list[Node]:
    """Return the states at which all deviations are 0, by Newton's iteration from `old`.

    `at` are the deviations, in terms of `symbols` for the states `keys`.
    """
    graph, size = run.graph, len(keys)
    if size > MAX_NEWTON:
        raise refuse("mod.newton-states", size=size, most=MAX_NEWTON)

    def where(values: Sequence[Node]) -> list[Node]:
        return graph.replaced(at, dict(zip(symbols, values, strict=True)))

    entries = [(i, j) for i in range(size) for j in range(size) if at[i].uses(symbols[j].name)]
    loop = run.open_loop(
        [*keys, *(f"{k}_off" for k in keys), "change", *(f"J{i}_{j}" for i, j in entries)],
        [*old, *where(old), graph.one, *[graph.zero] * len(entries)],
        ITERATIONS,
    )
    now = [graph.symbol(name) for name in loop.names]
    x, off, change = now[:size], now[size : 2 * size], now[2 * size]
    kept_slopes = dict(zip(entries, now[2 * size + 1 :], strict=True))
    renew = graph.less(graph.number(RENEW), change)
    fresh = _jacobian(graph, x, entries, where)
    used = {e: graph.local("_slope", graph.where(renew, fresh[e], kept_slopes[e])) for e in entries}
    matrix: Entries = {n: {} for n in keys}
    for (i, j), e in used.items():
        matrix[keys[i]][keys[j]] = -e
    for n in keys:
        matrix[n].setdefault(n, graph.zero)
    step = _system(matrix, dict(zip(keys, off, strict=True)), graph)
    new = [graph.local(f"{n}_next", a + step[n]) for n, a in zip(keys, x, strict=True)]
    off_new = [graph.local(f"{n}_off_next", e) for n, e in zip(keys, where(new), strict=True)]
    largest = graph.zero
    for n, a in zip(keys, x, strict=True):
        counts = graph.less(graph.symbol("_bound_size"), graph.call("abs", a))
        ratio = graph.where(counts, graph.call("abs", step[n] / a), graph.zero)
        largest = _maximum(graph, largest, ratio)
    worst = graph.zero
    for e in off_new:
        worst = _maximum(graph, worst, graph.call("abs", e))
    largest = graph.local("_largest", largest)
    done = graph.both(
        graph.less(largest, graph.symbol("_bound_change"), or_equal=True),
        graph.less(worst, graph.symbol("_bound_rest"), or_equal=True),
    )
    loop.values = [*new, *off_new, largest, *(used[e] for e in entries)]
    loop.go_on = graph.negated(done)
    loop.equations = where(x)
    return run.close_loop(loop)[:size]


def _jacobian(
    graph: Graph,
    x: Sequence[Node],
    entries: Sequence[tuple[int, int]],
    where: Callable[[Sequence[Node]], list[Node]],
) -> dict[tuple[int, int], Node]:
    """Return derivatives of the deviations ``where(x)`` by NEURON's central differences.

    `entries` lists the nonzero ones: row i, column j is deviation i's derivative by ``x[j]``.
    """
    slopes: dict[tuple[int, int], Node] = {}
    for j in range(len(x)):
        rows = [i for i, k in entries if k == j]
        if not rows:
            continue
        share = graph.number(SHARE) * graph.call("abs", x[j])
        step = graph.local("_step", _maximum(graph, share, graph.number(STEP)))
        high = where([a + step if k == j else a for k, a in enumerate(x)])
        low = where([a - step if k == j else a for k, a in enumerate(x)])
        for i in rows:
            slopes[i, j] = (high[i] - low[i]) / (step * 2)
    return slopes


def _maximum(graph: Graph, a: Node, b: Node) -> Node:
    return b if a is graph.zero else graph.where(graph.less(a, b), b, a)


def _equations(run: Execution, block: Block) -> None:
    residuals: list[Node] = []
    used, guard = _states_in(run, block), run.guard

    def deviations(at: Sequence[Node]) -> list[Node]:
        residuals.clear()

        def equation(s: Statement) -> None:
            if run.guard is not guard:
                raise refuse("mod.equation-in-if", s.line)
            old = {key: run.value(key) for key in used}  # which other statements read
            run.values |= dict(zip(used, at, strict=True))
            left, right = (run.expression(e) for e in s.values)
            run.values |= old
            residuals.append(right - left)

        with run.trial(), run.scope({"equation": equation}):
            run.body(block.body)
        if len(residuals) != len(used):
            raise refuse("mod.equations-states", block.line, count=len(residuals), count2=len(used))
        return list(residuals)

    new = newton(run, used, [run.value(key) for key in used], deviations)
    with run.scope({"equation": lambda s: None}):  # NEURON sets the states after the block
        run.body(block.body)
    for key, value in zip(used, new, strict=True):
        run.set(key, value)


def _states_in(run: Execution, block: Block) -> list[str]:
    named: set[str] = set()
    stack: list[object] = [e for s in all_of(block.body, "equation") for e in s.values]
    while stack:
        one = stack.pop()
        if isinstance(one, tuple):
            if one and one[0] == "name":
                named.add(str(one[1]))
            stack.extend(one)
    states = (name for name in run.file.states if name in named)
    return [key for name in states for key in run.names.all_elements(name)]
