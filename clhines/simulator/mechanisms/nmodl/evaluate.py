"""Evaluate NMODL expressions: turn them into nodes of a mechanism's `Graph`.

A draw from a RANDOM variable, as by random_uniform, is a function of a random stream and a position
in it. While a block is executed, two values hold the position in each stream: ``keep`` and ``at``,
see `random123`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from clhines.simulator.mechanisms.ir.compiled import NEVER
from clhines.simulator.mechanisms.ir.expressions import Node
from clhines.simulator.mechanisms.ir.passes.remove_singularities import without_trap
from clhines.simulator.mechanisms.ir.program import GENERATOR
from clhines.simulator.mechanisms.nmodl.meaning import function_table
from clhines.simulator.mechanisms.nmodl.meaning.functions import FUNCTIONS, built_in, whole
from clhines.simulator.mechanisms.nmodl.reading.c import OF_ION, UNREAD
from clhines.simulator.mechanisms.nmodl.reading.names import plain
from clhines.simulator.mechanisms.nmodl.reading.parse import NUMBERS
from clhines.simulator.mechanisms.nmodl.reading.tree import (
    GIVEN,
    PICK,
    PICKED,
    Block,
    Expression,
    Refused,
    Statement,
    refuse,
)
from clhines.simulator.mechanisms.nmodl.values import BlockValues, stream_keys
from clhines.simulator.refusals import REFUSALS, Sentence, refusal

DRAWS = {  # functions that draw from NEURON's one generator, and the same of a RANDOM variable
    "scop_random": "random_uniform", "exprand": "random_negexp", "normrand": "random_normal",
    "set_seed": "", "setseed": "",
}  # fmt: skip
ONE_GENERATOR = REFUSALS["mod.one-generator"].sentence.partition("}")[2]
# functions that NEURON offers to every file and that are not supported
OF_NEURON = frozenset(
    "b_flux boundary deflate derivs erf error expfit f_flux factorial first_time force gauss "
    "harmonic hyperbol invert legendre nrn_random_play perpulse perstep poisrand poisson prterr "
    "pulse ramp revhyperbol revsawtooth revsigmoid romberg sawtooth schedule sigmoid spline "
    "squarewave step stepforce threshold".split()
)
_NUMBERS_OF_VALUES = {  # how many values may follow the RANDOM variable in a call
    "random_uniform": (0, 2), "random_normal": (0, 2), "random_negexp": (0, 1),
    "random_ipick": (0,), "random_dpick": (0,), "random_setseq": (1,),
}  # fmt: skip
_DRAWING_BLOCKS = (
    "initial", "current", "advance", "receive", "before_initial", "after_initial",
    "before_breakpoint", "after_solve", "before_step",
)  # fmt: skip


class Evaluation(BlockValues):
    """Evaluate a block's expressions; the subclass `Execution` executes its statements."""

    body: Callable[[Sequence[Statement]], None]
    inlined: Callable[[Block, Sequence[Node], int], Node]
    send: Callable[[str, Sequence[Expression], int], Node]
    refuse_verbatim: Callable[[Sentence, int], None]

    def expression(self, e: Expression) -> Node:
        sort = e[0]
        if sort == "number":
            return self.graph.number(e[1])
        if sort == "name":
            return self.read(str(e[1]), self.index(e[2]))
        if sort == "call":
            return self.call(str(e[1]), e[2], int(e[3]))
        if sort == "neg":
            return -self.expression(e[1])
        if sort == "not":
            return self.graph.negated(self.truth(self.expression(e[1])))
        if sort == "^":  # a call in C
            return built_in(self.graph, "pow", self.in_any_order(e[1:]))
        if sort == "text":
            raise refuse("mod.text-expression")
        return self._operators(e)

    def _operators(self, e: Expression) -> Node:
        chain: list[tuple[str, Expression]] = []
        while e[0] in _OPERATORS:
            chain.append((str(e[0]), e[2]))
            e = e[1]
        value = self.expression(e)
        place = len(chain) - 1
        while place >= 0:
            sign = chain[place][0]
            if sign in "+-":
                terms = [value]
                while place >= 0 and chain[place][0] in "+-":
                    term = self.expression(chain[place][1])
                    terms.append(-term if chain[place][0] == "-" else term)
                    place -= 1
                value = self.graph.add(terms)
                continue
            right = chain[place][1]
            is_logical = sign in ("&&", "||")
            b = self._right_side(sign, value, right) if is_logical else self.expression(right)
            value = self._operator(sign, value, b)
            place -= 1
        return value

    def _right_side(self, sign: str, left: Node, e: Expression) -> Node:
        """Return the value of `e`, the right side of `sign`, && or ||; `left` is the left value.

        As in C, the right side sets and draws nothing if the left side decides the result.
        """
        condition = self.truth(left)
        condition = condition if sign == "&&" else self.graph.negated(condition)
        before, guard = dict(self.values), self.guard
        self.guard = self.graph.both(guard, condition) if guard is not self.graph.one else condition
        value = self.expression(e)
        self.guard = guard
        for key, old in self._changed(before).items():
            self.values[key] = self.graph.where(condition, self.values[key], old)
        return value

    def _changed(self, before: Mapping[str, Node]) -> dict[str, Node]:
        old = {k: before.get(k) or ("\0" not in k and self.graph.symbol(k)) for k in self.values}
        return {k: x for k, x in old.items() if isinstance(x, Node) and x is not self.values[k]}

    def _operator(self, sign: str, a: Node, b: Node) -> Node:
        graph = self.graph
        if sign == "*":
            return a * b
        if sign == "/":
            if b.definition is graph.zero:
                return a * graph.symbol(NEVER)  # infinite, or no number, as in C
            return a / b
        if sign in ("<", "<=", ">", ">="):
            return graph.less(*((a, b) if "<" in sign else (b, a)), or_equal="=" in sign)
        if sign in ("==", "!="):
            same = graph.both(graph.less(a, b, True), graph.less(b, a, True))
            return same if sign == "==" else graph.negated(same)
        if sign == "&&":
            return graph.both(self.truth(a), self.truth(b))
        neither = graph.both(graph.negated(self.truth(a)), graph.negated(self.truth(b)))
        return graph.negated(neither)

    def truth(self, e: Node) -> Node:
        """Return a number as a condition that is true unless the number is 0."""
        plain = e.definition
        if plain.is_number:
            return self.graph.number(int(plain.value != 0))
        return plain if plain.op in ("less", "lessequal", "both") else e

    def index(self, e: Expression | None) -> int | None:
        """Evaluate an index, if there is one; Refused unless it is constant."""
        if e is None:
            return None
        number = self.integer(e).definition
        if not number.is_number:
            raise refuse("mod.index-not-constant")
        return int(number.value)

    def integer(self, e: Expression) -> Node:
        """Evaluate an integer expression, in which each name's value loses its fraction."""
        if e[0] not in ("+", "-", "*", "/"):
            return whole(self.expression(e))
        a, b = (self.integer(part) for part in e[1:])
        if e[0] == "+":
            return a + b
        if e[0] == "-":
            return a - b
        if e[0] == "*":
            return a * b
        half = self.graph.number(Fraction(1, 2))  # keeps quotients away from whole numbers
        return whole((a + self.graph.where(self.graph.less(a, self.graph.zero), -half, half)) / b)

    def call(self, name: str, arguments: Sequence[Expression], line: int) -> Node:
        block = self.file.blocks.get(name)
        if block is None:
            return self._other_call(name, arguments, line)
        if block.sort == "FUNCTION_TABLE":
            return function_table.value(self, block, self.in_any_order(arguments, line), line)
        if block.sort not in ("FUNCTION", "PROCEDURE"):
            raise refuse("mod.block-called", line, sort=block.sort, name=name)
        values = self.in_any_order(arguments, line)
        if len(values) != len(block.arguments):
            raise refuse("mod.called-with", line, name=name, got=f"{len(values)} arguments")
        return self.inlined(block, values, line)

    def _other_call(self, name: str, arguments: Sequence[Expression], line: int) -> Node:
        if name in ("net_send", "net_event", "net_move"):
            return self.send(name, arguments, line)
        begins_with_name = bool(arguments) and arguments[0][0] == "name"
        if name.startswith("random_") and begins_with_name:
            values = self.in_any_order(arguments[1:], line)
            return drawn(self, name, str(arguments[0][1]), values, line)
        fits = {
            "state_discontinuity": begins_with_name and len(arguments) == 2,
            "nrn_ghk": len(arguments) == 4,
            PICK: begins_with_name,
        }
        if name in _SPECIAL_CALLS and fits.get(name, True):
            return _SPECIAL_CALLS[name](self, arguments, line)
        if name in DRAWS or name == "hoc_execerror":
            return _draw_or_fail(self, name, arguments, line)
        if name not in FUNCTIONS:
            raise _unknown(name, line)
        if len(arguments) != FUNCTIONS[name]:
            raise refuse("mod.called-arguments", line, name=name, count=len(arguments))
        return built_in(self.graph, name, self.in_any_order(arguments, line))

    def in_any_order(self, arguments: Sequence[Expression], line: int = 0) -> list[Node]:
        """Return the arguments' values; Refused if they depend on the order of evaluation.

        C leaves the order open. One argument may draw or set variables if the others have the same
        values before and after it.
        """
        if len(arguments) < 2:
            return [self.expression(a) for a in arguments]
        nodes, others, ends = list[Node](), list[tuple[Expression, Node]](), []
        for argument in arguments:
            start = dict(self.values)
            nodes.append(self.expression(argument))
            if self._changed(start):
                ends += [start, dict(self.values)]
            else:
                others.append((argument, nodes[-1]))
        alike, kept = len(ends) <= 2, self.values  # at most one argument changes something
        for values in ends if alike else ():
            self.values = dict(values)
            alike &= all(self.expression(a).definition is x.definition for a, x in others)
        self.values = kept
        if not alike:
            raise refuse("mod.order-of-arguments", line)
        return nodes


