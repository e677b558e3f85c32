"""Methods for states: each step against the equation's solution."""

import mpmath
import numpy as np
import pytest
from mechanism_texts import minimal
from scipy.linalg import expm

from clhines.core.errors import InputError
from clhines.simulator.mechanisms.mechanism import Mechanism

EPS = np.finfo(np.float64).eps


def scheme(n, seed, scale=1.0):
    """Return a random kinetic scheme with n states as (n, n) rates [1/ms]; columns add up to 0."""
    rates = np.random.default_rng(seed).uniform(0.1, 2, (n, n)) * scale
    rates[np.random.default_rng(seed + 1).random((n, n)) < 0.5] = 0
    np.fill_diagonal(rates, 0)
    ring = np.roll(np.eye(n), 1, axis=0) * scale
    rates += ring + ring.T
    return rates - np.diag(rates.sum(axis=0))


def kinetics(matrix, method):
    """Return a text of linear kinetics; state 0 is 1 at the start."""
    n = len(matrix)
    lines = [f"state s{k} = {int(k == 0)}" for k in range(n)]
    for row in range(n):
        terms = " + ".join(f"({float(x)!r})*s{c}" for c, x in enumerate(matrix[row]) if x)
        lines.append(f"ds{row}/dt = {terms}")
    return minimal("\n".join([*lines, "current i = s0*v", method]))


@pytest.mark.parametrize("method", ["sparse", "derivimplicit"])
@pytest.mark.parametrize("n", [2, 3, 8, 15])
def test_an_implicit_step_solves_its_equations(method, n):
    """Compare ``(1 - dt*A) x = x0`` with LAPACK, also for stiff systems."""
    for scale in (1.0, 1000.0):
        matrix = scheme(n, n, scale)
        m = Mechanism(kinetics(matrix, f"method {method}"))
        states = m.initial(0.0)
        x, dt = np.eye(n)[0], 0.05
        condition = np.linalg.cond(np.eye(n) - dt * matrix)
        size = np.linalg.norm(matrix, 1)  # columns add up to 0 within roundings of this
        for step in range(20):
            states = m.advance(0.0, step * dt, dt, None, states)
            x = np.linalg.solve(np.eye(n) - dt * matrix, x)
            got = np.array([float(states[s]) for s in m.states])
            assert np.abs(got - x).max() <= 32 * (step + 1) * condition * EPS
            assert abs(got.sum() - 1) <= 8 * (step + 1) * (1 + dt * size) * EPS


def test_implicit_steps_converge_to_the_exponential_of_the_matrix():
    matrix = scheme(6, 3)
    m = Mechanism(kinetics(matrix, "method sparse"))
    exact = expm(matrix)[:, 0]
    errors = []
    for count in (40, 80, 160):
        states = m.initial(0.0)
        for step in range(count):
            states = m.advance(0.0, step / count, 1 / count, None, states)
        errors.append(np.abs([states[s] for s in m.states] - exact).max())
    np.testing.assert_allclose(np.array(errors[:-1]) / errors[1:], 2, rtol=0.1)


def test_newtons_iteration_ends_at_the_root():
    """Compare a quadratic buffer's step with its polynomial's roots."""
    lines = "state a = 1\nstate b = 0.2\nda/dt = -3*a*b + 0.4*(1 - a)\ndb/dt = -3*a*b + 0.4*(1 - a)"
    m = Mechanism(minimal(f"{lines}\ncurrent i = a*v\nmethod derivimplicit"))
    dt = np.array([1e-3, 0.025, 0.5, 50.0])
    after = m.advance(0.0, 0.0, dt, None, {"a": 1.0, "b": 0.2})
    for k, h in enumerate(dt):
        # a - b stays 0.8; a - 1 = h*(-3*a*(a - 0.8) + 0.4*(1 - a))
        roots = np.roots([3 * h, 1 + 0.4 * h - 2.4 * h, -1 - 0.4 * h])
        a = roots[roots > 0][0]
        assert after["a"][k] == pytest.approx(a, rel=1e-13)
        assert after["a"][k] - after["b"][k] == pytest.approx(0.8, rel=1e-13)


def test_what_does_not_converge_is_nan():
    m = Mechanism(minimal("state a = 1\nda/dt = a^2 + 1\ncurrent i = a\nmethod derivimplicit"))
    after = m.advance(0.0, 0.0, np.array([0.01, 10.0]), None, {"a": np.ones(2)})
    root = (1 - np.sqrt(1 - 4 * 0.01 * 1.01)) / 0.02
    assert after["a"][0] == pytest.approx(root, rel=1e-12)
    assert np.isnan(after["a"][1])  # a - 1 = 10*(a^2 + 1) has no real root


