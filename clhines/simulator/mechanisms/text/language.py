"""Compile texts in the language of equations; compute steps of their states.

A step executes the statements in the text's order, as NEURON does. Exponential Euler advances a
state whose rate is linear in the state; lines below see the new value. A method advances all its
states together, in the line of their first rate. With exponential Euler and implicit methods rates
use values at the end of the step, like the voltage's; with explicit methods values at its begin.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from inspect import cleandoc

from clhines.core.errors import InputError
from clhines.simulator.mechanisms.ir.compiled import Body, Compiled, Loop, ion_arguments
from clhines.simulator.mechanisms.ir.elimination import Entries, exponential_euler, solved
from clhines.simulator.mechanisms.ir.exact import ExpressionError
from clhines.simulator.mechanisms.ir.expressions import Node
from clhines.simulator.mechanisms.ir.forms import adds_multiples, linear_form, linear_parts
from clhines.simulator.mechanisms.ir.program import (
    CAPACITANCE,
    HELD_STEPS,
    HIDDEN,
    NOISE,
    Argument,
    Net,
    Program,
    Quantity,
)
from clhines.simulator.mechanisms.text import spikes
from clhines.simulator.mechanisms.text.checks import IMPLICIT, checked
from clhines.simulator.mechanisms.text.parser import shortened
from clhines.simulator.mechanisms.text.propagator import exact_advance
from clhines.simulator.mechanisms.text.reader import CURRENT_UNITS, Equations
from clhines.simulator.mechanisms.text.scope import Scope

MAX_PASSES = 20  # in Newton's iteration
_HALF = Fraction(1, 2)


def advance(eq: Equations) -> tuple[dict[str, Node], list[Loop], Node]:
    """Return the new states, loops that compute them, and how many random words noise draws."""
    step = _StepEquations(eq)
    return step.new, step.loops, step.drawn


class _StepEquations:
    """The equations of a step.

    `new` has the states' values after the step, `loops` compute these values, and `drawn` counts
    the random words that noise has drawn.
    """

    def __init__(self, eq: Equations) -> None:
        self.eq, self.graph = eq, eq.graph
        self.h, self.t = self.graph.symbol("dt"), self.graph.symbol("t")
        self.new, self.loops, self.drawn = dict[str, Node](), list[Loop](), eq.graph.zero
        before = {self._before(name): e for name, e in self._currents().items()}
        values = {"t": self.t + self.h}
        values |= {name: self._before(name) for name in eq.currents if eq.uses_currents}
        self.scope = Scope(eq, values)
        for line in eq.ordered:
            if line.sort == "name":
                self.scope.assign(line.name)
            elif line.sort == "rate" and line.name not in eq.stepped:
                self._exponential(line.name, line.value)
            elif line.sort == "rate" and line.name == eq.stepped[0]:
                methods = {"sparse": self._sparse, "derivimplicit": self._newton}
                methods.get(eq.method, self._explicit)()
        if before:
            self._replace(before)
            self.new[HIDDEN] = self.graph.symbol("v")

    def _before(self, name: str) -> Node:
        return self.graph.symbol(f"_{name}__before")

    def _replace(self, values: dict[Node, Node]) -> None:
        roots = [*self.new.values(), *(e for loop in self.loops for e in loop.nodes())]
        replacements = dict(zip(roots, self.graph.replaced(roots, values), strict=True))
        self.new = {name: replacements[e] for name, e in self.new.items()}
        self.loops = [loop.mapped(lambda e: replacements[e]) for loop in self.loops]

    def _currents(self) -> dict[str, Node]:
        if not self.eq.uses_currents:
            return {}
        half = self.h * self.graph.number(_HALF)
        before = Scope(self.eq, {"v": self.graph.symbol(HIDDEN), "t": self.t + half})
        return {name: before.value(name) for name in self.eq.currents}

    def _set(self, values: dict[str, Node]) -> None:
        self.new |= values
        for name, value in values.items():
            self.scope.values[name] = self.scope.named(f"_{name}_new", value)

    def _exponential(self, name: str, rate: Node) -> None:
        noisy = linear_parts(self.scope.expression(rate, keep=False), "noise")
        assert noisy is not None
        parts = linear_parts(noisy[0], name)
        assert parts is not None
        x, named = self.graph.symbol(name), self.scope.named
        new = exponential_euler(x, *parts, self.h, named, f"_b_{name}")
        if noisy[1] is not self.graph.zero:
            new += noisy[1] * self._noise(name, parts[1])
        self._set({name: new})

    def _noise(self, name: str, b: Node) -> Node:
        """Return the change in a state `name` by white noise with intensity 1 in a step h.

        The state's rate is linear with the slope `b`, as in ``dx/dt = b*x + noise``. The change is
        a normal number with variance ``(exp(2*b*h) - 1)/(2*b)``: exact (Gillespie 1996).
        """
        graph, named, two = self.graph, self.scope.named, self.graph.number(2)
        variance = self.h
        if b is not graph.zero:
            variance = graph.call("weight", named(f"_b2_{name}", two * b), self.h)
        stream = (graph.symbol(f"{NOISE}__{what}") for what in ("stream", "drawn"))
        words = *stream, graph.one, self.drawn
        number = named(f"_noise_{name}", graph.call("random_normal", *words))
        self.drawn = named(f"_drawn_{name}", self.drawn + graph.call("random_used", *words))
        return graph.sqrt(variance) * number

    def _rates(self, at: dict[str, Node], t: Node) -> dict[str, Node]:
        """Return the rates of the method's states if these states have the values `at`, at time t.

        Other names have their values in this line.
        """
        eq, moving = self.eq, {*at, "t"}
        fixed = Scope(eq, {name: self.graph.symbol(f"_{name}") for name in eq.currents})
        names = {
            name: value
            for name, value in self.scope.values.items()
            if name in eq.currents or not fixed.value(name).uses(*moving)
        }
        inner = Scope(eq, {**names, **at, "t": t})
        return {name: inner.expression(eq.rates[name].value) for name in eq.stepped}

    def _explicit(self) -> None:
        """Advance the method's states by Euler's, the midpoint or the Runge-Kutta method."""
        graph, h, named = self.graph, self.h, self.scope.named
        old = {name: graph.symbol(name) for name in self.eq.stepped}
        half = graph.number(_HALF) * h
        steps = {"euler": [], "rk2": [half], "rk4": [half, half, h]}[self.eq.method]
        k = [self._stage(1, old, self.t)]
        for number, step in enumerate(steps, 2):
            at = {n: named(f"_y{number}_{n}", x + step * k[-1][n]) for n, x in old.items()}
            k.append(self._stage(number, at, self.t + step))
        if len(k) < 4:
            self._set({n: x + h * k[-1][n] for n, x in old.items()})
            return
        sixth, two = named("_sixth", graph.number(Fraction(1, 6)) * h), graph.number(2)
        slopes = {n: k[0][n] + two * (k[1][n] + k[2][n]) + k[3][n] for n in old}
        self._set({n: x + sixth * slopes[n] for n, x in old.items()})

    def _stage(self, number: int, at: dict[str, Node], t: Node) -> dict[str, Node]:
        rates = self._rates(at, t)
        return {n: self.scope.named(f"_k{number}_{n}", rate) for n, rate in rates.items()}

    def _sparse(self) -> None:
        """Solve ``(1 - h*J) (x_new - x) = h*(a + J*x)`` for rates ``a + J*x_new``.

        Like NEURON, solve for the change: at rest it is exactly 0, and rounding errors do not add
        up.
        """
        old = {name: self.graph.symbol(name) for name in self.eq.stepped}
        rates = self._rates(old, self.t + self.h)
        matrix, right = Entries(), {}
        for row, rate in rates.items():
            form = linear_form(rate, self.eq.stepped)
            assert form is not None
            matrix[row] = self._row(row, form.coefficients)
            right[row] = self.h * rate
        change = solved(matrix, right, self.scope.named)
        self._set({name: old[name] + change[name] for name in change})

    def _row(self, row: str, slopes: dict[str, Node]) -> dict[str, Node]:
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
        bounds = {n: relative * graph.call("abs", after[n]) + absolute for n in names}
        small = (graph.less(graph.call("abs", change[n]), bounds[n], True) for n in names)
        self.loops.append(
            Loop(
                names=[*now.values()],
                ends=[*new.values()],
                starts=[graph.symbol(n) for n in names],
                values=[*after.values()],
                go_on=graph.where(reduce(graph.both, small), graph.zero, graph.one),
                most=MAX_PASSES,
                equations=[*right.values()],
            )
        )
        for n in names:
            self.new[n] = self.scope.values[n] = graph.symbol(new[n])


@dataclass(frozen=True)
class Text:
    def cleaned(self, text: str) -> str:
        text = re.sub(r"\A\s*\n", "\n", text)  # cleandoc is slow with many blank lines
        return cleandoc(text).strip() + "\n"

    def compiled(self, text: str) -> Compiled:
        """Compile a text; an InputError names the line and the symbol."""
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
        inputs = v, Argument("t", "now"), dt, *parameters, *ions("current")
        blocks["current"] = (*inputs, *states("in"), *noise, *results)
    if "advance" in bodies:
        inputs = v, Argument("t", "begin"), dt, *parameters, *ions("advance")
        stream = Argument("stream", NOISE), Argument("drawn", NOISE, "inout")
        blocks["advance"] = (*inputs, *stream[: 2 * eq.is_noisy], *states("inout"))
    if eq.events:
        weight = Argument("weight", "weight", symbol="weight")
        blocks["receive"] = (weight, *parameters, *states("inout"))
    net = Net(("weight",), summed=_adds(eq)) if eq.events else None
    return Program(
        eq.name, eq.kind, eq.parameters, eq.kept, ions=eq.ion_uses, net=net, blocks=blocks,
        outputs=tuple(Quantity(name, CURRENT_UNITS[eq.kind]) for name in _outputs(eq)),
        built_in=tuple(q.name for q in eq.parameters if q.name in (CAPACITANCE, HELD_STEPS)),
        spike=eq.spike,
        random=(NOISE,) if eq.is_noisy else (),
    )  # fmt: skip


def _outputs(eq: Equations) -> tuple[str, ...]:
    """Return the text's variables for records: ``i``, if a spike replaces the current."""
    names = {q.name for q in (*eq.parameters, *eq.kept)}
    return ("i",) if eq.spike and eq.currents and "i" not in names else ()