def _draw_or_fail(run: Evaluation, name: str, arguments: Sequence[Expression], line: int) -> Node:
    """Call hoc_execerror, or a function in `DRAWS`.

    A call that clhines does not support must be in an IF whose condition is false in every run.
    """
    if run.shared.draws and (DRAWS.get(name) or name == "set_seed"):
        return _of_generator(run, name, run.in_any_order(arguments, line), line)
    if run.guard is run.graph.one or not (name == "hoc_execerror" or DRAWS[name]):
        raise _unknown(name, line)
    run.shared.unless.append((run.where, run.guard, _unknown(name, line)))
    return run.graph.call("log", -run.graph.symbol(NEVER))


def _pointing(run: Evaluation, arguments: Sequence[Expression], line: int) -> Node:
    is_set = f"{arguments[0][1]}_{GIVEN}"
    declared = run.names.variable(is_set) is not None
    return run.read(is_set, None, line) if declared else run.graph.one


def _discontinuity(run: Evaluation, arguments: Sequence[Expression], line: int) -> Node:
    """Set the state; NEURON ignores this in BREAKPOINT's second execution (`jumps` is None)."""
    target = arguments[0]
    index = run.index(target[2])
    value = run.expression(arguments[1])
    if run.jumps is not None:
        run.jumps = True
        run.write(str(target[1]), index, value, line)
    return run.graph.zero


