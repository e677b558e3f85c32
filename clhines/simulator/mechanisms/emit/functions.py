"""Print a mechanism's functions: in OpenCL for one instance or several, or in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from clhines.simulator.mechanisms.emit import random123, scop
from clhines.simulator.mechanisms.emit.helpers import helpers
from clhines.simulator.mechanisms.emit.lanes import SERIES, Lanes, LanesPrinter
from clhines.simulator.mechanisms.emit.printer import Printer, folded, vector, wrapped
from clhines.simulator.mechanisms.emit.words import safe
from clhines.simulator.mechanisms.ir.blocks import make_block
from clhines.simulator.mechanisms.ir.compiled import BOUNDS, NEVER, Body, Compiled, Loop
from clhines.simulator.mechanisms.ir.expressions import Graph, Node, postorder
from clhines.simulator.mechanisms.ir.passes.hoist import Constants, constant_symbols
from clhines.simulator.mechanisms.ir.program import GENERATOR, Argument

_HELPERS = {
    "place": (
        "row of a table, with a fraction: xi, but at least 0 and at most n, or NaN",
        "const {type} xi, const int n",
        "    return xi <= 0 ? 0 : (xi >= n ? (real)n : xi);",
        "xi, n",
        "    return np.where(xi <= 0, 0.0, np.where(xi >= n, float(n), xi))",
    ),
    "lookup": (
        "value of a column at a place between two rows, by linear interpolation",
        "const {type} place, __global const real *table, const int column, const int columns,"
        "\n    const int n",
        "    const int row = max(0, min((int)place, n - 1));\n"
        "    const real low = table[row * columns + column];\n"
        "    return low + (place - row) * (table[(row + 1) * columns + column] - low);",
        "place, table, column, columns, n",
        "    row = np.clip(np.nan_to_num(place), 0, n - 1).astype(int)\n"
        "    low = table[row, column]\n"
        "    return low + (place - row) * (table[row + 1, column] - low)",
    ),
    "entry": (
        "value of a table with one column at a whole row",
        "const {type} row, __global const real *table, const int n",
        "    return table[max(0, min((int)row, n))];",
        "row, table, n",
        "    return table[np.clip(np.nan_to_num(row), 0, n).astype(int), 0]",
    ),
}
_OF_VECTORS = {
    "place": "    return xi <= 0 ? ({type})0 : (xi >= (real)n ? ({type})n : xi);",
    "lookup": """\
    const {int} row = max(min(convert_{int}(place), ({int})(n - 1)), ({int})0);
    const {int} at = row * columns + column;
    const {type} low = ({type})({low});
    const {type} high = ({type})({high});
    return low + (place - convert_{plain}(row)) * (high - low);""",
    "entry": """\
    const {int} at = max(min(convert_{int}(row), ({int})n), ({int})0);
    return ({type})({low});""",
}


def table_helpers(text: str, prefix: str, real: str, width: int = 1) -> str:
    """Return source for the table look-up functions that `text` calls.

    `real` is ``double``, ``float`` or ``numpy``. The names begin with `prefix`; a call looks up
    `width` instances' values.
    """
    result, sort = "", vector(width)
    rows = [f"table[at.s{k:x}]" for k in range(width)]
    next_rows = [f"table[at.s{k:x} + columns]" for k in range(width)]
    low, high = (wrapped(some, len(sort) + 26) for some in (rows, next_rows))
    words = {"type": sort, "int": f"int{width}", "plain": f"{real}{width}", "low": low}
    for name, (comment, typed, c, plain, python) in _HELPERS.items():
        if f"{prefix}_{name}_(" not in text:
            continue
        if real == "numpy":
            result += f"def {prefix}_{name}_({plain}):\n{python}\n\n\n"
            continue
        if width > 1:
            c = _OF_VECTORS[name].format(**words, high=high)
        head = f"static {sort} {prefix}_{name}_({typed.format(**words)})"
        result += f"// {comment}\n{head}\n{{\n{c}\n}}\n\n"
    return result


def all_helpers(text: str, prefix: str, real: str, width: int = 1) -> str:
    """Return source for all functions that `text` calls and whose names begin with `prefix`."""
    result = table_helpers(text, prefix, real, width)
    for random in (random123, scop):
        result += (random.python_source if real == "numpy" else random.opencl_source)(text, prefix)
    return result + helpers(text, prefix, real, width)


def shared_prefix(width: int) -> str:
    """Return the name prefix of vector helpers that all mechanisms share."""
    return f"groups__v{width}"


_COMMENTS = {
    "initial": "initial states",
    "current": "i outward, g = di/dv",
    "advance": "advance the states by a step; v and t are those at its end",
    "receive": "receive one event, at time t",
    "net_initial": "initial weights of a connection",
    "watch": "above 0 if a WATCH condition is true",
    "diffuse": "volumes and diffusion coefficients, after the states of all mechanisms",
    "constants": "values that are the same in all steps",
}
# roles that functions for several instances may have; roles that are one number for all of them
_IN_VECTORS = frozenset(
    "v t dt parameter constant state ion output ion_current i g noise table weight"
    " seed adjoint".split()
)
_ALIKE = frozenset("t dt constant".split())
_ROUNDED = frozenset("symbol number local add mul pow where less lessequal both".split())
_UNRESERVED = frozenset("i g constant".split())  # results whose names locals may have, too
_GENERATED = {
    "x": "_x",
    "flag": "_flag",
    "i": "_i",
    "g": "_g",
    "table": "{}__table",
    "weight": "_{}__weight",
    "other_weight": "_{}__other",
    "ion_current": "_{}__slope",
    "arm": "_arm{}",
    "watch": "_watch{}",
    "set_v": "_set_{}",
    "put": "_put_{}",
    "add": "_add_{}",
    "assign": "_assign_{}",
    "steer": "_steer_{}",
    "unless": "_unless{}",
    "volume": "_{}__volume",
    "diffusion": "_{}__diffusion",
    "column": "_column{}",
    "grid": "_{}",
    "stream": "{}__stream",
    "drawn": "{}__drawn",
    "seed": "_seed_{}",
    "adjoint": "_adjoint_{}",
}


def name_of(a: Argument) -> str:
    if a.symbol:
        return safe(a.symbol)
    if a.role in ("v", "t", "dt"):
        return a.role
    if a.role == "ion" and a.direction == "out":
        return f"_{a.name}__ion"
    if a.role == "send":
        return f"_send{a.name.replace('.', '_')}"
    return _GENERATED[a.role].format(a.name) if a.role in _GENERATED else safe(a.name)


class Functions:
    """Printer of a mechanism's functions, one for each block, in OpenCL or NumPy.

    `real` is ``double``, ``float`` or ``numpy``. In OpenCL a function computes `width` instances at
    once, as vectors ``realWIDTH``; parameters in `single` are one number for all instances.
    Functions return the variables `outputs` besides the states. With `lanes`, and a width of 1,
    they are for lanes of a GPU. With `share`, vector functions call helpers that all mechanisms
    share (`shared_prefix`), and the source comes without these helpers.
    """

    def __init__(
        self,
        compiled: Compiled,
        real: str,
        width: int = 1,
        single: Sequence[str] = (),
        outputs: Sequence[str] = (),
        lanes: Lanes | None = None,
        share: bool = False,
    ) -> None:
        self.compiled, self.real, self.outputs = compiled, real, tuple(outputs)
        self.program = compiled.program
        self.width, self.single, self.lanes = width, frozenset(single), lanes
        self.prefix = self.program.name + (f"__v{width}" if width > 1 else "")
        self._helpers = shared_prefix(width) if share and width > 1 else self.prefix
        self._constants: Constants | None = None
        self._copies: dict[str, Body] = {}

    def takes_vectors(self, block: str) -> bool:
        """Whether a block's function can take several instances at once."""
        return all(a.role in _IN_VECTORS for a in self.calls(block))

    @cached_property
    def takes_events(self) -> bool:
        """Whether ``receive`` can take several instances at once, with the same bits as for one.

        This needs a block without loops, whose operations are rounded alike in scalars and vectors.
        """
        if self.width == 1 or "receive" not in self.program.blocks:
            return False
        body = self.compiled.bodies["receive"]
        nodes = list(postorder(body.every()))
        exponents = [e.args[1] for e in nodes if e.op == "pow"]
        plain = all(e.is_number and e.value.denominator == 1 for e in exponents)
        plain &= all(e.op in _ROUNDED for e in nodes)
        return plain and not body.loops and self.takes_vectors("receive")

    def calls(self, block: str) -> tuple[Argument, ...]:
        """Return the arguments of a block's function, hoisted constants included."""
        arguments = self.compiled.calls(block, self.outputs)
        constants = [Argument("constant", name) for name, _ in self._hoisted()]
        before_constants = ("v", "t", "dt", "parameter", "weight")
        at = max((k + 1 for k, a in enumerate(arguments) if a.role in before_constants), default=0)
        return (*arguments[:at], *constants, *arguments[at:])

    def text(self, blocks: Sequence[str] | None = None) -> str:
        names = self.program.blocks if blocks is None else blocks
        return self.with_helpers("\n".join(self.function(name) for name in names))

    def lifted(self, blocks: Sequence[str], scalar: Sequence[str] = ()) -> tuple[str, list[str]]:
        """Hoist constants; return the blocks' functions, and the constants' names.

        Constants depend on dt and single parameters only. A function ``NAME_constants`` computes
        them, the other functions have them as arguments. Functions for the blocks in `scalar`
        compute one instance.
        """
        self._lift(blocks)
        one, parts = Functions(self.compiled, self.real, lanes=self.lanes), list[str]()
        results = [
            (Argument("constant", name, "out"), node.definition) for name, node in self._hoisted()
        ]
        if results:
            names = [q.name for q in self.program.parameters if q.name in self.single]
            inputs = [Argument("dt", "dt"), *(Argument("parameter", name) for name in names)]
            arguments = [*inputs, *(a for a, _ in results)]
            parts.append(one._printed("constants", arguments, results, Body()))
        parts += [one.function(name) for name in scalar]
        vectors = [self.function(name) for name in blocks]
        constants = [a.name for a, _ in results]
        if self.width == 1:
            return self.with_helpers("\n".join(parts + vectors)), constants
        texts = [one.with_helpers("\n".join(parts))] if parts else []
        return "\n".join([*texts, self.with_helpers("\n".join(vectors))]), constants

    def equations(self, block: str) -> list[str]:
        source = self.function(block).split("\n")
        first = next(k for k, line in enumerate(source) if line == "{")
        inner = [line for line in source[first + 1 : -2] if " = *" not in line]
        lines = [line.replace("const real ", "").replace("real ", "").rstrip(";") for line in inner]
        for a in self.calls(block):
            if a.direction != "in":
                lines = [line.replace(f"*{name_of(a)}_ =", f"{_result(a)} =") for line in lines]
        return lines

    def _lift(self, blocks: Sequence[str]) -> None:
        graph, ordered = Graph(), [q.name for q in self.program.parameters]
        self._copies = {name: self._body(name, graph) for name in blocks}
        single = [*(name for name in ordered if name in self.single), "dt"]
        argument_names = {
            a.name for name in blocks for a in self.compiled.calls(name, self.outputs)
        }
        self._constants = Constants(graph, single, argument_names)
        for body in self._copies.values():
            self._constants.lifted(body.every())
        if self.lanes is not None:
            self._constants.inline()

    def _hoisted(self) -> list[tuple[str, Node]]:
        names = self._constants.names if self._constants is not None else {}
        return [(name, node) for node, name in names.items()]

    def function(self, block: str) -> str:
        arguments = self.calls(block)
        body = self._copies.get(block) or self._body(block, Graph())
        result_nodes = {(role, name): node for role, name, node in body.results}
        named = {a.name: a for a in arguments if a.role in ("state", "output")}
        written = iter([(named[name], node) for name, node in body.writes.items()])
        results = []  # in the body's order
        for a in arguments:
            if a.direction != "in" and (a.role, a.name) in result_nodes:
                results.append((a, result_nodes[a.role, a.name]))
            elif a.direction != "in" and a.name in body.writes:
                results.append(next(written))
        return self._printed(block, arguments, results, body)

    def _body(self, block: str, graph: Graph) -> Body:
        variables = [a for a in self.calls(block) if a.role in ("state", "output")]
        kept = {a.name for a in variables if a.direction != "in"}
        body = self.compiled.bodies[block]
        body = replace(body, writes={k: e for k, e in body.writes.items() if k in kept})
        body = body.mapped(graph.copied(body.every()).__getitem__)
        return body if self.lanes is None else self.lanes.rewritten(body)

    def _printed(
        self,
        block: str,
        arguments: Sequence[Argument],
        results: Sequence[tuple[Argument, Node]],
        body: Body,
    ) -> str:
        p = self._printer({NEVER: "np.inf" if self.real == "numpy" else "INFINITY"})
        for bound, pair in BOUNDS.items():
            p.symbols[bound] = p.number(pair[self.real == "float"])
        if self._constants is not None:
            constant_names = constant_symbols(self._constants)
            p.symbols |= {symbol: safe(name) for symbol, name in constant_names.items()}
        reserving = [a for a in arguments if a.role not in _UNRESERVED]
        reserving += [a for a in arguments if a.role == "constant" and a.direction == "in"]
        names = [name_of(a) for a in reserving]
        names += [a.name for a in arguments if safe(a.name) != a.name]  # and before renaming
        roots: list[Node] = []
        for a, node in results:
            roots += node.args[1:] if a.role == "drawn" else [node]
        values = iter(_StatementWriter(p, body, names, self._constants).lines(roots))
        shown = {}
        for a, _ in results:
            value = next(values)
            if a.role == "drawn":  # how many words are drawn from a random stream
                of = "scop" if a.name == GENERATOR else "random"
                value = f"{self.prefix}_{of}_count_({name_of(a)}, {value}, {next(values)})"
            shown[a] = value
        name = f"{self.prefix}_{body.suffix or block}"
        if self.real == "numpy":
            return _python(name, arguments, p.lines, shown)
        comment = body.comment or _COMMENTS.get(block, f"block {block}, see ir/program.py")
        return f"// {comment}\n" + self._c(name, arguments, p.lines, shown)

    def _printer(self, symbols: Mapping[str, str]) -> Printer:
        if self.lanes is not None:
            return LanesPrinter(self.lanes, self.prefix, self.real, symbols)
        return Printer(self.prefix, self.real, self.width, symbols, self._helpers)

    def _type(self, a: Argument) -> str:
        one = a.role in _ALIKE or (a.role == "parameter" and a.name in self.single)
        if self.width > 1 and not one:
            return vector(self.width)
        return {"stream": "uint4", "drawn": "ulong"}.get(a.role, "real")

    def _c(
        self,
        name: str,
        arguments: Sequence[Argument],
        lines: Sequence[str],
        shown: Mapping[Argument, str],
    ) -> str:
        declared = [] if self.lanes is None else [SERIES]
        for a in arguments:
            if a.role == "table":
                declared.append(f"__global const real *{name_of(a)}")
            elif a.direction == "in":
                declared.append(f"const {self._type(a)} {name_of(a)}")
            else:
                declared.append(f"{self._type(a)} *{name_of(a)}_")
        head = f"static void {name}("
        text = f"{head}{wrapped(declared or ['void'], len(head))})\n{{\n"
        for a in arguments:
            if a.direction == "inout":
                text += f"    const {self._type(a)} {name_of(a)} = *{name_of(a)}_;\n"
        text += "".join(line + "\n" for line in lines)
        for a in arguments:
            if a in shown:
                text += folded(f"    *{name_of(a)}_ = {shown[a]};") + "\n"
        return text + "}\n"

    def with_helpers(self, body: str) -> str:
        if self._helpers != self.prefix:
            return body
        return all_helpers(body, self.prefix, self.real, self.width) + body


