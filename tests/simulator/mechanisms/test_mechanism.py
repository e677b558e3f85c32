"""Mechanisms: their summaries, and rejected texts."""

import pickle

import numpy as np
import pytest
from mechanism_texts import WORDS, minimal
from processes import output_of

from clhines import Network, Simulation
from clhines.core.errors import InputError
from clhines.simulator.mechanisms import mechanism
from clhines.simulator.mechanisms.builtin import BUILT_IN
from clhines.simulator.mechanisms.emit.noise import normal_source
from clhines.simulator.mechanisms.mechanism import Mechanism

pytestmark = pytest.mark.core

BUILT_IN_HERE = ("hh", "pas", "expsyn", "exp2syn", "iclamp", "inoise")


def test_a_built_in_mechanism_is_one_text(monkeypatch):
    """A row of `BUILT_IN` is enough to insert it by name, here a leak like `pas`."""
    text = minimal("parameter g = 0.002 S/cm2\ncurrent i = g*(v + 60)")
    monkeypatch.setitem(BUILT_IN, "few", text)
    ends = []
    for name, parameters in (("few", {}), ("pas", {"g": 0.002, "e": -60.0})):
        net = Network.from_arrays([-1], [0, 1], [300.0], [0.0], [0.005])
        net.insert(name, "all", **parameters)
        sim = Simulation(net, 0.025, engine="reference")
        sim.run(2.0)
        ends.append(sim.voltages()[0])
    assert ends[0] == pytest.approx(ends[1], rel=1e-13) and abs(ends[0] + 60) < 1


def test_what_a_mechanism_says_of_itself():
    hh, syn = mechanism("hh"), mechanism("expsyn")
    assert hh.name == "hh"
    assert hh.parameters == ("gnabar", "gkbar", "gl", "el", "ena", "ek", "celsius")
    assert hh.defaults["gnabar"] == 0.12
    assert hh.units["gnabar"] == "S/cm2"
    assert hh.states == ("m", "h", "n")
    density = {"hh", "pas"}
    properties = {  # others may also be built in
        "kind": {n: "density" if n in density else "point" for n in BUILT_IN_HERE},
        "constant": {n: n == "pas" for n in BUILT_IN_HERE},
        "takes_events": {n: n in ("expsyn", "exp2syn") for n in BUILT_IN_HERE},
        "uses_noise": {n: n == "inoise" for n in BUILT_IN_HERE},
    }
    assert set(BUILT_IN_HERE) <= set(BUILT_IN)
    for what, expected in properties.items():
        assert {n: getattr(mechanism(n), what) for n in BUILT_IN_HERE} == expected, what
    assert syn == Mechanism("\n\n" + syn.text) == pickle.loads(pickle.dumps(syn))
    assert len({syn, mechanism(syn), mechanism("expsyn"), hh}) == 2
    assert "parameter tau = 0.1 ms" in syn.describe()
    assert "static void expsyn_event(const real weight, const real tau" in syn.source
    assert syn.functions("float") == mechanism("expsyn").functions("float")


def test_a_choice_is_neither_linear_nor_constant():
    assert not Mechanism(minimal("current i = where(v < 0, 1, 2)")).constant
    assert not Mechanism(minimal("current i = abs(v)")).constant
    assert not Mechanism(minimal("state a = 0\ncurrent i = v", "point")).constant
    assert Mechanism(minimal("parameter a = 2\ncurrent i = where(a < 3, a, 2)*v + a^2")).constant
    lines = "state x = 1\ndx/dt = where(x < 0.5, 1, 2) - x\ncurrent i = x"
    with pytest.raises(InputError, match="line 3: state 'x' is not linear in itself"):
        Mechanism(minimal(lines))


def test_hh_takes_few_exponentials():
    source = mechanism("hh").source
    advance = source[source.index("static void hh_advance") :]
    assert advance.count(" exp(") == 3  # two depend on the voltage, one on the temperature
    current = source[source.index("static void hh_current") : source.index("hh_advance")]
    assert "exp(" not in current


OPPOSITE = """
density opposite
alpha = 0.2*(v + 38)/(1 - exp(-(v + 38)/6)) [1/ms]
beta = -0.1*(v + 38)/(1 - exp((v + 38)/6)) [1/ms]
state m = alpha/(alpha + beta)
dm/dt = alpha*(1 - m) - beta*m
current i = m*v [mA/cm2]
"""


