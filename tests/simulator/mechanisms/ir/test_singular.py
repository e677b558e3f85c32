"""Removable singularities."""

import mpmath
import numpy as np
import pytest
from mechanism_texts import minimal

from clhines.core.errors import InputError
from clhines.simulator.mechanisms.mechanism import Mechanism

pytestmark = pytest.mark.core

SINGULAR = {  # a rate and its removable singularity in v (mV)
    "hh": ("(v + 40)/(1 - exp(-(v + 40)/10))", -40),
    "other sign": ("-0.32*(v + 47)/(exp(-0.25*(v + 47)) - 1) + 4*exp(-v/10)", -47),
    "turned": ("(0.25*v + 4)/(exp(v/16 + 1) - 1)", -16),
    "scaled": ("(v - 20*log(2))/(exp(v/20) - 2)", 20 * np.log(2)),
    "square": ("((v + 40)/(1 - exp(-(v + 40)/10)))^2", -40),
    "hyperbolic": ("(v + 30)/tanh((v + 30)/5)", -30),
    "sine": ("(v + 30)/sinh((v + 30)/25)", -30),
    "reciprocal": ("(1 - exp(-(v + 25)/9))/(v + 25)", -25),
    "current of a field": ("v*(0.1 - 2*exp(-v/25))/(1 - exp(-v/25))", 0),
    "power of ten": ("(v - 40)/(10^(v/20 - 2) - 1)", 40),
    "difference": ("(v + 50)/(exp((v + 50)/40) - exp(-(v + 50)/30))", -50),
}


def distances():
    """Return distances from the point: 0, tiny ones, and ones at which nothing cancels."""
    steps = 10.0 ** np.arange(-18, 2)
    return np.concatenate([[0.0], steps, -steps, np.linspace(-30, 30, 41)])


def exactly(source, v):
    """Return an expression at v to 200 digits, and its limit if it is 0 / 0."""
    names = {f: getattr(mpmath, f) for f in ("exp", "tanh", "sinh", "log")}
    code = compile(source.replace("^", "**").replace("20*log(2)", "20*log(mpf(2))"), "rate", "eval")
    names["mpf"] = mpmath.mpf

    def at(x):
        return eval(code, {}, {**names, "v": x})

    with mpmath.workdps(200):
        try:
            return float(at(mpmath.mpf(v)))
        except ZeroDivisionError:
            tiny = mpmath.mpf(10) ** -60
            return float((at(v + tiny) + at(v - tiny)) / 2)


@pytest.mark.parametrize("name", SINGULAR)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_removable_singularities_are_removed(name, dtype):
    source, point = SINGULAR[name]
    m = Mechanism(minimal(f"current i = {source}"))
    assert "bernoulli" in m.functions("double")
    v = (point + distances()).astype(dtype)
    v = np.concatenate([v, np.nextafter(dtype(point), [dtype(-99), dtype(99)])])
    expected = np.array([exactly(source, float(x)) for x in v])
    got, slope = m.current(v, dtype(0))
    # roundings of v's own size in an exponent, and eightfold in a shared exponential
    scale = np.abs(expected) * (8 + np.abs(v) / 5) + 1e-3
    assert (np.abs(got - expected) <= 4 * np.finfo(dtype).eps * scale).all()
    h = 1e-4
    middle = v.astype(np.float64)
    both = [np.array([exactly(source, float(x)) for x in middle + s * h]) for s in (-1, 1)]
    size = np.abs(slope) + np.abs(got) / 10 + 1e-3
    bound = 4 * np.finfo(dtype).eps * (8 + np.abs(v)) + 1e-7
    assert (np.abs(slope - (both[1] - both[0]) / (2 * h)) <= bound * size).all()


@pytest.mark.parametrize("rate", ["sin(v + 40)/(v + 40)", "(v - 3)^2/(cosh(v - 3) - 1 + v - 3)"])
def test_what_is_left_of_0_by_0_is_refused(rate):
    with pytest.raises(InputError, match="line 3: 'a' is 0/0 at v = "):
        Mechanism(minimal(f"current i = a*v\na = {rate}"))
    assert Mechanism(minimal(f"current i = where(abs(v) < 0.1, 0, {rate})"))


def test_a_pole_is_left_alone():
    m = Mechanism(minimal("current i = (v + 41)/(1 - exp(-(v + 40)/10))"))
    assert "bernoulli" not in m.source
    assert np.isinf(m.current(np.array([-40.0]), 0.0)[0][0])


def test_singularities_with_parameters():
    rate = "(v - half)/(1 - exp((half - v)/k))"
    m = Mechanism(minimal(f"parameter half = -40 mV\nparameter k = 10 mV\ncurrent i = {rate}"))
    v = np.array([-35.5, np.nextafter(-35.5, 0)])
    got = m.current(v, 0.0, {"half": -35.5, "k": 7.0})[0]
    assert got[0] == 7
    assert got[1] == pytest.approx(7, rel=1e-15)
