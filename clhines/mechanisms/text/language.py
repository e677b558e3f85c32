"""The language of equations as a language of `Mechanism`: from a text to `Compiled`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from inspect import cleandoc

from clhines.errors import InputError
from clhines.mechanisms.ir.compiled import Body, Compiled, Loop, ion_arguments
from clhines.mechanisms.ir.exact import ExpressionError
from clhines.mechanisms.ir.expressions import Node
from clhines.mechanisms.ir.forms import adds_multiples, linear_parts
from clhines.mechanisms.ir.program import CAPACITANCE, HIDDEN, NOISE, Argument, Net, Program
from clhines.mechanisms.text import spikes
from clhines.mechanisms.text.advance import advance
from clhines.mechanisms.text.checks import IMPLICIT, checked
from clhines.mechanisms.text.parser import shortened
from clhines.mechanisms.text.propagator import exact_advance
from clhines.mechanisms.text.reader import Equations
from clhines.mechanisms.text.scope import Scope


@dataclass(frozen=True)
class Text:
    """The language of equations: there is nothing to a mechanism beside its text."""

    def cleaned(self, text: str) -> str:
        """Return a text as it is kept: without the indentation that all lines have."""
        text = re.sub(r"\A\s*\n", "\n", text)  # cleandoc is slow with many blank lines
        return cleandoc(text).strip() + "\n"

    def compiled(self, text: str) -> Compiled:
        """Return the mechanism of a text; InputError with the line and the symbol that is wrong."""
        eq = checked(text)
        bodies = {"initial": _body_of_initial}
        if eq.currents:
            bodies["current"] = _body_of_current
        if eq.kept or eq.rates:
            bodies["advance"] = _body_of_advance
        if eq.events:
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
        program = _program(eq, made)
        return Compiled(program, made, _about(eq, program), constant=_is_constant(eq))


def _program(eq: Equations, bodies: dict[str, Body]) -> Program:
    parameters = tuple(Argument("parameter", q.name) for q in eq.parameters)

    def states(direction: str) -> tuple[Argument, ...]:
        return tuple(Argument("state", q.name, direction) for q in eq.kept)

    v, dt = Argument("v", "v"), Argument("dt", "dt")

    def ions(block: str) -> list[Argument]:
        body = bodies[block]
        return ion_arguments(body, body.free([q.name for q in eq.kept]), eq.ion_uses)

    blocks = {"initial": (v, *parameters, *ions("initial"), *states("out"))}
    if current := bodies.get("current"):
        noise = (Argument("noise", "noise"),) if current.results[0][2].uses("noise") else ()
        results = [Argument("i", "i", "out", "i"), Argument("g", "g", "out", "g")]
        results += [
            Argument(role, n, "out") for role, n, _ in current.results if role == "ion_current"
        ]
        given = v, Argument("t", "now"), dt, *parameters, *ions("current")
        blocks["current"] = (*given, *states("in"), *noise, *results)
    if "advance" in bodies:
        given = v, Argument("t", "begin"), dt, *parameters, *ions("advance")
        stream = Argument("stream", NOISE), Argument("drawn", NOISE, "inout")
        blocks["advance"] = (*given, *stream[: 2 * eq.is_noisy], *states("inout"))
    if eq.events:
        weight = Argument("weight", "weight", symbol="weight")
        blocks["receive"] = (weight, *parameters, *states("inout"))
    net = Net(("weight",), summed=_adds(eq)) if eq.events else None
    return Program(
        eq.name, eq.kind, eq.parameters, eq.kept, ions=eq.ion_uses, net=net, blocks=blocks,
        built_in=(CAPACITANCE,) if eq.spike else (), spike=eq.spike,
        random=(NOISE,) if eq.is_noisy else (),
    )  # fmt: skip


def _adds(eq: Equations) -> bool:
    """Whether an event does no more than add multiples of its weight to states."""
    known = {q.name for q in eq.parameters}
    return adds_multiples(_body_of_event(eq).writes, "weight", known)


def _is_constant(eq: Equations) -> bool:
    """Whether the current is linear in v with coefficients of parameters only, without states."""
    parts = None if eq.states or eq.spike or eq.ions else linear_parts(Scope(eq).current(), "v")
    allowed = {q.name for q in eq.parameters}
    return parts is not None and all(e.free <= allowed for e in parts)


# ---------------------------------------------------------------------------------------- blocks


def _body_of_initial(eq: Equations) -> Body:
    scope = Scope(eq)
    writes = {name: scope.expression(line.value) for name, line in eq.states.items()}
    if eq.keeps_v:
        writes[HIDDEN] = eq.graph.symbol("v")
    return _with_ions(eq, spikes.begun(eq, writes), [], "states at the start, at v")


def _with_ions(eq: Equations, values: dict[str, Node], loops: list[Loop], comment: str) -> Body:
    """Return a block that sets states, of which concentrations are given to ions."""
    results = [("ion", name, e) for name, e in values.items() if name in eq.outside]
    writes = {name: e for name, e in values.items() if name not in eq.outside}
    return Body(results, writes, loops, comment)


def _body_of_current(eq: Equations) -> Body:
    graph = eq.graph
    intensity = graph.power(graph.symbol("dt"), graph.number(Fraction(-1, 2)))
    scope = Scope(eq, {"noise": graph.symbol("noise") * intensity})
    i, g = spikes.current(eq, scope.current())
    unit, per = ("mA/cm2", "S/cm2") if eq.kind == "density" else ("nA", "uS")
    results = [("i", "i", i), ("g", "g", g)]
    for name in (n for n in eq.currents if n in eq.outside):
        value = scope.value(name)
        results += [("ion", name, value), ("ion_current", name, graph.slope(value, "v"))]
    return Body(results, comment=f"i in {unit}, outward; g = di/dv in {per}")


def _body_of_advance(eq: Equations) -> Body:
    exact = eq.method == "exact"
    values, loops, drawn = dict[str, Node](), list[Loop](), eq.graph.zero
    if exact:
        values = exact_advance(eq, spikes.held_steps(eq))
    else:
        values, loops, drawn = advance(eq)
    writes = values | {q.name: eq.graph.symbol(q.name) for q in eq.kept if q.name not in values}
    writes = spikes.advanced(eq, writes)
    alone = [s for s in eq.rates if s not in eq.stepped]
    parts = [f"{', '.join(alone)} by exponential Euler"] if alone else []
    parts += [f"{', '.join(eq.stepped)} by {eq.method}"] if eq.stepped else []
    how = shortened("; ".join(parts) or "nothing changes", 48)
    comment = f"one step; v is its last voltage, t its begin; {how}"
    body = _with_ions(eq, writes, loops, comment)
    if drawn is not eq.graph.zero:
        given = eq.graph.symbol(f"{NOISE}__drawn"), eq.graph.one, drawn
        body.results.append(("drawn", NOISE, eq.graph.call("random_count", *given)))
    return body


def _body_of_event(eq: Equations) -> Body:
    scope, symbol = Scope(eq), eq.graph.symbol
    writes = {n: spikes.acted(scope, line, symbol(n)) for n, line in eq.events.items()}
    return Body([], writes, comment="what an event of this weight does", suffix="event")


# --------------------------------------------------------------------------------- what it is


def _about(eq: Equations, program: Program) -> tuple[str, ...]:
    """Return lines that describe a mechanism."""
    lines = program.heading()
    for q in eq.kept:
        if q.name not in eq.states:
            continue
        how = "exponential Euler" if q.name in eq.rates else "changed by events only"
        if q.name in eq.resets and q.name not in eq.rates:
            how = "changed by spikes" + (" and events" if q.name in eq.events else " only")
        if q.name in eq.stepped:
            how = eq.method
            if len(eq.stepped) > 1:
                others = ", ".join(s for s in eq.stepped if s != q.name)
                how += f" together with {shortened(others)}"
        lines.append(f"  state {q.name}{f' [{q.unit}]' if q.unit else ''}: {how}")
    lines += program.of_ions
    lines.append(f"  currents: {', '.join(eq.currents) or 'none'}")
    if eq.uses_currents:
        lines.append("  rates take the currents of before the voltage solve")
    if eq.spike:
        given = {"spike": "v >", "reset": "v =", "refractory": ""}
        told = (f"{key} {given[key]} {line.source}" for key, line in eq.spiking.items())
        lines.append("  " + "; ".join(" ".join(one.split()) for one in told))
    if eq.substeps > 1:
        lines.append(f"  substeps: {eq.substeps}")
    if eq.events:
        lines.append(f"  an event changes: {', '.join(eq.events)}")
    return tuple(lines)