def _unread(run: Evaluation, arguments: Sequence[Expression], line: int) -> Node:
    run.refuse_verbatim(refusal("mod.verbatim"), line)
    return run.graph.zero


def _of_ion(run: Evaluation, arguments: Sequence[Expression], line: int) -> Node:
    name, ions = str(arguments[0][1]), run.file.ions
    if name not in run.file.ion_variables or name in {f"i{ion.name}" for ion in ions}:
        raise refuse("mod.verbatim", line)
    key = run.names.element(name, None, line)
    run.reads[key] = None
    return run.graph.symbol(key)


def _picked(run: Evaluation, arguments: Sequence[Expression], line: int) -> Node:
    name = str(arguments[0][1])
    number = drawn(run, "random_uniform", name, (), line)
    low, width, mean = (run.read(f"{name}_{end}", None, line) for end in PICKED)
    return low + width * number - mean * run.graph.call("log", number)


def _goldman(run: Evaluation, arguments: Sequence[Expression], line: int) -> Node:
    v, inside, outside, z = run.in_any_order(arguments, line)
    graph, (faraday, gas) = run.graph, (NUMBERS[name][0] for name in ("faraday", "R"))
    kelvin = run.value(run.names.element("celsius", None)) + graph.number(Fraction("273.15"))
    x = graph.local("_ghk", z * v * graph.number(faraday / (1000 * gas)) / kelvin)

    def ratio(x: Node) -> Node:
        small = graph.less(graph.call("abs", x), graph.number(Fraction(1, 10**4)))
        first = graph.one - x / 2
        full = x / (graph.call("exp", x) - graph.one)
        return without_trap(small, first, full) or graph.where(small, first, full)

    flow = inside * ratio(-x) - outside * ratio(x)
    return graph.number(faraday / 1000) * z * flow


def _of_generator(run: Evaluation, name: str, values: Sequence[Node], line: int) -> Node:
    if len(values) != {"scop_random": 0, "normrand": 2}.get(name, 1):
        raise refuse("mod.called-arguments", line, name=name, count=len(values))
    if name == "set_seed":
        if "initial" not in run.where:  # float32 has no whole numbers above 2**24
            raise refuse("mod.set-seed", line, where=run.block)
        return drawn(run, "random_setseq", GENERATOR, values, line, name)
    return drawn(run, DRAWS[name], GENERATOR, values, line, name)


