"""Systems of equations whose entries are expressions, against LAPACK; cyclic states."""

from fractions import Fraction

import numpy as np
import pytest

from clhines.simulator.mechanisms.ir import elimination
from clhines.simulator.mechanisms.ir.exact import ExpressionError
from clhines.simulator.mechanisms.ir.expressions import Graph

pytestmark = pytest.mark.core


def system(matrix, right):
    """Return a graph, and a system of numbers in the form for `solved`."""
    graph = Graph()
    names = [f"x{k}" for k in range(len(matrix))]
    rows = {
        name: {c: graph.number(Fraction(x)) for c, x in zip(names, row, strict=True) if x}
        for name, row in zip(names, matrix.tolist(), strict=True)
    }
    return graph, rows, dict(zip(names, (graph.number(Fraction(x)) for x in right), strict=True))


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_systems_of_numbers(n):
    rng = np.random.default_rng(n)
    matrix = rng.integers(-9, 10, (n, n)) * (rng.random((n, n)) < 0.6)
    np.fill_diagonal(matrix, 40)
    right = rng.integers(-9, 10, n).tolist()
    _, rows, b = system(matrix, right)
    result = elimination.solved(rows, b, lambda name, node: node)
    got = [float(result[name].value) for name in rows]
    np.testing.assert_allclose(got, np.linalg.solve(matrix, right), rtol=1e-12, atol=1e-12)


def test_rows_are_exchanged_where_no_diagonal_entry_is_left():
    graph, rows, b = system(np.array([[0, 2, 0], [0, 0, 4], [5, 0, 0]]), [6, 8, 10])
    result = elimination.solved(rows, b, graph.local)
    assert [float(x.value) for x in (result["x0"], result["x1"], result["x2"])] == [2, 3, 2]


def test_what_cannot_be_solved_is_refused(monkeypatch):
    graph, rows, b = system(np.array([[1, 1], [2, 2]]), [1, 2])
    with pytest.raises(ExpressionError, match="singular"):
        elimination.solved(rows, b, graph.local)
    monkeypatch.setattr(elimination, "MAX_PRODUCTS", 10)
    graph, rows, b = system(np.full((4, 4), 1) + np.eye(4, dtype=int), [1] * 4)
    with pytest.raises(ExpressionError, match="more than 10 products; expected fewer or sparser"):
        elimination.solved(rows, b, graph.local)
