"""The functions of an NMODL mechanism as source: OpenCL in double or single precision, or NumPy."""

from __future__ import annotations

from collections.abc import Sequence

from clhines.mechanisms.emit import random123
from clhines.mechanisms.emit.helpers import helpers
from clhines.mechanisms.emit.printer import Printer, folded, safe, vector, wrapped
from clhines.mechanisms.ir.blocks import make_block
from clhines.mechanisms.ir.expressions import Node, postorder
from clhines.mechanisms.ir.program import Argument
from clhines.mechanisms.nmodl.bodies import Body
from clhines.mechanisms.nmodl.build import Model, arguments_of
from clhines.mechanisms.nmodl.values import BOUNDS, NEVER, Loop

_COMMENTS = {
    "initial": "states at the start",
    "current": "i outward, g = di/dv",
    "advance": "one step of the states; v and t are those of its end",
    "receive": "one event, at t",
    "net_initial": "weights of a connection at the start",
    "watch": "above 0 where a WATCH condition is true",
}
_HELPERS = {
    "place": (
        "place in a table, 0 to n; NaN stays",
        "    return xi <= 0 ? 0 : (xi >= n ? (real)n : xi);",
        "    return np.where(xi <= 0, 0.0, np.where(xi >= n, float(n), xi))",
    ),
    "lookup": (
        "a column of a table between two rows",
        "    const int row = max(0, min((int)place, n - 1));\n"
        "    const real low = table[row * columns + column];\n"
        "    return low + (place - row) * (table[(row + 1) * columns + column] - low);",
        "    row = np.clip(np.nan_to_num(place), 0, n - 1).astype(int)\n"
        "    low = table[row, column]\n"
        "    return low + (place - row) * (table[row + 1, column] - low)",
    ),
}
_HELPER_ARGUMENTS = {
    "place": ("const real xi, const int n", "xi, n"),
    "lookup": (
        "const real place, __global const real *table, const int column, const int columns,"
        "\n    const int n",
        "place, table, column, columns, n",
    ),
}
_LOOKUP_OF_VECTORS = """\
    const {int} row = max(min(convert_{int}(place), ({int})(n - 1)), ({int})0);
    const {int} at = row * columns + column;
    const {type} low = ({type})({low});
    const {type} high = ({type})({high});
    return low + (place - convert_{plain}(row)) * (high - low);"""
_IN_VECTORS = {
    "v",
    "t",
    "dt",
    "parameter",
    "state",
    "ion",
    "output",
    "ion_current",
    "i",
    "g",
    "table",
}


def name_of(a: Argument) -> str:
    """Return the name in source of what an argument brings or gives."""
    if a.role in ("v", "t", "dt"):
        return a.role
    if a.role == "ion" and a.direction == "out":
        return f"_{a.name}__ion"
    if a.role == "send":
        return f"_send{a.name.replace('.', '_')}"
    generated = {
        "x": "_x",
        "flag": "_flag",
        "i": "_i",
        "g": "_g",
        "table": f"{a.name}__table",
        "weight": f"_{a.name}__weight",
        "other_weight": f"_{a.name}__other",
        "ion_current": f"_{a.name}__slope",
        "arm": f"_arm{a.name}",
        "watch": f"_watch{a.name}",
        "column": f"_column{a.name}",
        "grid": f"_{a.name}",
        "stream": f"{a.name}__stream",
        "drawn": f"{a.name}__drawn",
    }
    return generated.get(a.role, safe(a.name))


def _type(a: Argument) -> str:
    return {"stream": "uint4", "drawn": "ulong"}.get(a.role, "real")


