"""Expressions as a graph: values and slopes against exact arithmetic."""

import random
from fractions import Fraction

import pytest

from clhines.simulator.mechanisms.ir.expressions import ExpressionError, Graph, postorder, split

pytestmark = pytest.mark.core
AT = {"x": Fraction(2, 3), "y": Fraction(-5, 7), "z": Fraction(11, 4)}


class Dual:
    """A number and its derivative."""

    def __init__(self, value, slope=0):
        self.value, self.slope = Fraction(value), Fraction(slope)

    def __add__(self, other):
        return Dual(self.value + other.value, self.slope + other.slope)

    def __mul__(self, other):
        value = self.value * other.value
        return Dual(value, self.slope * other.value + self.value * other.slope)

    def power(self, k):
        return Dual(self.value**k, k * self.value ** (k - 1) * self.slope)


def made(graph, rng, depth):
    """Return a random expression of x, y and z, and the same as a `Dual` by x."""
    if not depth or rng.random() < 0.1:
        if rng.random() < 0.3:
            number = Fraction(rng.randint(-9, 9), rng.randint(1, 9))
            return graph.number(number), Dual(number)
        name = rng.choice("xyz")
        return graph.symbol(name), Dual(AT[name], name == "x")
    (a, da), (b, db) = (made(graph, rng, depth - 1) for _ in range(2))
    kind = rng.randrange(5)
    if kind == 0:
        return a + b, da + db
    if kind == 1:
        return a - b, da + Dual(-1) * db
    if kind == 2:
        return a * b, da * db
    if kind == 3:
        return graph.local("named", a), da
    k = rng.choice([2, 3, -1] if da.value else [2, 3])
    return a**k, da.power(k)


@pytest.mark.parametrize("seed", range(40))
def test_values_and_slopes_are_exact(seed):
    graph, rng = Graph(), random.Random(seed)
    root, dual = made(graph, rng, 5)
    values = {graph.symbol(name): graph.number(x) for name, x in AT.items()}
    (result,) = graph.replaced([root], dict(values))
    assert result.definition.is_number and result.definition.value == dual.value
    (slope,) = graph.replaced([graph.slope(root, "x")], dict(values))
    assert slope.definition.value == dual.slope


def test_equal_expressions_are_one_node():
    graph = Graph()
    x, y = graph.symbol("x"), graph.symbol("y")
    assert x + y is y + x and x * y * 3 is y * 3 * x and (x + 1) - 1 is x
    assert x - x is graph.zero and x * x is x**2 and (x**2) ** 3 is x**6 and x / x is graph.one
    assert split(x * y * -3) == (Fraction(-3), x * y)
    assert graph.local("a", x) is x and graph.local("a", x + y) is not x + y
    assert (x * y).free == {"x", "y"} and not graph.number(3).free
    order = [*postorder([x * y + x])]
    assert order.index(x) < order.index(x * y) and order[-1] is x * y + x


def test_choices():
    graph = Graph()
    x, y = graph.symbol("x"), graph.symbol("y")
    below = graph.less(x, y)
    assert graph.where(below, x, x) is x and graph.where(graph.one, x, y) is x
    assert graph.negated(below) is graph.less(y, x, or_equal=True)
    assert graph.less(x, x) is graph.zero and graph.less(x, x, or_equal=True) is graph.one
    choice = graph.where(below, x**2, y * 3)
    assert graph.slope(choice, "x") is graph.where(below, x * 2, graph.zero)


def test_what_is_too_large_is_refused(monkeypatch):
    graph = Graph()
    x = graph.symbol("x")
    with pytest.raises(ExpressionError, match="power 65 is too large; expected at most 64"):
        _ = x**65
    from clhines.simulator.mechanisms.ir import expressions

    monkeypatch.setattr(expressions, "MAX_NODES", graph.count + 2)
    with pytest.raises(ExpressionError, match="more than"):
        for k in range(9):
            x = graph.call("sin", x + k)
