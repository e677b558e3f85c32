"""Check a text for circular definitions and wrong dependences; find the states' methods."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import numpy as np

from clhines.core.errors import InputError
from clhines.simulator.common import units
from clhines.simulator.common.units import UnitError
from clhines.simulator.mechanisms.ir.expressions import Node
from clhines.simulator.mechanisms.ir.forms import linear_form, linear_parts
from clhines.simulator.mechanisms.ir.singular import singular_point
from clhines.simulator.mechanisms.text.parser import shortened
from clhines.simulator.mechanisms.text.propagator import check_exact
from clhines.simulator.mechanisms.text.reader import ION_NAMES, Equations
from clhines.simulator.mechanisms.text.scope import Scope, coupled
from clhines.simulator.mechanisms.text.spikes import check_spike
from clhines.simulator.mechanisms.text.statements import Line

IMPLICIT = ("sparse", "derivimplicit")
METHODS = ("euler", "rk2", "rk4", *IMPLICIT, "exact")
MAX_TEXT, MAX_STATES, MAX_COUPLED = 100_000, 500, 64
MAX_ENTRIES = 800  # entries in an implicit method's matrix: 28 states that all depend on each other


def checked(text: str) -> Equations:
    """Read and check a mechanism's text; an InputError names the line and the symbol."""
    if len(text) > MAX_TEXT:
        raise InputError(f"the mechanism's text has {len(text)} letters; at most {MAX_TEXT}")
    eq = Equations(text)
    eq.read()
    for name, line in eq.rates.items():
        if name not in eq.states:
            hint = f"expected a line 'state {name} = ...'"
            raise eq.fail(line, f"'{shortened(name)}' is no state; {hint}")
    for line in (*eq.events.values(), *eq.resets.values()):
        if line.name not in eq.states:
            raise eq.fail(line, f"the {line.sort} changes '{line.name}', which is no state")
    check_spike(eq)
    _check_ions(eq)
    if not eq.currents and eq.states.keys().isdisjoint(eq.outside):
        raise InputError(f"mechanism {eq.name} has no current; expected a line 'current i = ...'")
    if len(eq.states) > MAX_STATES:
        raise InputError(f"mechanism {eq.name} has {len(eq.states)} states; at most {MAX_STATES}")
    for line in _expressions(eq):
        eq.parse(line)
    for use in eq.ion_uses:
        if not use.reads and not use.writes:
            ion_names = ", ".join(n.format(use.name) for n in ION_NAMES)
            raise eq.fail(eq.ions[use.name], f"expected one of {ion_names} in the text")
    _check_names(eq)
    _check_values(eq)
    _check_units(eq)
    fixed = {name: eq.graph.symbol(f"_{name}") for name in eq.currents}  # as they are in a step
    scope = Scope(eq, fixed)
    rates = {name: scope.expression(line.value) for name, line in eq.rates.items()}
    names = [symbol.name for symbol in fixed.values()]
    eq.uses_currents = eq.keeps_v = any(rate.uses(*names) for rate in rates.values())
    _choose_method(eq, rates)
    _check_noise(eq, rates)
    return eq


def _check_ions(eq: Equations) -> None:
    for name, sort in eq.outside.items():
        line = eq.defined.get(name)
        if line is not None and line.sort != sort:
            expected = f"'{sort} {name} = ...'" if sort else "another name"
            raise eq.fail(line, f"'{name}' is a variable of an ion; expected {expected}")
        if line is not None and sort == "state" and line.unit:
            if line.unit.dimension != units.parse("mM").dimension:
                raise eq.fail(line, f"'{name}' is in '{line.unit.text}'; expected mM")
    for line in (*eq.events.values(), *eq.resets.values()):
        if line.name in eq.outside:
            raise eq.fail(line, f"the {line.sort} changes '{line.name}', which is of an ion")
    if eq.ions and eq.spiking:
        first = next(iter(eq.ions.values()))
        raise eq.fail(first, "a text with 'spike:' has no ions; expected them in another one")


def _expressions(eq: Equations) -> tuple[Line, ...]:
    return (*eq.ordered, *eq.states.values(), *eq.events.values(), *eq.resets.values())


def _check_names(eq: Equations) -> None:
    uses = {name: sorted(e.free & eq.written.keys()) for name, e in eq.written.items()}
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        circle = error.args[1][:0:-1]
        first = min(range(len(circle)), key=lambda k: eq.defined[circle[k]].number)
        circle = [*circle[first:], *circle[: first + 1]]
        chain = shortened(" -> ".join(circle), 80)
        problem = f"'{circle[0]}' is defined by itself ({chain})"
        raise eq.fail(eq.defined[circle[0]], problem) from error
    mask = 0
    for line in _expressions(eq):
        mask |= line.value.mask
    eq.check_unused({name for name, bit in eq.graph.bits.items() if bit & mask})


