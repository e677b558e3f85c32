"""Functions that every file may call, as expressions: those of C, and of NEURON's library scopmath.

Of the latter here are those whose values hang on their arguments alone. What they do besides is for
integrators that NEURON has no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from clhines.simulator.mechanisms.ir.expressions import Graph, Node
from clhines.simulator.mechanisms.nmodl.reading.tree import Refused
from clhines.simulator.refusals import refusal

FUNCTIONS = {  # number of arguments
    **dict.fromkeys("exp log log10 sqrt fabs abs sin cos tan sinh cosh tanh".split(), 1),
    **dict.fromkeys("floor ceil asin acos atan".split(), 1),
    "pow": 2, "fmod": 2, "atan2": 2,
}  # fmt: skip
_TWO_PI = "6.2831853", "6.28318530"  # as harmonic and gauss have it


def built_in(graph: Graph, name: str, values: Sequence[Node]) -> Node:
    """Return the value of a function of `FUNCTIONS` or `SCOP`."""
    x = values[0]
    if name in SCOP:
        return SCOP[name][1](graph, *values)
    if name == "sqrt":
        return graph.sqrt(x)
    if name in ("fabs", "abs"):
        return graph.call("abs", x)
    if name == "log10":
        return graph.call("log", x) / graph.call("log", graph.number(10))
    if name == "pow":
        return _power(graph, x, values[1])
    if name in ("floor", "ceil") and x.definition.is_number:
        value = x.definition.value
        return graph.number(value.__floor__() if name == "floor" else value.__ceil__())
    return graph.call(name, *values)


def _power(graph: Graph, base: Node, exponent: Node) -> Node:
    plain, number = base.definition, exponent.definition
    if number.is_number:
        if plain.is_number and plain.value < 0 and number.value.denominator != 1:
            raise Refused(
                refusal(
                    "mod.power-of-numbers", value=float(plain.value), value2=float(number.value)
                )
            )
        return graph.power(plain if plain.is_number else base, number)
    if plain.is_number and plain.value == Fraction(0):
        return graph.where(graph.less(graph.zero, exponent), graph.zero, graph.one)
    return graph.power(plain if plain.is_number else base, exponent)


def whole(x: Node) -> Node:
    """Return a number without its fraction, as C's int."""
    graph, plain = x.graph, x.definition
    if plain.is_number:
        return graph.number(int(plain.value))
    return graph.where(graph.less(x, graph.zero), graph.call("ceil", x), graph.call("floor", x))


def _part(x: Node) -> Node:
    """Return what is behind the point of a number, with its sign, as C's modf."""
    return x - whole(x)


def _step(graph: Graph, t: Node, begin: Node, jump: Node) -> Node:
    return graph.where(graph.less(t, begin), graph.zero, jump)


def _pulse(graph: Graph, t: Node, lag: Node, height: Node, duration: Node) -> Node:
    inside = graph.where(graph.less(t, lag + duration), height, graph.zero)
    return graph.where(graph.less(t, lag), graph.zero, inside)


def _ramp(graph: Graph, t: Node, lag: Node, height: Node, duration: Node) -> Node:
    after = graph.less(lag + duration, t)
    rising = graph.where(after, height, (t - lag) * height / duration)
    return graph.where(graph.less(t, lag), graph.zero, rising)


def _perpulse(graph: Graph, t: Node, lag: Node, height: Node, duration: Node, delay: Node) -> Node:
    period = duration + delay
    at = _part((t - lag) / period) * period
    inside = graph.where(graph.less(at, duration), height, graph.zero)
    return graph.where(graph.less(t, lag), graph.zero, inside)


def _perstep(graph: Graph, t: Node, lag: Node, period: Node, jump: Node) -> Node:
    jumps = whole((t - lag) / period) + graph.one
    return graph.where(graph.less(t, lag), graph.zero, jumps * jump)


def _squarewave(graph: Graph, t: Node, period: Node, amplitude: Node) -> Node:
    first = graph.less(_part(t / period), graph.number(Fraction(1, 2)))
    return graph.where(first, amplitude, -amplitude)


def _sigmoid(graph: Graph, x: Node, most: Node, half: Node, n: Node) -> Node:
    power = built_in(graph, "pow", (x, n))
    return most * power / (power + built_in(graph, "pow", (half, n)))


def _revsigmoid(graph: Graph, x: Node, most: Node, half: Node, n: Node) -> Node:
    power = built_in(graph, "pow", (half, n))
    return most * power / (power + built_in(graph, "pow", (x, n)))


def _harmonic(graph: Graph, t: Node, period: Node, amplitude: Node, offset: Node) -> Node:
    turn = graph.number(Fraction(_TWO_PI[0])) / period * (t + offset)
    return amplitude * graph.call("sin", turn)


def _gauss(graph: Graph, x: Node, mean: Node, deviation: Node) -> Node:
    far = (x - mean) / deviation
    value = graph.call("exp", graph.number(Fraction(-1, 2)) * (far * far))
    return value / (graph.sqrt(graph.number(Fraction(_TWO_PI[1]))) * deviation)


SCOP: dict[str, tuple[int, Callable[..., Node]]] = {  # number of arguments
    "step": (3, _step),
    "pulse": (4, _pulse),
    "ramp": (4, _ramp),
    "perpulse": (5, _perpulse),
    "perstep": (4, _perstep),
    "squarewave": (3, _squarewave),
    "sawtooth": (3, lambda _, t, period, amplitude: amplitude * _part(t / period)),
    "revsawtooth": (3, lambda g, t, period, amplitude: amplitude * (g.one - _part(t / period))),
    "sigmoid": (4, _sigmoid),
    "revsigmoid": (4, _revsigmoid),
    "hyperbol": (3, lambda _, x, most, half: most * x / (x + half)),
    "revhyperbol": (3, lambda _, x, most, half: most * half / (x + half)),
    "harmonic": (4, _harmonic),
    "gauss": (3, _gauss),
}


def threshold(graph: Graph, values: Sequence[Node], mode: str, line: int) -> Node:
    """Return 1 where a number is at least a limit (``min``), or at most (``max``), else 0."""
    x, limit = values
    if mode not in ("min", "max"):
        raise Refused(refusal("mod.threshold-mode", mode=mode), line)
    low, high = (limit, x) if mode == "min" else (x, limit)
    return graph.where(graph.less(low, high, or_equal=True), graph.one, graph.zero)
