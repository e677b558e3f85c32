"""The language of equations as a language of `Mechanism`: from a text to `Compiled`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from inspect import cleandoc

import numpy as np

from clhines.errors import InputError
from clhines.mechanisms import units
from clhines.mechanisms.ir.compiled import Body, Compiled
from clhines.mechanisms.ir.exact import ExpressionError
from clhines.mechanisms.ir.expressions import Node
from clhines.mechanisms.ir.forms import linear_form, linear_parts
from clhines.mechanisms.ir.program import HIDDEN, Argument, Net, Program, Quantity
from clhines.mechanisms.ir.singular import singular_point
from clhines.mechanisms.text.advance import advance
from clhines.mechanisms.text.equations import (
    Action,
    Equations,
    Scope,
    Statement,
    coupled_groups,
    cycle_of_names,
)
from clhines.mechanisms.text.parser import shortened
from clhines.mechanisms.text.reader import MAX_TEXT, Line, Reader, check_unused
from clhines.mechanisms.units import UnitError

EXPLICIT = ("euler", "rk2", "rk4")
IMPLICIT = ("sparse", "derivimplicit")
METHODS = EXPLICIT + IMPLICIT
MAX_SUBSTEPS, MAX_STATES, MAX_COUPLED = 1000, 500, 64
MAX_ENTRIES = 800  # of the matrix of an implicit method: 28 states that all depend on each other


def read(text: str) -> Equations:
    """Read the text of a mechanism; InputError with the line and the symbol that is wrong."""
    if len(text) > MAX_TEXT:
        raise InputError(f"the mechanism's text has {len(text)} letters; at most {MAX_TEXT}")
    reader = Reader(text)
    reader.read()
    return _meaning(reader)


def _meaning(r: Reader) -> Equations:
    for name, line in r.rates.items():
        if name not in r.states:
            hint = f"expected a line 'state {name} = ...'"
            raise r.fail(line, f"'{shortened(name)}' is no state; {hint}")
    for action, _ in r.events:
        if action.name not in r.states:
            raise r.fail(action, f"the event changes '{action.name}', which is no state")
    if not r.currents:
        raise InputError(f"mechanism {r.name} has no current; expected a line 'current i = ...'")
    if len(r.states) > MAX_STATES:
        raise InputError(f"mechanism {r.name} has {len(r.states)} states; at most {MAX_STATES}")
    statements = tuple(Statement(sort, name, r.parsed(line)) for sort, name, line in r.ordered)
    initial = {name: r.parsed(line) for name, line in r.states.items()}
    actions = tuple(Action(line.name, sign, r.parsed(line)) for line, sign in r.events)
    eq = Equations(
        graph=r.graph,
        name=r.name,
        kind=r.kind,
        parameters=tuple(
            Quantity(name, line.unit_name, r.default(name)) for name, line in r.parameters.items()
        ),
        states=tuple(Quantity(name, line.unit_name) for name, line in r.states.items()),
        statements=statements,
        initial=initial,
        actions=actions,
    )
    _check_names(r, eq)
    values = _check_values(r, eq)
    _check_units(r)
    rates, uses_currents = _rates(eq, values)
    method, stepped = _method(r, rates)
    return replace(
        eq, uses_currents=uses_currents, method=method, stepped=stepped, substeps=_substeps(r)
    )


# ---------------------------------------------------------------------------------------- checks


def _check_names(r: Reader, eq: Equations) -> None:
    written = {s.name: s.value for s in eq.statements if s.sort != "rate"}
    cycle = cycle_of_names(written)
    if cycle:
        line = r.named.get(cycle[0]) or r.currents[cycle[0]]
        chain = shortened(" -> ".join(cycle), 80)
        raise r.fail(line, f"'{cycle[0]}' is defined by itself ({chain})")
    expressions = [s.value for s in eq.statements] + [a.value for a in eq.actions]
    mask = 0
    for e in [*expressions, *eq.initial.values()]:
        mask |= e.mask
    check_unused(r, {name for name, bit in r.graph.bits.items() if bit & mask})


def _check_values(r: Reader, eq: Equations) -> Scope:
    """Evaluate every expression once, as it is written, and refuse what it cannot depend on."""
    scope, seen = Scope(eq), dict[Node, np.ndarray | None]()
    defaults = {q.name: q.default for q in eq.parameters}
    states = set(r.states)

    def checked(line: Line, e: Node, refused: set[str], what: str) -> None:
        value = r.attempt(line, lambda: scope.expression(e))
        wrong = sorted(name for name in refused if value.uses(name))
        if wrong:
            raise r.fail(line, f"{what} cannot depend on '{wrong[0]}', as '{line.name}' does")
        point = singular_point(value.definition, defaults, seen)
        if point is not None:
            raise r.fail(
                line,
                f"'{line.name}' is 0/0 at v = {point:.10g} in a way that is not known how to "
                "remove; expected a form with exp, tanh or sinh, or where(...) around it",
            )

    for statement, (_, _, line) in zip(eq.statements, r.ordered, strict=True):
        if statement.sort == "rate":
            checked(line, statement.value, {"noise", "weight"}, "a rate")
        else:
            refused = {"weight"} if statement.sort == "current" else set()
            checked(line, r.graph.symbol(statement.name), refused, "a current")
    for name, line in r.states.items():
        outside = states | {"t", "dt", "noise", "weight"}
        checked(line, eq.initial[name], outside, "an initial value")
    for action, (line, sign) in zip(eq.actions, r.events, strict=True):
        checked(line, action.value, {"v", "t", "dt", "noise"}, "the action of an event")
        if sign == "/" and scope.expression(action.value) is r.graph.zero:
            raise r.fail(line, f"'{line.name}' is not a finite real number after a division by 0")
    return scope


def _check_units(r: Reader) -> None:
    """Check the unit of each rate against that of its state."""
    for name, line in r.rates.items():
        if line.unit is None:
            continue
        state = r.states[name].unit or units.parse("1")
        try:
            rate = state.per_time()
        except UnitError as error:
            raise r.fail(line, f"'{line.name}': {error}; or leave its unit out") from error
        if line.unit.dimension != rate.dimension:
            more = "" if r.states[name].unit else f", or a unit of the state '{name}'"
            raise r.fail(
                line,
                f"'{line.name}' is in '{line.unit.text}'; expected {rate.canonical} or a multiple "
                f"of it{more}",
            )


# --------------------------------------------------------------------------------------- methods


def _rates(eq: Equations, base: Scope) -> tuple[dict[str, Node], bool]:
    """Rates with currents as they are, which do not change in a step, and whether any has one."""
    fixed = {name: eq.graph.symbol(f"_{name}") for name in eq.currents}
    scope = Scope(eq, fixed)
    rates = {name: scope.expression(e) for name, e in eq.rates.items()}
    names = [symbol.name for symbol in fixed.values()]
    return rates, any(rate.uses(*names) for rate in rates.values())


def _method(r: Reader, rates: dict[str, Node]) -> tuple[str, tuple[str, ...]]:
    """Return the method, and which states it takes."""
    nonlinear = [name for name, rate in rates.items() if linear_parts(rate, name) is None]
    uses = {name: sorted((e.free & rates.keys()) - {name}) for name, e in rates.items()}
    groups = coupled_groups(uses)
    line = r.settings.get("method")
    if line is None:
        _need_method(r, nonlinear, groups)
        return "", ()
    words = line.source.split()
    if not words or words[0] not in METHODS or words[1:] not in ([], ["all"]):
        raise r.fail(
            line,
            f"unknown method '{shortened(line.source)}'; expected {', '.join(METHODS)}, and 'all' "
            "after it if states that exponential Euler can take are to take it too",
        )
    method, own = words[0], {*nonlinear, *(name for group in groups for name in group)}
    taken = tuple(name for name in rates if name in own or len(words) > 1)
    if not taken:
        raise r.fail(
            line,
            f"no state takes 'method {method}', as each is linear in itself and takes exponential "
            f"Euler; expected 'method {method} all' or no such line",
        )
    if method in IMPLICIT and len(taken) > MAX_COUPLED:
        raise r.fail(line, f"{len(taken)} states together; 'method {method}' takes {MAX_COUPLED}")
    entries = sum(len(rates[name].free.intersection(taken)) for name in taken)
    if method in IMPLICIT and entries > MAX_ENTRIES:
        got = f"{entries} dependences of {len(taken)} states on each other"
        raise r.fail(line, f"{got}; 'method {method}' takes {MAX_ENTRIES}")
    if method == "sparse":
        _check_linear(r, rates, taken)
    return method, taken


def _need_method(r: Reader, nonlinear: list[str], groups: list[list[str]]) -> None:
    if nonlinear:
        name = nonlinear[0]
        raise r.fail(
            r.rates[name],
            f"state '{name}' is not linear in itself and no method is named; "
            "expected a line 'method derivimplicit', 'method euler', 'method rk2' or 'method rk4'",
        )
    if groups:
        names = sorted(groups[0], key=list(r.rates).index)
        listed = shortened(", ".join(f"'{name}'" for name in names), 80)
        raise r.fail(
            r.rates[names[0]],
            f"states {listed} depend on each other and no method is named; expected a line "
            "'method sparse', 'method derivimplicit', 'method euler', 'method rk2' or 'method rk4'",
        )


def _check_linear(r: Reader, rates: dict[str, Node], taken: tuple[str, ...]) -> None:
    for name in taken:
        if linear_form(rates[name], taken) is None:
            listed = shortened(", ".join(f"'{n}'" for n in taken), 80)
            raise r.fail(
                r.rates[name],
                f"'d{name}/dt' is not linear in {listed} together, which 'method sparse' needs; "
                "expected 'method derivimplicit'",
            )


def _substeps(r: Reader) -> int:
    line = r.settings.get("substeps")
    if line is None:
        return 1
    if not re.fullmatch(r"\d{1,9}", line.source) or not 1 <= int(line.source) <= MAX_SUBSTEPS:
        got = shortened(line.source)
        raise r.fail(line, f"substeps got '{got}'; expected 1 to {MAX_SUBSTEPS}")
    return int(line.source)


# ------------------------------------------------------------------------------- what it depends on


def is_constant(eq: Equations) -> bool:
    """Whether the current is linear in v with coefficients of parameters only, without states."""
    if eq.states:
        return False
    parts = linear_parts(eq.current(Scope(eq)), "v")
    allowed = {q.name for q in eq.parameters}
    return parts is not None and all(e.free <= allowed for e in parts)


__all__ = ["IMPLICIT", "METHODS", "is_constant", "read"]


@dataclass(frozen=True)
class Text:
    """The language of equations: there is nothing to a mechanism beside its text."""

    def cleaned(self, text: str) -> str:
        """Return a text as it is kept: without the indentation that all lines have."""
        return cleandoc(text).strip() + "\n"

    def compiled(self, text: str) -> Compiled:
        """Return the mechanism of a text; InputError with the line and the symbol that is wrong."""
        eq = read(text)
        bodies = {"initial": _body_of_initial, "current": _body_of_current}
        if eq.state_names:
            bodies["advance"] = _body_of_advance
        if eq.actions:
            bodies["receive"] = _body_of_event
        made = {}
        for name, make in bodies.items():
            try:
                made[name] = make(eq)
            except ExpressionError as error:
                what = "its functions"
                if name == "advance" and eq.method in IMPLICIT:
                    what = f"{len(eq.stepped)} states by 'method {eq.method}'"
                raise InputError(f"mechanism {eq.name}: {what} take {error}") from error
        program = _program(eq, made["current"])
        return Compiled(program, made, _about(eq), constant=is_constant(eq))


def _program(eq: Equations, current: Body) -> Program:
    parameters = tuple(Argument("parameter", q.name) for q in eq.parameters)

    def states(direction: str) -> tuple[Argument, ...]:
        return tuple(Argument("state", name, direction) for name in eq.state_names)

    v, dt = Argument("v", "v"), Argument("dt", "dt")
    noise = (Argument("noise", "noise"),) if current.results[0][2].uses("noise") else ()
    results = Argument("i", "i", "out", "i"), Argument("g", "g", "out", "g")
    blocks = {
        "initial": (v, *parameters, *states("out")),
        "current": (v, Argument("t", "now"), dt, *parameters, *states("in"), *noise, *results),
    }
    if eq.state_names:
        blocks["advance"] = (v, Argument("t", "begin"), dt, *parameters, *states("inout"))
    if eq.actions:
        weight = Argument("weight", "weight", symbol="weight")
        blocks["receive"] = (weight, *parameters, *states("inout"))
    net = Net(("weight",), summed=True) if eq.actions else None
    kept = (*eq.states, *(Quantity(n, "mV") for n in eq.state_names[len(eq.states) :]))
    return Program(eq.name, eq.kind, eq.parameters, kept, net=net, blocks=blocks)


# ---------------------------------------------------------------------------------------- blocks


def _body_of_initial(eq: Equations) -> Body:
    scope = Scope(eq)
    values = {name: scope.expression(e) for name, e in eq.initial.items()}
    values[HIDDEN] = eq.graph.symbol("v")
    writes = {name: values[name] for name in eq.state_names}
    return Body(writes=writes, comment="states at the start, at v")


def _body_of_current(eq: Equations) -> Body:
    graph = eq.graph
    intensity = graph.power(graph.symbol("dt"), graph.number(Fraction(-1, 2)))
    current = eq.current(Scope(eq, {"noise": graph.symbol("noise") * intensity}))
    unit, per = ("mA/cm2", "S/cm2") if eq.kind == "density" else ("nA", "uS")
    results = [("i", "i", current), ("g", "g", graph.slope(current, "v"))]
    return Body(results, comment=f"i in {unit}, outward; g = di/dv in {per}")


def _body_of_advance(eq: Equations) -> Body:
    step = advance(eq)
    writes = step.values | {s: eq.graph.symbol(s) for s in eq.state_names if s not in step.values}
    exact = [s for s in eq.rates if s not in eq.stepped]
    parts = [f"{', '.join(exact)} by exponential Euler"] if exact else []
    parts += [f"{', '.join(eq.stepped)} by {eq.method}"] if eq.stepped else []
    how = "; ".join(parts) or "nothing changes"
    how = how if len(how) <= 48 else how[:45] + "..."
    comment = f"one step; v is its last voltage, t its begin; {how}"
    return Body([], writes, step.loops, comment)


def _body_of_event(eq: Equations) -> Body:
    scope, writes = Scope(eq), dict[str, Node]()
    for action in eq.actions:
        value, old = scope.expression(action.value), eq.graph.symbol(action.state)
        changed = {"": value, "+": old + value, "-": old - value, "*": old * value}
        writes[action.state] = old / value if action.sign == "/" else changed[action.sign]
    comment = "what an event of this weight does"
    return Body([], writes, comment=comment, suffix="event")


# --------------------------------------------------------------------------------- what it is


def _about(eq: Equations) -> tuple[str, ...]:
    """Return lines that describe a mechanism."""
    lines = [f"{eq.name}: {eq.kind} mechanism"]
    for q in eq.parameters:
        lines.append(f"  parameter {q.name} = {q.default:g} {q.unit}".rstrip())
    for q in eq.states:
        how = "exponential Euler" if q.name in eq.rates else "changed by events only"
        if q.name in eq.stepped:
            how = eq.method
            if len(eq.stepped) > 1:
                others = ", ".join(s for s in eq.stepped if s != q.name)
                how += f" together with {shortened(others)}"
        lines.append(f"  state {q.name}{f' [{q.unit}]' if q.unit else ''}: {how}")
    lines.append(f"  currents: {', '.join(eq.currents)}")
    if eq.uses_currents:
        lines.append("  rates take the currents of before the voltage solve")
    if eq.substeps > 1:
        lines.append(f"  substeps: {eq.substeps}")
    if eq.actions:
        lines.append(f"  an event changes: {', '.join(a.state for a in eq.actions)}")
    return tuple(lines)