def _check_values(eq: Equations) -> None:
    scope, cache = Scope(eq), dict[Node, np.ndarray | None]()
    defaults = {q.name: q.default for q in eq.parameters}
    totals = {f"i{ion}" for ion in eq.ions} - {*eq.defined}  # the node's currents
    refused = {
        "name": (set[str](), "a current"),
        "current": ({"weight", *totals}, "a current"),
        "rate": ({"weight"}, "a rate"),
        "state": ({*eq.states, *totals, "t", "dt", "noise", "weight"}, "an initial value"),
        "event": ({"v", "t", "dt", "noise", *eq.outside}, "the action of an event"),
        "reset": ({"t", "dt", "noise", "weight"}, "a reset"),
    }

    def check(line: Line) -> None:
        node = eq.graph.symbol(line.name) if line.sort in ("name", "current") else line.value
        value = eq.attempt(line, lambda: scope.expression(node))
        names, what = refused[line.sort]
        wrong = sorted(name for name in names if value.uses(name))
        if wrong:
            raise eq.fail(line, f"{what} cannot depend on '{wrong[0]}', as '{line.shown}' does")
        point = singular_point(value.definition, defaults, cache)
        if point is not None:
            raise eq.fail(
                line,
                f"'{line.shown}' is 0/0 at v = {point:.10g} in a way that is not known how to "
                "remove; expected a form with exp, tanh or sinh, or where(...) around it",
            )
        if line.sign == "/" and value is eq.graph.zero:
            raise eq.fail(line, f"'{line.name}' is not a finite real number after a division by 0")

    for line in _expressions(eq):
        check(line)


def _check_units(eq: Equations) -> None:
    for name, line in eq.rates.items():
        if line.unit is None:
            continue
        state = eq.states[name].unit
        try:
            rate = (state or units.parse("1")).per_time()
        except UnitError as error:
            raise eq.fail(line, f"'{line.shown}': {error}; or leave its unit out") from error
        if line.unit.dimension != rate.dimension:
            more = "" if state else f", or a unit of the state '{name}'"
            raise eq.fail(
                line,
                f"'{line.shown}' is in '{line.unit.text}'; expected {rate.canonical} or a multiple "
                f"of it{more}",
            )


def _choose_method(eq: Equations, rates: dict[str, Node]) -> None:
    nonlinear = [name for name, rate in rates.items() if linear_parts(rate, name) is None]
    circles = coupled(rates)
    line = eq.settings.get("method")
    if line is None:
        _need_method(eq, nonlinear, circles)
        return
    words = line.source.split()
    if not words or words[0] not in METHODS or words[1:] not in ([], ["all"]):
        raise eq.fail(
            line,
            f"unknown method '{shortened(line.source)}'; expected {', '.join(METHODS)}, and 'all' "
            "after it if states that exponential Euler can take are to take it too",
        )
    if words[0] == "exact":
        check_exact(eq, line)
        eq.method, eq.stepped, eq.uses_currents = "exact", tuple(rates), False
        eq.keeps_v = any(Scope(eq).expression(eq.rates[name].value).uses("v") for name in rates)
        return
    method, needing = words[0], {*nonlinear, *circles}
    stepped = tuple(name for name in rates if name in needing or len(words) > 1)
    if not stepped:
        raise eq.fail(
            line,
            f"no state takes 'method {method}', as each is linear in itself and takes exponential "
            f"Euler; expected 'method {method} all' or no such line",
        )
    if method in IMPLICIT and len(stepped) > MAX_COUPLED:
        got = f"{len(stepped)} states together"
        raise eq.fail(line, f"{got}; 'method {method}' takes {MAX_COUPLED}")
    entries = sum(len(rates[name].free.intersection(stepped)) for name in stepped)
    if method in IMPLICIT and entries > MAX_ENTRIES:
        got = f"{entries} dependences of {len(stepped)} states on each other"
        raise eq.fail(line, f"{got}; 'method {method}' takes {MAX_ENTRIES}")
    for name in stepped if method == "sparse" else ():
        if linear_form(rates[name], stepped) is None:
            raise eq.fail(
                eq.rates[name],
                f"'d{name}/dt' is not linear in {_listed(stepped)} together, which 'method sparse' "
                "needs; expected 'method derivimplicit'",
            )
    eq.method, eq.stepped = method, stepped


def _check_noise(eq: Equations, rates: dict[str, Node]) -> None:
    """Refuse noise in rates, except as a term that exponential Euler can integrate."""
    for name, rate in rates.items():
        if not rate.uses("noise"):
            continue
        parts = linear_parts(rate, "noise")
        if parts is None or parts[1].uses(*eq.states) or name in eq.stepped or eq.uses_currents:
            raise eq.fail(
                eq.rates[name],
                f"noise in 'd{name}/dt' is no term that exponential Euler takes; expected "
                "'... + c*noise', c without states and currents, of a state without a method",
            )
        eq.is_noisy = True


def _need_method(eq: Equations, nonlinear: list[str], circles: dict[str, list[str]]) -> None:
    if nonlinear:
        name = nonlinear[0]
        raise eq.fail(
            eq.rates[name],
            f"state '{name}' is not linear in itself and no method is named; "
            "expected a line 'method derivimplicit', 'method euler', 'method rk2' or 'method rk4'",
        )
    for name, circle in circles.items():
        raise eq.fail(
            eq.rates[name],
            f"states {_listed(circle)} depend on each other and no method is named; expected a "
            "line 'method sparse', 'method derivimplicit', 'method euler', 'method rk2' or "
            "'method rk4'",
        )


def _listed(names: list[str] | tuple[str, ...]) -> str:
    return shortened(", ".join(f"'{name}'" for name in names), 80)