def _adds(eq: Equations) -> bool:
    return adds_multiples(_body_of_event(eq).writes, "weight", {q.name for q in eq.parameters})


def _is_constant(eq: Equations) -> bool:
    parts = None if eq.states or eq.spike or eq.ions else linear_parts(Scope(eq).current(), "v")
    allowed = {q.name for q in eq.parameters}
    return parts is not None and all(e.free <= allowed for e in parts)


def _body_of_initial(eq: Equations) -> Body:
    scope = Scope(eq)
    writes = {name: scope.expression(line.value) for name, line in eq.states.items()}
    if eq.keeps_v:
        writes[HIDDEN] = eq.graph.symbol("v")
    return _with_ions(eq, spikes.begun(eq, writes), [], "initial states, at voltage v")


def _with_ions(eq: Equations, values: dict[str, Node], loops: list[Loop], comment: str) -> Body:
    """Return the body of a block that sets states and, as results, ion concentrations.

    `values` has both by name, `loops` compute them, `comment` describes the block.
    """
    results = [("ion", name, e) for name, e in values.items() if name in eq.outside]
    writes = {name: e for name, e in values.items() if name not in eq.outside}
    return Body(results, writes, loops, comment)


def _body_of_current(eq: Equations) -> Body:
    graph = eq.graph
    intensity = graph.power(graph.symbol("dt"), graph.number(Fraction(-1, 2)))
    scope = Scope(eq, {"noise": graph.symbol("noise") * intensity})
    i, g, recorded = spikes.current(eq, scope.current())
    unit, per = ("mA/cm2", "S/cm2") if eq.kind == "density" else ("nA", "uS")
    results = [("i", "i", i), ("g", "g", g)]
    for name in (n for n in eq.currents if n in eq.outside):
        value = scope.value(name)
        results += [("ion", name, value), ("ion_current", name, graph.slope(value, "v"))]
    writes = dict.fromkeys(_outputs(eq), recorded)
    return Body(results, writes, comment=f"i in {unit}, outward; g = di/dv in {per}")


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
    body = _with_ions(eq, writes, loops, f"advance a step; v is at its end, t at its begin; {how}")
    if drawn is not eq.graph.zero:
        words = eq.graph.symbol(f"{NOISE}__drawn"), eq.graph.one, drawn
        body.results.append(("drawn", NOISE, eq.graph.call("random_count", *words)))
    return body


def _body_of_event(eq: Equations) -> Body:
    scope, symbol = Scope(eq), eq.graph.symbol
    writes = {n: x.acted(symbol(n), scope.expression(x.value)) for n, x in eq.events.items()}
    return Body([], writes, comment="states after an event with this weight", suffix="event")


def _about(eq: Equations, program: Program) -> tuple[str, ...]:
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
        signs = {"spike": "v >", "reset": "v =", "refractory": ""}
        parts = (f"{key} {signs[key]} {line.source}" for key, line in eq.spiking.items())
        lines.append("  " + "; ".join(" ".join(one.split()) for one in parts))
    if eq.events:
        lines.append(f"  an event changes: {', '.join(eq.events)}")
    return tuple(lines)