def _at_time(run: Evaluation, arguments: Sequence[Expression], line: int) -> Node:
    graph, time = run.graph, run.expression(arguments[-1])
    t, dt = run.read("t"), run.read("dt")
    x = time - graph.number(Fraction(1, 10**11))
    return graph.both(graph.less(x, t, or_equal=True), graph.less(t - dt, x))


# functions that take more than numbers, or that depend on the block's variables
_SPECIAL_CALLS: dict[str, Callable[[Evaluation, Sequence[Expression], int], Node]] = {
    "nrn_pointing": _pointing,
    "state_discontinuity": _discontinuity,
    "printf": lambda run, arguments, line: run.graph.zero,  # says nothing to a simulation
    "nrn_ghk": _goldman,
    "at_time": _at_time,
    PICK: _picked,
    OF_ION: _of_ion,
    UNREAD: _unread,
}


def _unknown(name: str, line: int) -> Refused:
    if name in DRAWS:
        what = refusal("mod.one-generator", name=name)
        other = f" and call {DRAWS[name]}" * bool(DRAWS[name])
        return Refused(what, line, f"declare a RANDOM variable{other}, or use a NetStim")
    if name in OF_NEURON:
        return refuse("mod.function-of-neuron", line, name=name)
    if name == "hoc_execerror":
        return refuse("mod.hoc-execerror", line)
    return refuse("mod.unknown-function", line, name=name)


_OPERATORS = frozenset("+ - * / < <= > >= == != && ||".split())


def drawn(
    run: BlockValues, function: str, name: str, values: Sequence[Node], line: int, shown: str = ""
) -> Node:
    """Call a RANDOM function, such as ``random_normal``, for the RANDOM variable `name`.

    `values` are the other arguments. Messages call the function `shown`.
    """
    _check_draw(run, function, name, len(values), line, shown or function)
    run.drew[name] = None
    graph, plain_name = run.graph, plain(name)
    keep, at = stream_keys(name)
    if function == "random_setseq":
        begin = graph.local("_begin", graph.call("floor", values[0]))
        run.values[keep], run.values[at] = graph.zero, begin
        if name == GENERATOR:
            run.values[keep], run.values[at] = -graph.one - begin, graph.zero
        return graph.zero
    place = run.values.get(keep, graph.one), run.values.get(at, graph.zero)
    drawn_before = graph.symbol(f"{plain_name}__drawn")
    arguments: tuple[Node, ...] = graph.symbol(f"{plain_name}__stream"), drawn_before, *place
    kind = {"random_ipick": "random_pick", "random_dpick": "random_uniform"}.get(function, function)
    used_by = "random_used"
    if name == GENERATOR:
        arguments, kind, used_by = arguments[1:], kind.replace("random", "scop"), "scop_used"
    used = graph.call(used_by, *arguments) if function == "random_normal" else graph.one
    value = graph.local(f"_{plain_name}_drawn", graph.call(kind, *arguments))
    run.values[keep] = place[0]
    run.values[at] = graph.local(f"_{plain_name}_place", place[1] + used)
    return _scaled(function, value, values)


def _check_draw(
    run: BlockValues, function: str, name: str, count: int, line: int, shown: str
) -> None:
    if name not in run.file.random:
        raise refuse("mod.not-random", line, function=function, name=name)
    if function not in _NUMBERS_OF_VALUES:
        raise refuse("mod.random-ids", line, function=function)
    if count not in _NUMBERS_OF_VALUES[function]:
        raise refuse("mod.random-arguments", line, function=function, count=count + 1)
    is_once = not run.rules or (name == GENERATOR and "once" in run.rules)
    in_loop = run.inside_loop and not run.draws_inside
    if run.where not in _DRAWING_BLOCKS or run.is_repeated or not is_once or in_loop:
        raise refuse("mod.draw-in-block", line, value=shown, where=run.block)


def _scaled(function: str, value: Node, values: Sequence[Node]) -> Node:
    if not values:
        return value
    if function == "random_uniform":
        return values[0] + value * (values[1] - values[0])
    if function == "random_normal":
        return values[0] + value * values[1]
    return value * values[0]


def counts(run: BlockValues) -> list[tuple[str, str, Node]]:
    """Return each random stream's total of drawn words, as results of a block."""
    word_counts = []
    for name in run.drew:
        symbol = run.graph.symbol(f"{plain(name)}__drawn")
        place = [run.values[key] for key in stream_keys(name)]
        call = "scop_count" if name == GENERATOR else "random_count"
        word_counts.append(("drawn", plain(name), run.graph.call(call, symbol, *place)))
    return word_counts