def test_states_see_the_new_values_of_those_above():
    lines = "state x = 1\nstate y = 0\ndx/dt = -x\nboth = 2*x\ndy/dt = both - y\ncurrent i = y*v"
    m = Mechanism(minimal(lines))
    dt = 0.1
    after = m.advance(0.0, 0.0, dt, None, {"x": 1.0, "y": 0.0})
    x = np.exp(-dt)
    assert after["x"] == pytest.approx(x, rel=4 * EPS)
    assert after["y"] == pytest.approx(2 * x * (1 - np.exp(-dt)), rel=8 * EPS)
    other = Mechanism(minimal(lines.replace("dx/dt = -x\n", "") + "\ndx/dt = -x"))
    after = other.advance(0.0, 0.0, dt, None, {"x": 1.0, "y": 0.0})
    assert after["y"] == pytest.approx(2 * (1 - np.exp(-dt)), rel=8 * EPS)
    explicit = Mechanism(minimal(lines + "\nmethod euler all"))
    after = explicit.advance(0.0, 0.0, dt, None, {"x": 1.0, "y": 0.0})
    assert after["y"] == pytest.approx(dt * 2, rel=4 * EPS)


def test_rates_see_the_end_of_the_step():
    m = Mechanism(minimal("state x = 0\ndx/dt = t\ncurrent i = x"))
    assert m.advance(0.0, 2.0, 0.5, None, {"x": 0.0})["x"] == 0.5 * 2.5


def advanced(text, dt, until=2.0):
    m = Mechanism(text)
    states = m.initial(np.float64(-20.0))
    for k in range(round(until / dt)):
        states = m.advance(np.float64(-20.0), k * dt, dt, None, states)
    return np.array([states[s] for s in m.states])


@pytest.mark.parametrize(
    "method, order", [("method euler", 1), ("method rk2", 2), ("method rk4", 4)]
)
def test_methods_converge_with_their_order(method, order):
    lines = "state y = 0.9\nstate z = 0.2\ndy/dt = -y^2*z*(1 + 0.3*sin(2*t))\ndz/dt = y*z - z^3"
    text = minimal(f"{lines}\ncurrent i = y*z*v\n{method}")
    dt = 0.1 if order == 4 else 0.02
    truth = advanced(text.replace(method, "method rk4"), 0.02 / 32)
    errors = [np.abs(advanced(text, dt / 2**k) - truth).max() for k in range(3)]
    ratios = np.array(errors[:-1]) / errors[1:]
    np.testing.assert_allclose(ratios, 2.0**order, rtol=0.15)


def test_exponential_euler_is_exact_where_the_rest_is_constant():
    m = Mechanism(minimal("parameter b = 3 1/ms\nstate x = 0.2\ndx/dt = 0.7 - b*x\ncurrent i = x"))
    for b in (3.0, 1e-3, 1e-12, 1e-300, 0.0, -0.5):
        got = m.advance(0.0, 0.0, 0.5, {"b": b}, {"x": 0.2})["x"]
        with mpmath.workdps(60):
            z = mpmath.mpf(b) * 0.5
            grown = -mpmath.expm1(-z) / b if b else mpmath.mpf(0.5)
            expected = float(mpmath.mpf(0.2) * mpmath.exp(-z) + mpmath.mpf(0.7) * grown)
        assert got == pytest.approx(expected, rel=4e-16)


def test_linear_states_beside_one_that_is_not():
    lines = "state x = 1\nstate y = 1\ndx/dt = y - x\ndy/dt = -y^3"
    m = Mechanism(minimal(f"{lines}\ncurrent i = x*y\nmethod euler"))
    after = m.advance(0.0, 0.0, 0.1, None, {"x": 2.0, "y": 0.5})
    assert after["x"] == pytest.approx(0.5 + 1.5 * np.exp(-0.1))  # y keeps its old value
    assert after["y"] == pytest.approx(0.5 - 0.1 * 0.125)
    every = Mechanism(minimal(f"{lines}\ncurrent i = x*y\nmethod euler all"))
    after = every.advance(0.0, 0.0, 0.1, None, {"x": 2.0, "y": 0.5})
    assert after["x"] == pytest.approx(2 - 0.15)
    assert "x: exponential Euler" in m.describe()
    assert "x: euler" in every.describe()


CIRCLES = {
    "da/dt = b - a\ndb/dt = c - b\ndc/dt = a - c\ndd/dt = -d": "line 6: states 'a', 'b', 'c' dep",
    "da/dt = c - a\ndb/dt = -b\ndc/dt = d - c\ndd/dt = c - d": "line 8: states 'c', 'd' depend",
    "da/dt = d - a\ndb/dt = c - b\ndc/dt = b - c\ndd/dt = a - d": "line 6: states 'a', 'd' depend",
}


@pytest.mark.core
@pytest.mark.parametrize("rates", CIRCLES)
def test_circles_of_states_are_named_by_their_first_state(rates):
    states = "\n".join(f"state {name} = 0" for name in "abcd")
    with pytest.raises(InputError) as caught:
        Mechanism(f"density few\n{states}\n{rates}\ncurrent i = a")
    assert CIRCLES[rates] in str(caught.value)
    Mechanism(f"density few\n{states}\n{rates}\ncurrent i = a\nmethod sparse")


@pytest.mark.core
def test_a_circle_of_names_begins_at_its_first_line():
    with pytest.raises(InputError, match=r"line 3: 'p' is defined by itself \(p -> q -> r -> p\)"):
        Mechanism("density few\ns = p\np = q + 1\nq = r*2\nr = p\ncurrent i = s*v")