def test_opposite_rates_share_a_quotient():
    m = Mechanism(OPPOSITE)
    advance = m.source[m.source.index("static void opposite_advance") :]
    assert advance.count("opposite_bernoulli_(") == advance.count(" exp(") == 1
    v = np.concatenate([np.linspace(-150.0, 90.0, 481), [-38 + 1e-9, -5e3, 5e3]])
    x = (v.astype(np.longdouble) + 38) / 6
    with np.errstate(all="ignore"):
        alpha = 1.2 * np.where(x == 0, 1, x / -np.expm1(-x))
        beta = 0.6 * np.where(x == 0, 1, x / np.expm1(x))
    expected = alpha / (alpha + beta)  # tiny below -38 mV: alpha alone must be accurate there
    # x is -827 at most; its two roundings change exp(x) by as many times their size
    np.testing.assert_allclose(m.initial(v)["m"], expected.astype(float), rtol=2e-13, atol=1e-300)


def test_any_word_may_be_a_name():
    m = Mechanism(WORDS)
    assert m.initial(0.0)["part"] == 2
    assert m.advance(0.0, 0.0, 2.0, None, {"part": 3.0})["part"] == pytest.approx(3 / np.e)
    assert m.current(0.0, 0.0, {"in": 4.0, "g": 0.5}, {"part": 3.0})[0] == 12
    assert "const real half_" in m.source


def test_common_mechanisms_import_nothing_slow():
    code = "import sys; from clhines.simulator.mechanisms import BUILT_IN, mechanism as m\n"
    code += "[m(name).source for name in BUILT_IN]; print({'sympy'} & set(sys.modules))"
    assert output_of("-c", code).strip() == "set()"


WRONG = {
    "current i = g*(v - e)": "line 2: unknown symbol 'g'",
    "parameter g = 1 S/cm2\ncurrent i = g*foo(v)": "line 3: unknown function 'foo'; known are exp",
    "parameter g = 1 S/cm3/parsec\ncurrent i = g": "line 2: 'g': unit 'S/cm3/parsec': unknown",
    "current i = v [nA]": "line 2: current 'i' is in 'nA'; expected mA/cm2",
    "parameter g = v\ncurrent i = v": "line 2: parameter 'g' got 'v'; expected a number",
    "state m\ncurrent i = v": "line 2: state 'm' has no initial value",
    "state m =\ncurrent i = v": "line 2: 'm' has nothing on its right side",
    "dm/dt = 1 - v\ncurrent i = v": "line 2: 'm' is no state",
    "state m = 0\ndm/dt = -m\ndm/dt = -m\ncurrent i = m": "line 4: 'dm/dt' is given twice",
    "state m = 0\nm = 2\ncurrent i = m": "line 3: 'm' is defined twice, first in line 2",
    "state m = 0\ndm/dt = -m^2\ncurrent i = m": "line 3: state 'm' is not linear in itself and no",
    "state m = 0\ndm/dt = m^2 - (m + 1)^2\ncurrent i = m": "line 3: state 'm' is not linear in its",
    "state m = 0\ndm/dt = -m\ncurrent i = m\nmethod heun": "line 5: unknown method 'heun'",
    "state m = n\nstate n = m\ncurrent i = m": "line 2: an initial value cannot depend on 'n'",
    "state m = t\ncurrent i = m": "line 2: an initial value cannot depend on 't'",
    "state m = 0\ndm/dt = noise*m\ncurrent i = m": "line 3: noise in 'dm/dt' is no term that exp",
    "state m = 0\ndm/dt = noise^2 - m\ncurrent i = m": "line 3: noise in 'dm/dt' is no term",
    "state m = 0\ndm/dt = noise - i\ncurrent i = m*v": "line 3: noise in 'dm/dt' is no term",
    "state m = 0\ndm/dt = noise - m\ncurrent i = m\nmethod euler all": "line 3: noise in 'dm/dt'",
    "ion ca\ncurrent i = v": "line 2: expected one of eca, cai, cao, ica in the text",
    "ion ca\nparameter eca = 120 mV\ncurrent i = v - eca": "line 3: 'eca' is a variable of an ion",
    "ion ca\ncai = 1e-4\ncurrent i = cai": "line 3: 'cai' is a variable of an ion; expected 'state",
    "ion ca\nstate ica = 0\ncurrent i = v": "line 3: 'ica' is a variable of an ion; expected 'curr",
    "ion ca\nstate cai = 1 mV\ndcai/dt = -cai": "line 3: 'cai' is in 'mV'; expected mM",
    "ion ca\ncurrent i = ica": "line 3: a current cannot depend on 'ica'",
    "ion ca\nstate m = ica\ncurrent i = m": "line 3: an initial value cannot depend on 'ica'",
    "ion ca\nion ca\ncurrent i = eca": "line 3: 'ca' is given twice, first in line 2",
    "ion ca\nstate cai = 1\non event: cai += 1": "line 4: the event changes 'cai', which is of an",
    "ion ca\nstate m = 0\ncurrent i = m*cai\non event: m += cai": "line 5: the action of an",
    "ion p\ncurrent i = pi": "line 2: one of ep, pi, po, ip has a meaning already",
    "ion i\ncurrent i = ei": "line 2: one of ei, ii, io, ii has a meaning already",
    "ion c__a\ncurrent i = ec__a": "line 2: 'c__a': names have no double",
    "current ica = v - eca": "line 2: unknown symbol 'eca'",
    "ion ca, cai\ncurrent i = cai": "line 2: cannot read this statement; did you mean 'ion",
    "current i = weight": "line 2: a current cannot depend on 'weight'",
    "a = b\nb = 2*a\ncurrent i = a": "line 2: 'a' is defined by itself (a -> b -> a)",
    "parameter g = 1": "few has no current; expected a line 'current i",
    "current i = v\non event: i += weight": "line 3: the event changes 'i', which is no state",
    "state g = 0\ncurrent i = g\non event: g": "line 4: cannot read the action 'g'",
    "state g = 0\ncurrent i = g\non event: g += v": "line 4: the action of an event cannot",
    "state g = 0\ncurrent i = g\non event: g += 1; g += 2": "line 4: the event changes 'g' twice",
    "current i = v +": "line 2: cannot read the expression at 'the end'",
    "current i = 2 v": "line 2: 'i': unit 'v': unknown unit 'v'",
    "state w = 0\ndw/dt = (1 - w\ncurrent i = w*(v)": "line 3: the brackets of 'dw/dt'",
    "current i = (v": "line 2: the brackets of 'i' do not match",
    "current i = v) + (v": "line 2: the brackets of 'i' do not match",
    "state m = 0\ncurrent i = m__": "line 3: unknown symbol 'm__'",
    "current i = v*2 mA/cm2": "line 2: cannot read the expression at 'mA/cm2' (a unit",
    "parameter g = 1e999\ncurrent i = v": "line 2: parameter 'g' got '1e999'; expected a number",
    "current i = True": "line 2: unknown symbol 'True'",
    "current i = 1e999*v": "line 2: a number is too large",
    "current i = v; import os": "line 2: unexpected character ';'",
    "current i = v.real": "line 2: cannot use 'v.real'",
    "current i = v*\x01": r"line 2: unexpected character '\x01'; in 'current i = v*\x01'",
    "current i = exp": "line 2: unknown symbol 'exp'; 'exp' is a function",
    "current i = exp(v, 2)": "line 2: 'exp' got 2 arguments; expected 1",
    "current i = v == 2": "line 2: expected <, <=, > or >=",
    "current i = [x for x in v]": "line 2:",
    "current i = lambda: v": "line 2: unexpected character ':'",
    "current i = __import__": "line 2: unknown symbol '__import__'",
    "current i = v^999999999": "line 2: power 999999999 is too large",
    "current i = 9^9^9^9": "line 2: power",
    "current i = 1/0": "line 2: 'i' is not a finite real number",
    "current i = sqrt(-2)*v": "line 2: 'i' is not a finite real number",
    "parameter v = 2\ncurrent i = v": "line 2: 'v' has a meaning already",
    "parameter exp = 2\ncurrent i = v": "line 2: 'exp' has a meaning already",
    "parameter g_ = 2\ncurrent i = v": "line 2: 'g_': names have",
    "currant i = v": "line 2: cannot read this statement",
    "current i = v\nsubsteps 2": "line 3: cannot read this statement",
    "current i = v\nmethod euler\nmethod rk4": "line 4: 'method' is given twice, first in line 3",
    "parameter µ = 2\ncurrent i = v": "line 2:",
    "current i = " + "(" * 400 + "v" + ")" * 400: "line 2:",
}