def _python(
    name: str, arguments: Sequence[Argument], lines: Sequence[str], shown: Mapping[Argument, str]
) -> str:
    """Return the source of the NumPy function `name`, whose statements are `lines`.

    It returns all arguments with direction ``out`` and ``inout``, also unchanged ones. `shown` has
    the local variables that hold results, if their names differ from the arguments' names.
    """
    inputs = ", ".join(name_of(a) for a in arguments if a.direction != "out")
    values = [shown.get(a, name_of(a)) for a in arguments if a.direction != "in"]
    text = f"def {name}({inputs}):\n" + "".join(line + "\n" for line in lines)
    return text + f"    return ({', '.join(values)}{',' if values else ''})\n\n"


def _result(a: Argument) -> str:
    if a.role in ("send", "arm", "watch", "volume", "diffusion", "column", "grid"):
        return f"{a.role} {a.name}"
    return {"ion_current": f"d{a.name}/dv", "g": "di/dv"}.get(a.role, a.name)


def numpy_function(
    compiled: Compiled, block: str, outputs: Sequence[str] = ()
) -> Callable[..., Any]:
    source = Functions(compiled, "numpy", outputs=outputs).text([block])
    space: dict[str, Any] = {"np": np, "random123": random123, "scop": scop}
    # the source has only numbers and checked names
    exec(compile(source, f"<mechanism {compiled.program.name}>", "exec"), space)
    function: Callable[..., Any] = space[
        f"{compiled.program.name}_{compiled.bodies[block].suffix or block}"
    ]
    return function


