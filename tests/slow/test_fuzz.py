"""A small seeded fuzz of every reader, and planted faults that the fuzz must find."""

import math
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import mpmath
import pytest

from bench import record
from bench.measures.fuzz import command, language, worker
from bench.measures.fuzz.common import MIB, WrongError, check_refusal

BENCH = Path(record.__file__).parent
CASES = {"mechanism": 24, "rule": 24, "api": 60}
PLANTED = """
import os
from bench.measures.fuzz.common import WrongError

kept = []

def prepare(folder):
    pass

def check(case):
    if case == "crash":
        os.abort()
    if case == "hang":
        while True:
            pass
    if case == "memory":
        return "accepted" if bytearray(b"x" * (300 << 20)) else ""
    if case == "kept":
        kept.append(b"x" * (10 << 20))
    if case == "traceback":
        raise KeyError("planted")
    if case == "wrong":
        raise WrongError("planted: 3 for 4")
    return "refused" if case == "refused" else "accepted"
"""


@pytest.mark.parametrize("target", CASES)
def test_nothing_is_found(target):
    cases, accepted, refused = fuzz(target, 14, 2, "--cases", CASES[target])
    assert cases == CASES[target] == accepted + refused
    assert min(accepted, refused) > 3  # both kinds of input are among them


@pytest.mark.slow
@pytest.mark.parametrize("target", CASES)
def test_nothing_is_found_in_two_minutes(target):
    cases, accepted, refused = fuzz(target, 1, 2)
    assert cases == accepted + refused
    assert min(accepted, refused) > CASES[target]


def fuzz(target, seed, minutes, *more):
    command = [sys.executable, str(BENCH), "fuzz", "--only", target]
    command += ["--minutes", str(minutes), "--seed", str(seed), *map(str, more)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 * minutes + 160)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = re.search(rf"^ *{target} +(\d+) +(\d+) +(\d+)", done.stdout, re.M)
    return map(int, counts.groups())


@pytest.fixture
def planted(tmp_path, monkeypatch):
    (tmp_path / "fuzz_planted.py").write_text(PLANTED)
    monkeypatch.syspath_prepend(str(tmp_path))
    worker_here = worker.Worker("fuzz_planted", tmp_path)
    yield worker_here
    worker_here.close()


def test_planted_faults_are_found(planted, monkeypatch):
    for case in "accepted refused traceback crash wrong hang memory accepted".split():
        with monkeypatch.context() as patch:
            if case == "hang":  # the others take their time on a busy machine
                patch.setattr(worker, "KILL_SECONDS", 1.0)
            verdict = planted.run(case)
        assert verdict.outcome == case
        assert verdict.failed == (case not in ("accepted", "refused"))
    assert "KeyError" in planted.run("traceback").signature
    assert planted.run("memory").peak > 290 * MIB


def test_memory_that_is_kept_is_found(planted):
    outcomes = [planted.run("kept").outcome for _ in range(worker.WARM_CASES + 25)]
    assert "memory" in outcomes
    assert outcomes.index("memory") >= worker.WARM_CASES
    assert planted.kept > 200 * MIB


def test_a_case_is_made_from_its_seed_alone():
    for name in command.TARGETS:
        module = import_module(command.PACKAGE + name)
        made = [[module.generate(command.generator(k)) for k in range(20)] for _ in range(2)]
        assert made[0] == made[1]
        assert len({repr(case) for case in made[0]}) > 10


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