@pytest.mark.parametrize("body", WRONG, ids=lambda b: b[:30].replace("\n", " | "))
def test_wrong_texts_are_refused_with_line_and_symbol(body):
    with pytest.raises(InputError) as caught:
        Mechanism(minimal(body))
    assert WRONG[body] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_refusals():
    with pytest.raises(InputError, match="unknown mechanism 'kdr'; built in are pas, hh, expsyn"):
        mechanism("kdr")
    with pytest.raises(InputError, match="line 1: expected 'density NAME' or 'point NAME'"):
        mechanism("current i = v")
    with pytest.raises(InputError, match="a name or a text; got int"):
        mechanism(3)
    with pytest.raises(InputError, match="empty"):
        Mechanism("# nothing\n")
    hh = mechanism("hh")
    with pytest.raises(InputError, match="hh has no parameter 'gna'; it has gnabar"):
        hh.initial(0.0, {"gna": 1})
    with pytest.raises(InputError, match="hh: no value of state 'm'"):
        hh.current(0.0, 0.0)
    with pytest.raises(InputError, match="hh takes no events"):
        hh.event(1.0, None, {})
    with pytest.raises(InputError, match="inoise needs noise"):
        mechanism("inoise").current(0.0, 0.0)
    with pytest.raises(InputError, match="real is 'half'"):
        hh.functions("half")
    with pytest.raises(InputError, match="real is 'half'"):
        normal_source("half")