class Functions:
    """The functions of one mechanism in one language.

    Parameters
    ----------
    model : Model
    real : str
        ``double``, ``float`` or ``numpy``.
    outputs : sequence of str, optional
        Variables that blocks give beside the states.
    width : int, optional
        Instances that a function takes at once, in OpenCL: as ``realWIDTH``.
    single : sequence of str, optional
        Parameters that are one number for all instances.
    """

    def __init__(
        self,
        model: Model,
        real: str,
        outputs: Sequence[str] = (),
        width: int = 1,
        single: Sequence[str] = (),
    ) -> None:
        self.model, self.real, self.outputs = model, real, tuple(outputs)
        self.width, self.single = width, frozenset(single)
        self.prefix = model.program.name + (f"__v{width}" if width > 1 else "")

    def takes_vectors(self, block: str) -> bool:
        """Whether the function of a block can take several instances at once."""
        return all(a.role in _IN_VECTORS for a in self.calls(block))

    def calls(self, block: str) -> tuple[Argument, ...]:
        """Return the arguments of a block's function."""
        body, program = self.model.bodies.blocks[block], self.model.program
        if not any(k in body.writes for k in self.outputs):
            return program.blocks[block]
        return arguments_of(
            block,
            body,
            set(self._kept(body)),
            [q.name for q in program.states],
            [q.name for q in program.parameters],
            self.model.file,
            self.model.bodies.shared.names.printed,
        )

    def _kept(self, body: Body) -> list[str]:
        states = [q.name for q in self.model.program.states]
        return [k for k in (*states, *self.outputs) if k in body.writes]

    def text(self, blocks: Sequence[str] | None = None) -> str:
        """Return the functions, helpers first."""
        names = self.model.program.blocks if blocks is None else blocks
        body = "\n".join(self.function(name) for name in names)
        streams = random123.python_source if self.real == "numpy" else random123.opencl_source
        drawn = streams(body, self.prefix)
        return (
            self._helpers(body) + drawn + helpers(body, self.prefix, self.real, self.width) + body
        )

    def _helpers(self, body: str) -> str:
        result = ""
        for name, (comment, c, python) in _HELPERS.items():
            if f"{self.prefix}_{name}_(" not in body:
                continue
            typed, plain = _HELPER_ARGUMENTS[name]
            if self.real == "numpy":
                result += f"def {self.prefix}_{name}_({plain}):\n{python}\n\n\n"
            else:
                sort = vector(self.width)
                if self.width > 1:
                    c = self._of_vectors(name)
                    typed = typed.replace("real xi", f"{sort} xi").replace("real p", f"{sort} p")
                head = f"static {sort} {self.prefix}_{name}_({typed})"
                result += f"// {comment}\n{head}\n{{\n{c}\n}}\n\n"
        return result

    def _of_vectors(self, name: str) -> str:
        """Return the statements of a helper of tables for several instances."""
        sort, width = vector(self.width), self.width
        if name == "place":
            return f"    return xi <= 0 ? ({sort})0 : (xi >= (real)n ? ({sort})n : xi);"
        rows = [f"table[at.s{k:x}]" for k in range(width)]
        next_rows = [f"table[at.s{k:x} + columns]" for k in range(width)]
        given = {"int": f"int{width}", "type": sort, "plain": f"{self.real}{width}"}
        low, high = (wrapped(some, len(sort) + 26) for some in (rows, next_rows))
        return _LOOKUP_OF_VECTORS.format(**given, low=low, high=high)

    # ------------------------------------------------------------------------------ one block

    def function(self, name: str) -> str:
        """Return the function of a block."""
        body, arguments = self.model.bodies.blocks[name], self.calls(name)
        given = {(role, what): node for role, what, node in body.results}
        roots: list[Node] = []
        for a in arguments:
            if a.direction != "in":
                node = given.get((a.role, a.name))
                root = body.writes[a.name] if node is None else node
                roots += root.args[1:] if a.role == "drawn" else [root]
        infinity = "np.inf" if self.real == "numpy" else "INFINITY"
        p = Printer(self.prefix, self.real, self.width, {NEVER: infinity})
        for bound, pair in BOUNDS.items():
            p.symbols[bound] = p.number(pair[self.real == "float"])
        names = [name_of(a) for a in arguments]  # and those that are printed as another
        names += [a.name for a in arguments if safe(a.name) != a.name]
        shown = _Body(p, body.loops, names).lines(roots)
        shown = self._with_counts(arguments, shown)
        if self.real == "numpy":
            return self._python(name, arguments, p.lines, shown)
        return self._c(name, arguments, p.lines, shown)

    def _with_counts(self, arguments: Sequence[Argument], shown: list[str]) -> list[str]:
        """Put two values of a stream of random numbers together: how many words it has given."""
        left, found = iter(shown), []
        for a in arguments:
            if a.role == "drawn":
                given = f"{name_of(a)}, {next(left)}, {next(left)}"
                found.append(f"{self.prefix}_random_count_({given})")
            elif a.direction != "in":
                found.append(next(left))
        return found

    def _type(self, a: Argument) -> str:
        one = a.role in ("t", "dt") or (a.role == "parameter" and a.name in self.single)
        return _type(a) if self.width == 1 or one else vector(self.width)

    def _python(
        self, name: str, arguments: Sequence[Argument], lines: list[str], shown: list[str]
    ) -> str:
        taken = ", ".join(name_of(a) for a in arguments if a.direction != "out")
        result = f"def {self.prefix}_{name}({taken}):\n"
        result += "".join(line + "\n" for line in lines)
        return result + f"    return ({', '.join(shown)}{',' if shown else ''})\n\n"

    def _c(
        self, name: str, arguments: Sequence[Argument], lines: list[str], shown: list[str]
    ) -> str:
        declared = []
        for a in arguments:
            if a.role == "table":
                declared.append(f"__global const real *{name_of(a)}")
            elif a.direction == "in":
                declared.append(f"const {self._type(a)} {name_of(a)}")
            else:
                declared.append(f"{self._type(a)} *{name_of(a)}_")
        comment = _COMMENTS.get(name, name.replace("_", " "))
        head = f"static void {self.prefix}_{name}("
        text = f"// {comment}\n{head}{wrapped(declared or ['void'], len(head))})\n{{\n"
        for a in arguments:
            if a.direction == "inout":
                text += f"    const {self._type(a)} {name_of(a)} = *{name_of(a)}_;\n"
        text += "".join(line + "\n" for line in lines)
        out = [name_of(a) for a in arguments if a.direction != "in"]
        for target, value in zip(out, shown, strict=True):
            text += folded(f"    *{target}_ = {value};") + "\n"
        return text + "}\n"


