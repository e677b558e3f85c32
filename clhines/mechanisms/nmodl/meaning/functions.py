"""Mathematical functions of NMODL on a `Graph`."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from clhines.mechanisms.ir.expressions import Graph, Node
from clhines.mechanisms.nmodl.reading.tree import Refused

NAMES = {  # number of arguments
    **dict.fromkeys("exp log log10 sqrt fabs abs sin cos tan sinh cosh tanh".split(), 1),
    **dict.fromkeys("floor ceil asin acos atan".split(), 1),
    "pow": 2, "fmod": 2, "atan2": 2,
}  # fmt: skip
DRAWS = {  # of NEURON's one generator, and the functions of RANDOM variables instead
    "scop_random": "random_uniform", "exprand": "random_negexp", "normrand": "random_normal",
    "poisrand": "", "set_seed": "", "setseed": "",
}  # fmt: skip
# the other functions that NEURON gives to every file
OF_NEURON = frozenset(
    "b_flux boundary deflate derivs erf error expfit f_flux factorial first_time force gauss "
    "harmonic hyperbol invert legendre nrn_ghk nrn_random_play perpulse perstep poisson prterr "
    "pulse ramp revhyperbol revsawtooth revsigmoid romberg sawtooth schedule sigmoid spline "
    "squarewave step stepforce threshold".split()
)


def built_in(graph: Graph, name: str, values: Sequence[Node]) -> Node:
    """Return the value of a function of `NAMES`."""
    x = values[0]
    if name == "sqrt":
        return graph.sqrt(x)
    if name in ("fabs", "abs"):
        return graph.call("abs", x)
    if name == "log10":
        return graph.call("log", x) / graph.call("log", graph.number(10))
    if name == "pow":
        return _power(graph, x, values[1])
    if name in ("exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh"):
        return graph.call(name, x)
    if name in ("floor", "ceil") and x.definition.is_number:
        value = x.definition.value
        return graph.number(value.__floor__() if name == "floor" else value.__ceil__())
    return graph.call(name, *values)


def _power(graph: Graph, base: Node, exponent: Node) -> Node:
    plain, number = base.definition, exponent.definition
    if number.is_number:
        if plain.is_number and plain.value < 0 and number.value.denominator != 1:
            raise Refused(f"({float(plain.value):g})^{float(number.value):g}")
        return graph.power(plain if plain.is_number else base, number)
    if plain.is_number and plain.value == Fraction(0):
        return graph.where(graph.less(graph.zero, exponent), graph.zero, graph.one)
    return graph.power(plain if plain.is_number else base, exponent)
