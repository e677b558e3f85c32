"""The functions of one mechanism as source, in OpenCL or NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from clhines.mechanisms.emit.helpers import helpers
from clhines.mechanisms.emit.printer import Printer, folded, safe, vector, wrapped
from clhines.mechanisms.ir.blocks import Block, make_block
from clhines.mechanisms.ir.expressions import Node
from clhines.mechanisms.ir.simplify import Constants, constant_symbols
from clhines.mechanisms.text.advance import Advance, Newton, advance
from clhines.mechanisms.text.equations import HIDDEN, Equations, Scope

MAX_PASSES = 20  # of Newton's iteration
# relative and absolute change after which it ends; convergence is quadratic
TOLERANCE = {"double": (1e-9, 1e-14), "numpy": (1e-9, 1e-14), "float": (1e-4, 1e-8)}
STEP = "_h"  # length of a substep


@dataclass(frozen=True)
class _Function:
    """One function: what it takes, and which states it changes in place."""

    suffix: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    changes: tuple[str, ...] = ()
    comment: str = ""
    moving: tuple[str, ...] = ()  # arguments and states that change inside


class Source:
    """The functions of one mechanism in one language: ``double``, ``float`` or ``numpy``.

    Parameters
    ----------
    equations : Equations
        With a graph of its own.
    real : str
    width : int
        Instances that the functions take at a time, in vectors.
    single : sequence of str, optional
        Parameters that are one number for all instances. Where it is given, expensive expressions
        of these alone are worked out by a function ``NAME_constants``, for all steps.
    """

    def __init__(
        self, equations: Equations, real: str, width: int = 1, single: Sequence[str] | None = None
    ) -> None:
        self.eq, self.real, self.width = equations, real, width
        self.graph = equations.graph
        self.prefix = equations.name if width == 1 else f"{equations.name}__v{width}"
        self.parameters = tuple(safe(q.name) for q in equations.parameters)
        self.states = tuple(safe(name) for name in equations.state_names)
        self.single = [q.name for q in equations.parameters if q.name in (single or ())]
        self.constants: Constants | None = None
        if single is not None:
            self.constants = Constants(self.graph, [*self.single, "dt"])
        self.loops = equations.substeps > 1

    def parts(self) -> tuple[str, tuple[str, ...]]:
        """Return functions for instances in groups, helpers first, and names of the constants.

        One at a time: constants and event; `width` at a time: current and advance.
        """
        functions = [self._current, *([self._advance] if self.states else [])]
        for function in functions:
            function()  # finds the constants, which all functions take
        plain = Source(self.eq, self.real)
        one = [self._constants(plain)] if self._worked_out() else []
        one += [plain._event()] if self.eq.actions else []
        vectors = [function() for function in functions]
        names = self._worked_out()
        if self.width == 1:
            body = "\n".join(one + vectors)
            return helpers(body, self.prefix, self.real) + body, names
        texts = []
        for body, prefix, width in (
            ("\n".join(one), plain.prefix, 1),
            ("\n".join(vectors), self.prefix, self.width),
        ):
            texts += [helpers(body, prefix, self.real, width) + body] if body else []
        return "\n".join(texts), names

    def text(self) -> str:
        """Return all functions, helpers first."""
        parts = [self._initial(), self._current()]
        if self.states:
            parts.append(self._advance())
        if self.eq.actions:
            parts.append(self._event())
        body = "\n".join(parts)
        return helpers(body, self.prefix, self.real) + body

    # -------------------------------------------------------------------------- expressions

    def _worked_out(self) -> tuple[str, ...]:
        return tuple(safe(n) for n in self.constants.names.values()) if self.constants else ()

    def _printer(self) -> Printer:
        symbols = (
            {k: safe(n) for k, n in constant_symbols(self.constants).items()}
            if (self.constants)
            else {}
        )
        return Printer(self.prefix, self.real, self.width, symbols)

    def _lifted(self, roots: Sequence[Node]) -> list[Node]:
        return self.constants.lifted(roots) if self.constants else list(roots)

    def _plain(self, roots: Sequence[Node]) -> tuple[Printer, list[str]]:
        """Return the statements of expressions without loops, and what they are."""
        block = make_block(self._lifted(roots))
        p = self._printer()
        p.begin(block)
        p.steps(block.steps[0])
        return p, [p.show(e) for e in block.results]

    # ------------------------------------------------------------------------------ parts

    def _constants(self, plain: Source) -> str:
        assert self.constants is not None
        p, values = plain._plain([e.definition for e in self.constants.names])
        inputs = ("dt", *(safe(name) for name in self.single))
        comment = "what does not change from step to step"
        f = _Function("constants", inputs, self._worked_out(), comment=comment)
        return plain._frame(f, p.lines, values)

    def _initial(self) -> str:
        scope = Scope(self.eq)
        values = {name: scope.expression(e) for name, e in self.eq.initial.items()}
        values[HIDDEN] = self.graph.symbol("v")
        p, shown = self._plain([values[name] for name in self.eq.state_names])
        inputs = ("v", *self.parameters)
        f = _Function("initial", inputs, self.states, comment="states at the start, at v")
        return self._frame(f, p.lines, shown)

    def _current(self) -> str:
        eq, graph = self.eq, self.graph
        intensity = graph.power(graph.symbol("dt"), graph.number(Fraction(-1, 2)))
        scope = Scope(eq, {"noise": graph.symbol("noise") * intensity})
        current = eq.current(scope)
        p, values = self._plain([current, graph.slope(current, "v")])
        noise = ("noise",) if current.uses("noise") else ()
        unit, per = ("mA/cm2", "S/cm2") if eq.kind == "density" else ("nA", "uS")
        f = _Function(
            "current",
            ("v", "t", "dt", *self.parameters, *self._worked_out(), *self.states, *noise),
            ("i", "g"),
            comment=f"i in {unit}, outward; g = di/dv in {per}",
        )
        return self._frame(f, p.lines, values)

    def _event(self) -> str:
        scope, values = Scope(self.eq), {}
        for action in self.eq.actions:
            value, old = scope.expression(action.value), self.graph.symbol(action.state)
            changed = {"": value, "+": old + value, "-": old - value, "*": old * value}
            values[action.state] = old / value if action.sign == "/" else changed[action.sign]
        python = self.real == "numpy"  # whose states are no pointers: all are given back
        order = [s for s in self.eq.state_names if s in values or python]
        p, shown = self._plain([values.get(s, self.graph.symbol(s)) for s in order])
        f = _Function(
            "event",
            ("weight", *self.parameters),
            tuple(safe(s) for s in order),
            self.states,
            comment="what an event of this weight does",
        )
        return self._frame(f, p.lines, shown)

    # ---------------------------------------------------------------------------- advance

    def _advance(self) -> str:
        eq = self.eq
        step = advance(eq, STEP if self.loops else "dt")
        clock = any(e.uses("t") for e in self._roots(step))
        moving = (*map(safe, step.values), *(("t",) if clock else ())) if self.loops else ()
        f = _Function(
            "advance",
            ("v", "t", "dt", *self.parameters, *self._worked_out()),
            self.states,
            self.states,
            comment=f"one step; v is its last voltage, t its begin; {self._how()}",
            moving=moving,
        )
        if not step.values:
            return self._frame(f, [], list(self.states))
        p = self._printer()
        values = self._steps(p, step, clock)
        f = _Function(
            f.suffix, (*f.inputs[: 3 + len(self.parameters)], *self._worked_out()), f.outputs,
            f.changes, f.comment, f.moving,
        )  # fmt: skip
        return self._frame(f, p.lines, [values.get(s, s) for s in self.states])

    def _how(self) -> str:
        eq = self.eq
        exact = [s for s in eq.rates if s not in eq.stepped]
        parts = [f"{', '.join(exact)} by exponential Euler"] if exact else []
        parts += [f"{', '.join(eq.stepped)} by {eq.method}"] if eq.stepped else []
        text = "; ".join(parts) or "nothing changes"
        return text if len(text) <= 48 else text[:45] + "..."

    @staticmethod
    def _roots(step: Advance) -> list[Node]:
        return [*step.values.values(), *(step.newton.change.values() if step.newton else ())]

    def _steps(self, p: Printer, step: Advance, clock: bool) -> dict[str, str]:
        """Add one step, in its loops, and return the new values of the states by name."""
        newton, first = step.newton, int(self.loops)
        changing = [n for n in step.values if n != HIDDEN]
        phases = dict.fromkeys([*changing, "t", STEP] if self.loops else [], first)
        phases[STEP] = 0
        if newton:
            phases |= dict.fromkeys(newton.now.values(), first + 1)
            phases |= dict.fromkeys(newton.new.values(), first + 2)
        roots = self._lifted(self._roots(step))
        block = make_block(roots, phases, first + (3 if newton else 1))
        p.begin(block)
        count = len(step.values)
        results = dict(zip(step.values, block.results[:count], strict=True))
        if self.loops:
            self._begin_of_loop(p, roots)
            p.steps(block.steps[0])
            line = f"for (int _part = 0; _part < {self.eq.substeps}; _part++) {{"
            p.line(f"for _part in range({self.eq.substeps}):" if p.python else line)
            p.indent += "    "
        p.steps(block.steps[first])
        if newton:
            self._iteration(p, newton, block, block.results[count:], first)
            p.steps(block.steps[first + 2])
        values = {safe(n): p.show(e) for n, e in results.items()}
        if self.loops:
            self._end_of_loop(p, [safe(n) for n in changing], values, clock)
        return values

    def _begin_of_loop(self, p: Printer, roots: Sequence[Node]) -> None:
        share = p.number(Fraction(1, self.eq.substeps))
        const, real, end = ("", "", "") if p.python else ("const ", "real ", ";")
        p.line(f"{const}{real}{STEP} = dt * {share}{end}")
        kind = "" if p.python else f"{p.type} "
        if any(e.uses("_begin") for e in roots):
            p.line(f"{const}{real}_begin = t{end}")
        for q in self.eq.states:
            if any(e.uses(f"_{q.name}__begin") for e in roots):
                p.line(f"{const}{kind}_{q.name}__begin = {safe(q.name)}{end}")

    def _end_of_loop(
        self, p: Printer, changing: list[str], values: dict[str, str], clock: bool
    ) -> None:
        names = [*changing, *(["t"] if clock else [])]
        if p.python:
            new = [values[s] for s in changing] + ([f"t + {STEP}"] if clock else [])
            p.line(f"{', '.join(names)}, = {', '.join(new)},")
        else:
            for s in changing:
                p.assign(f"_{s}__next", values[s])
            for s in changing:
                p.line(f"{s} = _{s}__next;")
            if clock:
                p.line(f"t += {STEP};")
        p.indent = "    "
        if not p.python:
            p.line("}")
        for s in changing:
            values[s] = s

    # ----------------------------------------------------------------------------- Newton

    def _iteration(
        self, p: Printer, newton: Newton, block: Block, change: list[Node], first: int
    ) -> None:
        """Add Newton's iteration; an instance that has converged changes no more."""
        now = list(newton.now.values())
        start = [p.show(e) for e in newton.start.values()]
        mask = {"double": "long", "float": "int"}.get(self.real, "")
        scalar = self.width == 1
        mask = "int" if scalar else f"{mask}{self.width}"
        if p.python:
            p.line(f"{', '.join(now)}, = {', '.join(start)},")
            p.line("_open = True")
            p.line(f"for _pass in range({MAX_PASSES}):")
        else:
            for name, value in zip(now, start, strict=True):
                p.line(f"{p.type} {name} = {value};")
            p.line(f"{mask} _open = {1 if scalar else -1};")
            p.line(f"for (int _pass = 0; _pass < {MAX_PASSES}; _pass++) {{")
        outside = p.indent
        p.indent += "    "
        p.steps(block.steps[first + 1])
        names = [f"{name}_change" for name in now]
        for name, e in zip(names, change, strict=True):
            p.assign(name, p.show(e))
        self._update(p, now, names)
        p.indent = outside
        if not p.python:
            p.line("}")
        for name, last in zip(now, newton.new.values(), strict=True):
            if p.python:
                p.assign(last, f"np.where(_open, np.nan, {name})")
            else:
                nan = "NAN" if scalar else f"({p.type})(NAN)"
                p.assign(last, f"_open ? {nan} : {name}")

    def _update(self, p: Printer, now: list[str], names: list[str]) -> None:
        """Add the end of an iteration: new values, and who goes on."""
        relative, absolute = (p.number(x) for x in TOLERANCE[self.real])
        fabs = "np.fabs" if p.python else "fabs"
        tests = []
        for name, change in zip(now, names, strict=True):
            new = f"{name} - {change}"
            if p.python:
                p.line(f"{name} = np.where(_open, {new}, {name})")
            else:
                p.line(f"{name} = {new if self.width == 1 else f'_open ? {new} : {name}'};")
            tests.append(f"({fabs}({change}) <= {relative} * {fabs}({name}) + {absolute})")
        if p.python:
            p.line(f"_open = _open & ~({' & '.join(tests)})")
            p.line("if not np.any(_open):")
            p.line("    break")
        elif self.width == 1:
            p.lines.append(folded(f"{p.indent}_open = !({' && '.join(tests)});"))
            p.line("if (!_open) break;")
        else:
            p.lines.append(folded(f"{p.indent}_open = _open & ~({' & '.join(tests)});"))
            p.line("if (!any(_open)) break;")

    # ------------------------------------------------------------------------------ frame

    def _frame(self, f: _Function, lines: list[str], values: list[str]) -> str:
        return self._python(f, lines, values) if self.real == "numpy" else self._c(f, lines, values)

    def _python(self, f: _Function, lines: list[str], values: list[str]) -> str:
        inputs = ", ".join((*f.inputs, *f.changes))
        result = f"def {self.prefix}_{f.suffix}({inputs}):\n"
        result += "".join(line + "\n" for line in lines)
        return result + f"    return ({', '.join(values)}{',' if values else ''})\n\n"

    def _c(self, f: _Function, lines: list[str], values: list[str]) -> str:
        outputs = [o for o in f.outputs if o not in f.changes]
        kind = vector(self.width)
        alike = {"t", "dt", "weight", *map(safe, self.single), *self._worked_out()}
        arguments = [
            f"{'' if a in f.moving else 'const '}{'real' if a in alike else kind} {a}"
            for a in f.inputs
        ]
        arguments += [f"{kind} *{a}_" for a in (*f.changes, *outputs)]
        result = f"static void {self.prefix}_{f.suffix}("
        result += wrapped(arguments, len(result)) + ")\n{\n"
        for s in f.changes:
            result += f"    {'' if s in f.moving else 'const '}{kind} {s} = *{s}_;\n"
        result += "".join(line + "\n" for line in lines)
        for output, value in zip(f.outputs, values, strict=True):
            result += folded(f"    *{output}_ = {value};") + "\n"
        return f"// {f.comment}\n{result}}}\n"
