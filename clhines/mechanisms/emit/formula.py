"""Formulas: named expressions of values of instances, evaluated in NumPy after parsing.

>>> import numpy as np
>>> flow = Formula("ina = gnabar*m^3*h*(v - 50)", {"gnabar", "m", "h", "n", "v"})
>>> flow.name, flow.needs
('ina', ('gnabar', 'h', 'm', 'v'))
>>> values = {"gnabar": np.array([0.12]), "m": np.array([0.5]), "h": np.array([0.6])}
>>> flow({**values, "v": np.array([-50.0])}).round(6).tolist()
[-0.9]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce

import numpy as np

from clhines.errors import InputError, meant
from clhines.mechanisms.ir.exact import ExpressionError
from clhines.mechanisms.ir.expressions import Graph, Node, postorder
from clhines.mechanisms.text.parser import Parser, constant, shortened

_FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "pow": np.power,
    "exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "abs": np.abs, "sign": np.sign,
    "less": np.less, "lessequal": np.less_equal,
    "where": lambda c, a, b: np.asarray(np.where(np.not_equal(c, 0), a, b)),
}  # fmt: skip
_MANY: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add, "mul": np.multiply, "both": np.logical_and,
}  # fmt: skip


class Formula:
    """A named expression, ``NAME = EXPRESSION`` in the language of mechanisms.

    `known` are names that it may use, `needs` those that it uses, sorted. An InputError of one line
    says that it cannot be read, or has another name.
    """

    def __init__(self, text: str, known: Iterable[str]) -> None:
        name, _, expression = text.partition("=")
        self.text, self.name, names = text, name.strip(), sorted(known)
        if not self.name.isidentifier():
            raise InputError(f"{shortened(text)}: expected 'NAME = EXPRESSION'")
        graph = Graph()

        def resolve(symbol: str) -> Node:
            number = constant(graph, symbol)
            if number is not None and symbol not in names:
                return number
            if symbol not in names:
                known = ", ".join(dict.fromkeys(names))
                raise ExpressionError(
                    f"unknown name {shortened(symbol)}; expected one of {known}"
                    f"{meant(symbol, names)}"
                )
            return graph.symbol(symbol)

        try:
            self._root = Parser(graph, expression, resolve).parse()
        except ExpressionError as error:
            raise InputError(f"{shortened(text)}: {error}") from error
        self._order = list(postorder([self._root]))
        for node in self._order:
            if node.op not in ("number", "symbol", *_FUNCTIONS, *_MANY):
                raise InputError(f"{shortened(text)}: {node.op} cannot be recorded")
        self.needs = tuple(sorted(self._root.free))

    def __call__(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the value, float64, of arrays by name that go together."""
        found: dict[Node, np.ndarray] = {}
        with np.errstate(all="ignore"):  # `where` computes what it does not take
            for node in self._order:
                arguments = [found[a] for a in node.args]
                if node.op == "number":
                    found[node] = np.float64(float(node.value))  # type: ignore[assignment]
                elif node.op == "symbol":
                    found[node] = np.asarray(values[node.name], np.float64)
                elif node.op in _MANY:
                    found[node] = reduce(_MANY[node.op], arguments)
                else:
                    found[node] = _FUNCTIONS[node.op](*arguments)
        return np.asarray(found[self._root], np.float64)