class _Body:
    """Statements of a function: straight lines, and loops between them."""

    def __init__(self, p: Printer, loops: Sequence[Loop], taken: Sequence[str]) -> None:
        self.p, self.loops, self.taken = p, list(loops), taken

    def lines(self, roots: list[Node]) -> list[str]:
        """Add the statements to the printer; return the results as source."""
        loops = self._used(roots)
        phases: dict[str, int] = {}
        everything = list(roots)
        for k, loop in enumerate(loops):
            phases |= dict.fromkeys(loop.names, 2 * k + 1)
            phases |= dict.fromkeys(loop.ends, 2 * k + 2)
            everything += [*loop.starts, *loop.values]
            everything += [e for e in (loop.go_on, loop.entered) if e is not None]
        block = make_block(everything, phases, 2 * len(loops) + 1, self.taken)
        results = iter(block.results)
        shown_roots = [next(results) for _ in roots]
        p = self.p
        p.begin(block)
        p.steps(block.steps[0])
        for k, loop in enumerate(loops):
            starts = [next(results) for _ in loop.starts]
            values = [next(results) for _ in loop.values]
            go_on = next(results)
            entered = next(results) if loop.entered is not None else None
            self._loop(loop, starts, values, go_on, entered, block.steps[2 * k + 1])
            p.steps(block.steps[2 * k + 2])
        return [p.show(e) for e in shown_roots]

    def _used(self, roots: Sequence[Node]) -> list[Loop]:
        """Return the loops whose ends are needed."""
        found: list[Loop] = []
        needed = list(roots)
        for loop in reversed(self.loops):
            if any(e.uses(*loop.ends) for e in needed):
                found.append(loop)
                needed += [*loop.starts, *loop.values]
                needed += [e for e in (loop.go_on, loop.entered) if e is not None]
        return found[::-1]

    def _loop(
        self,
        loop: Loop,
        starts: list[Node],
        values: list[Node],
        go_on: Node,
        entered: Node | None,
        steps: list[Node],
    ) -> None:
        p = self.p
        begin = [p.show(e) for e in starts]
        if p.python:
            self._python_loop(loop, begin, values, go_on, entered, steps)
            return
        wide, still = p.width > 1, f"_open{self.loops.index(loop)}"
        for name, value in zip(loop.names, begin, strict=True):
            p.lines.append(folded(f"{p.indent}{p.type} {name} = {value};"))
        opened = p.holds(entered) if entered is not None else "-1" if wide else "1"
        p.lines.append(folded(f"{p.indent}{p.mask if wide else 'int'} {still} = {opened};"))
        some_open = f"SOME({still})" if wide else still
        p.line(f"for (int _pass = 0; _pass < {loop.most} && {some_open}; _pass++) {{")
        outside = p.indent
        p.indent += "    "
        new = self._turn(loop, values, steps)
        if wide:
            p.lines.append(folded(f"{p.indent}const {p.mask} _more = {p.holds(go_on)};"))
        else:
            p.lines.append(folded(f"{p.indent}{still} = {p.holds(go_on)};"))
        for name, value in zip(loop.names, new, strict=True):
            p.line(f"{name} = {f'{still} ? {value} : {name}' if wide else value};")
        if wide:
            p.line(f"{still} &= _more;")
        p.indent = outside
        p.line("}")
        for name, end in zip(loop.names, loop.ends, strict=True):
            p.assign(end, f"{still} ? {f'({p.type})' if wide else ''}NAN : {name}")

    def _turn(self, loop: Loop, values: list[Node], steps: list[Node]) -> list[str]:
        """Add the statements of a turn; return the names of what the variables become."""
        self.p.steps(steps)
        new = [f"{name}_new" for name in loop.names]
        for name, e in zip(new, values, strict=True):
            self.p.assign(name, self.p.show(e))
        return new

    def _python_loop(
        self,
        loop: Loop,
        begin: list[str],
        values: list[Node],
        go_on: Node,
        entered: Node | None,
        steps: list[Node],
    ) -> None:
        p = self.p
        p.line(f"{', '.join(loop.names)}, = {', '.join(begin)},")
        p.line(f"_open = {'True' if entered is None else p.where(entered, 'True', 'False')}")
        p.line(f"for _pass in range({loop.most}):")
        outside = p.indent
        p.indent += "    "
        p.line("if not np.any(_open):")
        p.line("    break")
        new = self._turn(loop, values, steps)
        p.line(f"_more = {p.where(go_on, 'True', 'False')}")
        for name, value in zip(loop.names, new, strict=True):
            p.line(f"{name} = np.where(_open, {value}, {name})")
        p.line("_open = _open & _more")
        p.indent = outside
        for name, end in zip(loop.names, loop.ends, strict=True):
            p.assign(end, f"np.where(_open, np.nan, {name})")


__all__ = ["Functions", "name_of", "postorder"]