class _StatementWriter:
    """Print one function's statements: assignments and loops.

    A phase is a part of the function: before the first loop, in its body, after it, and so on. Each
    expression is computed in the phase with its number in `phases`.
    """

    def __init__(
        self, p: Printer, body: Body, reserved: Sequence[str], constants: Constants | None = None
    ) -> None:
        self.p, self.body, self.reserved = p, body, reserved
        self.lifted = constants.lifted if constants is not None else list
        self.phases: dict[str, int] = {}
        self.last = 0
        self.every: list[Node] = []
        self.shown: dict[Node, Node] = {}
        self.steps: list[list[Node]] = []

    def lines(self, roots: Sequence[Node]) -> list[str]:
        """Add the statements to the printer's lines; return the source of each root."""
        loops = self.body.needed_loops(roots)
        self.every = list(roots)
        self._enter(loops)
        block = make_block(self.lifted(self.every), self.phases, self.last + 1, self.reserved)
        self.shown = dict(zip(self.every, block.results, strict=True))
        self.steps = block.steps
        self.p.begin(block)
        self.p.steps(self.steps[0])
        for k, loop in enumerate(loops):
            self._print(loop, f"_open{k}")
        return [self._show(e) for e in roots]

    def _show(self, e: Node) -> str:
        return self.p.show(self.shown[e])

    def _enter(self, loops: Sequence[Loop]) -> None:
        """Assign a number in `phases` to each loop's body, and one to the code after it.

        Also collect the loops' expressions.
        """
        for loop in loops:
            self.last += 1
            self.phases |= dict.fromkeys(loop.names, self.last)
            self.every += loop.nodes()
            self.last += 1
            self.phases |= dict.fromkeys(loop.ends, self.last)

    def _print(self, loop: Loop, still: str) -> None:
        """Print a loop, which goes on while the variable `still` is true, then the next phase."""
        begin = [self._show(e) for e in loop.starts]
        if self.p.python:
            self._python_loop(loop, begin)
        else:
            self._c_loop(loop, begin, still)
        p = self.p
        for name, end in zip(loop.names, loop.ends, strict=True):
            if p.python:
                name = f"np.where(_open, np.nan, {name})"
            else:
                name = f"{still} ? {f'({p.type})' if p.width > 1 else ''}NAN : {name}"
            p.assign(end, name)
        p.steps(self.steps[self.phases[loop.ends[0]]])

    def _turn(self, loop: Loop) -> list[str]:
        self.p.steps(self.steps[self.phases[loop.names[0]]])
        new = [f"{name}_new" for name in loop.names]
        for name, e in zip(new, loop.values, strict=True):
            self.p.assign(name, self._show(e))
        return new

    def _c_loop(self, loop: Loop, begin: Sequence[str], still: str) -> None:
        p, wide = self.p, self.p.width > 1
        for name, value in zip(loop.names, begin, strict=True):
            p.lines.append(folded(f"{p.indent}{p.type} {name} = {value};"))
        opened = "-1" if wide else "1"
        if loop.entered is not None:
            opened = p.holds(self.shown[loop.entered])
        p.lines.append(folded(f"{p.indent}{p.mask if wide else 'int'} {still} = {opened};"))
        test = f"SOME({still})" if wide else still
        p.line(f"for (int _pass = 0; _pass < {loop.most} && {test}; _pass++) {{")
        outside = p.indent
        p.indent += "    "
        new = self._turn(loop)
        target = f"const {p.mask} _more" if wide else still
        p.lines.append(folded(f"{p.indent}{target} = {p.holds(self._go_on(loop))};"))
        for name, value in zip(loop.names, new, strict=True):
            p.line(f"{name} = {f'{still} ? {value} : {name}' if wide else value};")
        if wide:
            p.line(f"{still} &= _more;")
        p.indent = outside
        p.line("}")

    def _python_loop(self, loop: Loop, begin: Sequence[str]) -> None:
        p, first = self.p, None if loop.entered is None else self.shown[loop.entered]
        p.line(f"{', '.join(loop.names)}, = {', '.join(begin)},")
        p.line(f"_open = {'True' if first is None else p.where(first, 'True', 'False')}")
        p.line(f"for _pass in range({loop.most}):")
        outside = p.indent
        p.indent += "    "
        p.line("if not np.any(_open):")
        p.line("    break")
        new = self._turn(loop)
        p.line(f"_more = {p.where(self._go_on(loop), 'True', 'False')}")
        for name, value in zip(loop.names, new, strict=True):
            p.line(f"{name} = np.where(_open, {value}, {name})")
        p.line("_open = _open & _more")
        p.indent = outside

    def _go_on(self, loop: Loop) -> Node:
        assert loop.go_on is not None  # for a complete loop
        return self.shown[loop.go_on]


__all__ = ["Functions", "name_of", "numpy_function"]
