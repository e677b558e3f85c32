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
