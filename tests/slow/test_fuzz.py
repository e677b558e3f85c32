"""A seeded fuzz of mechanisms, rules of plasticity and arguments, with oracles from outside.

Each target has a module in `fuzz`: `generate` makes a case from a generator, `check` raises if it
ends with a traceback, or if what is accepted is wrong. A refusal must be one short line.
"""

import itertools
import math
import resource
import sys
import time
from collections import Counter
from importlib import import_module
from unittest.mock import Mock

import mpmath
import numpy as np
import pytest

from bench.measures.fuzz import language
from bench.measures.fuzz.common import WrongError, check_refusal

CASES = {"mechanism": 24, "rule": 24, "api": 60}
MOST_SECONDS = 5.0  # CPU time of a case; the first build of a kernel may take longer
MOST_BYTES = 200 << 20  # of a case, beyond the largest one before it


def made(target, seed):
    return target.generate(np.random.default_rng([2018, seed]))


def module(name):
    return import_module(f"bench.measures.fuzz.{name}")


def peak():
    """Return the most memory that this process has had, bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def fuzz(name, first, end):
    """Check cases from a seed on while `end` of their count is false; count the outcomes."""
    target, outcomes = module(name), Counter()
    while not end(outcomes.total()):
        seed = first + outcomes.total()
        case, before = made(target, seed), peak()
        for last in (False, True):
            begin = time.process_time()
            try:
                outcome = target.check(case)
            except Exception as error:
                raise AssertionError(f"{name}, seed {seed}: {case!r:.1500}") from error
            if time.process_time() - begin < MOST_SECONDS:
                break
            assert not last, f"{name}, seed {seed}: too slow: {case!r:.1500}"
        assert peak() - before < MOST_BYTES, f"{name}, seed {seed}: memory: {case!r:.1500}"
        outcomes[outcome] += 1
    assert outcomes.keys() == {"accepted", "refused"}
    return outcomes


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    def prepare(name):
        monkeypatch.chdir(tmp_path)
        module(name).prepare(tmp_path)

    return prepare


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_found(prepared, name):
    prepared(name)
    outcomes = fuzz(name, 140_000_000, lambda count: count == CASES[name])
    assert min(outcomes.values()) > 3  # both kinds of input are among them


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_found_in_two_minutes(prepared, name):
    prepared(name)
    end = time.monotonic() + 120
    outcomes = fuzz(name, 10_000_000, lambda _: time.monotonic() > end)
    assert min(outcomes.values()) > CASES[name]


@pytest.mark.parametrize("fault", [WrongError("planted: 3 for 4"), KeyError("planted")], ids=repr)
def test_planted_faults_are_found(prepared, monkeypatch, fault):
    checks = itertools.chain([module("rule").check] * 8, [Mock(side_effect=fault)])
    prepared("rule")
    monkeypatch.setattr(module("rule"), "check", lambda case: next(checks)(case))
    with pytest.raises(AssertionError, match="rule, seed 140000008: Case"):
        fuzz("rule", 140_000_000, lambda count: count == 20)


def test_a_case_is_made_from_its_seed_alone():
    for name in CASES:
        cases = [[made(module(name), seed) for seed in range(20)] for _ in range(2)]
        assert cases[0] == cases[1]
        assert len({repr(case) for case in cases[0]}) > 10


@pytest.mark.parametrize(
    "message", ["", "two\nlines", "x" * 301, "a bell \a", "a file\x1b[31m"], ids=repr
)
def test_refusals_are_one_readable_line(message):
    with pytest.raises(WrongError):
        check_refusal(ValueError(message))
    assert check_refusal(ValueError("x is 1; expected 2")) == "x is 1; expected 2"


HH = """
    density smooth            # a rate that is 0/0 at -40 mV
    parameter g = 120 mS/cm2
    parameter e = 50 mV
    a = 0.1*(v + 40)/(1 - exp(-(v + 40)/10)) [1/ms]
    state m = a/(a + 4*exp(-(v + 65)/18))
    dm/dt = a*(1 - m) - m
    current i = g*m^3*max(v - e, -(2^3))*where(1 < 2 <= 2 and not v > 0, 1, 0)
    on event: m += 2*weight; m2 = 0
"""


def test_the_language_is_evaluated_by_its_description():
    text = language.read(HH)
    at = {"v": -40.0, "g": 0.12, "e": 50.0, "m": 0.5, "weight": 0.25}
    assert float(language.evaluate(text, text.named["a"], at).v) == pytest.approx(1, rel=1e-15)
    assert float(language.evaluate(text, text.rates["m"], at).v) == pytest.approx(0, abs=1e-15)
    current = language.evaluate(text, text.currents["i"], at)
    assert float(current.v) == pytest.approx(0.12 * 0.125 * -8, rel=1e-15)
    assert float(language.evaluate(text, text.events["m"][1], at).v) == 0.5
    assert text.units["g"] == "mS/cm2" and language.UNITS["mS/cm2"] == 1e-3
    start = language.evaluate(text, text.states["m"], at)
    assert float(start.v) == pytest.approx(1 / (1 + 4 * math.exp(-25 / 18)), rel=1e-15)


@pytest.mark.parametrize(
    "source", ["1/(x - x)", "log(-x)", "exp(1e4)", "where(x < 1, 1, 2)", "1/abs(v)", "1/v^2"]
)
def test_what_cannot_be_said_is_not_compared(source):
    with mpmath.workdps(60), pytest.raises(language.UnclearError):
        x = 1 - mpmath.mpf(2) ** -60  # below 1, but not in double precision
        language.evaluate(language.Text(), language.tree_of(source), {"x": x, "v": 0})


def test_rules_of_the_language():
    circle = "density d\nstate a = 1\nstate b = 0\nda/dt = b - a\ndb/dt = a - b\ncurrent i = a\n"
    assert language.read(circle).circles() == {"a", "b"}
    assert "circle" in language.must_refuse(language.read(circle))
    assert not language.must_refuse(language.read(circle + "method sparse\n"))
    cascade = circle.replace("da/dt = b - a", "da/dt = -a")
    assert not language.read(cascade).circles()
    assert language.near_keyword("parametr") and language.near_keyword("metohd")
    assert not language.near_keyword("state") and not language.near_keyword("rate")
