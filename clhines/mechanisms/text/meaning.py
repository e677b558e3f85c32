"""From statements to `Equations`: what may depend on what, and which method takes which state."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from clhines.errors import InputError
from clhines.mechanisms.ir.expressions import Node
from clhines.mechanisms.ir.forms import linear_form, linear_parts
from clhines.mechanisms.ir.program import Quantity
from clhines.mechanisms.ir.singular import singular_point
from clhines.mechanisms.text import units
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
from clhines.mechanisms.text.units import UnitError

EXPLICIT = ("euler", "rk2", "rk4")
IMPLICIT = ("sparse", "derivimplicit")
METHODS = EXPLICIT + IMPLICIT
MAX_SUBSTEPS, MAX_STATES, MAX_COUPLED = 1000, 500, 64
MAX_ENTRIES = 800  # of the matrix of an implicit method: 28 states that all depend on each other


def read(text: str) -> Equations:
    """Read the text of a mechanism.

    Raises
    ------
    InputError
        With the line and the symbol that is wrong.
    """
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
        eq,
        uses_currents=uses_currents,
        method=method,
        stepped=stepped,
        substeps=_substeps(r),
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
