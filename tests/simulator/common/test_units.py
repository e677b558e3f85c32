"""Units of mechanisms against pint and NEURON's modlunit; refusals."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pint
import pytest

from clhines.core.errors import InputError
from clhines.simulator.common import units
from clhines.simulator.common.units import UnitError, parse

pytestmark = pytest.mark.core

REGISTRY = pint.UnitRegistry(non_int_type=Decimal)
# NEURON's units as users write them, and the same units for pint
NEURONS = {
    "mV": "mV",
    "ms": "ms",
    "mA/cm2": "mA/cm**2",
    "nA": "nA",
    "S/cm2": "S/cm**2",
    "uS": "uS",
    "uF/cm2": "uF/cm**2",
    "nF": "nF",
    "um": "um",
    "um2": "um**2",
    "mM": "mM",
    "ohm cm": "ohm*cm",
    "Mohm": "megaohm",
    "1/ms": "1/ms",
    "mM/ms": "mM/ms",
    "1/mM/ms": "1/mM/ms",
    "mV/ms": "mV/ms",
    "mA/cm2/mM": "mA/cm**2/mM",
    "S/cm2/ms": "S/cm**2/ms",
}


def from_pint(name):
    """Return pint's size of a unit in SI units, and its dimension."""
    base = REGISTRY.Quantity(Decimal(1), REGISTRY.UnitsContainer({name: 1})).to_base_units()
    powers = dict(base.unit_items())
    order = ("meter", "kilogram", "second", "ampere", "mole", "kelvin")
    assert set(powers) <= set(order)
    return Fraction(base.magnitude), tuple(int(powers.get(unit, 0)) for unit in order)


def test_every_name_is_pints():
    """Compare every prefix with a base unit with pint (min, Pa, cd are no products)."""
    names = units.all_names()
    assert len(names) > 500
    for name, unit in names.items():
        if name != "degC":  # with an offset
            assert unit == from_pint(name), name


def test_neurons_units_are_pints():
    for dimension, (size, name) in units.NEURON_UNITS.items():
        if name == "1":
            continue
        unit = parse(name)
        base = REGISTRY.Quantity(Decimal(1), NEURONS.get(name, name.replace("um3", "um**3")))
        assert Fraction(base.to_base_units().magnitude) == size
        assert (unit.dimension, unit.canonical, unit.exact) == (dimension, name, 1)


@pytest.mark.parametrize("text", NEURONS)
def test_a_unit_of_neurons_converts_nothing(text):
    assert parse(text).exact == 1
    assert parse(text).canonical == text


CASES = [  # text, pint's text, NEURON's unit
    ("mS/cm2", "mS/cm**2", "S/cm2"),
    ("mho/cm2", "S/cm**2", "S/cm2"),
    ("pS/um2", "pS/um**2", "S/cm2"),
    ("S/m2", "S/m**2", "S/cm2"),
    ("uA/cm2", "uA/cm**2", "mA/cm2"),
    ("A/m2", "A/m**2", "mA/cm2"),
    ("nS", "nS", "uS"),
    ("S", "S", "uS"),
    ("umho", "uS", "uS"),
    ("µS", "uS", "uS"),
    ("pA", "pA", "nA"),
    ("mA", "mA", "nA"),
    ("V", "V", "mV"),
    ("millivolt", "mV", "mV"),
    ("s", "s", "ms"),
    ("us", "us", "ms"),
    ("Hz", "1/s", "1/ms"),
    ("/s", "1/s", "1/ms"),
    ("/ms", "1/ms", "1/ms"),
    ("ms-1", "1/ms", "1/ms"),
    ("ms^-1", "1/ms", "1/ms"),
    ("min", "minute", "ms"),
    ("molar", "mol/liter", "mM"),
    ("uM", "umol/liter", "mM"),
    ("mmol/L", "mmol/liter", "mM"),
    ("mol/m3", "mol/m**3", "mM"),
    ("1/(uM s)", "1/(umol/liter)/s", "1/mM/ms"),
    ("1/uM/s", "1/(umol/liter)/s", "1/mM/ms"),
    ("uM/s", "umol/liter/s", "mM/ms"),
    ("mM cm2/mA/ms", "mM*cm**2/mA/ms", "cm2 mM/mA/ms"),
    ("uF/cm^2", "uF/cm**2", "uF/cm2"),
    ("F/m**2", "F/m**2", "uF/cm2"),
    ("pF", "pF", "nF"),
    ("ohm-cm", "ohm*cm", "ohm cm"),
    ("ohm*m", "ohm*m", "ohm cm"),
    ("Gohm", "gigaohm", "Mohm"),
    ("cm²", "cm**2", "um2"),
    ("micron", "um", "um"),
    ("V/s", "V/s", "mV/ms"),
    ("nA/mV", "uS", "uS"),
    ("C", "coulomb", "nA ms"),
]


@pytest.mark.parametrize(("text", "theirs", "canonical"), CASES)
def test_factor_against_pint(text, theirs, canonical):
    unit = parse(text)
    assert unit.canonical == canonical
    written = REGISTRY.Quantity(Decimal(1), theirs).to_base_units()
    ours = Fraction(1)
    for name, exponent in units.unit_powers(canonical, canonical):
        ours *= from_pint(name)[0] ** exponent
    assert unit.exact == Fraction(written.magnitude) / ours
    assert unit.factor == float(unit.exact)


def test_figures_known_by_heart():
    assert parse("mS/cm2").factor == 1e-3
    assert parse("S/m2").factor == 1e-4
    assert parse("pS/um2").factor == 1e-4
    assert parse("nS").factor == 1e-3
    assert float(Fraction("0.3") * parse("mS/cm2").exact) == 0.0003  # 0.3*0.001 is not


@pytest.mark.parametrize(("text", "theirs", "canonical"), CASES)
def test_the_canonical_unit_reads_back_as_itself(text, theirs, canonical):
    again = parse(canonical)
    assert (again.exact, again.canonical) == (1, canonical)
    assert again.dimension == parse(text).dimension


def test_neurons_units_are_coherent_where_the_rule_says_so():
    """Random products of coherent units have factor 1: formulas need no hidden scale."""
    rng = np.random.default_rng(14)
    for current in ("nA", "mA/cm2"):
        for _ in range(200):
            powers = dict(zip(("mV", "mM", "ms"), rng.integers(-1, 2, 3).tolist()))
            text = current + "".join(f"/{n}{-e}" for n, e in powers.items() if e < 0)
            above = [f"{n}{e}" for n, e in powers.items() if e > 0]
            unit = parse(" ".join([*above, text]))
            assert unit.exact == (1000 if unit.canonical == "uF/cm2" else 1)  # the only exception


def is_rate_of(rate, state):
    """Return whether the unit `rate` has the dimension of `state` per time."""
    return parse(rate).dimension == parse(state).per_time().dimension


def test_rates():
    for state, rate in [
        ("1", "/ms"),
        ("mM", "mM/ms"),
        ("uM", "molar/s"),
        ("nS", "uS/ms"),
        ("mV", "V/s"),
        ("nA", "pA/us"),
        ("mS/cm2", "S/m2/s"),
    ]:
        assert is_rate_of(rate, state), (state, rate)
        assert parse(state).per_time().exact == 1
    assert parse("uM").per_time().canonical == "mM/ms"
    assert parse("1").per_time().canonical == "1/ms"
    assert not is_rate_of("mM", "mM")
    assert not is_rate_of("mV/ms", "mM")
    assert not is_rate_of("1/ms2", "1")


@pytest.mark.parametrize("text", ["um", "uF/cm2", "ohm cm"])
def test_a_rate_that_is_not_neurons_is_refused(text):
    """Refuse a rate such as uF/cm2/ms: 1 uF/cm2/ms is 0.001 S/cm2, not 1 in NEURON's units."""
    with pytest.raises(UnitError, match="has no rate in NEURON's units"):
        parse(text).per_time()


REFUSED = [
    ("", "expected products and quotients"),
    ("mv", "unknown unit 'mv'; did you mean 'mV'?"),
    ("ua/cm2", "unknown unit 'ua'; did you mean 'uA'?"),
    ("milivolt", "did you mean 'millivolt'?"),
    ("mS/cm2 ms", "two readings; expected a/b/c, a/(b c) or a*c/b"),
    ("S/cm2*mV", "two readings"),
    ("cm/s", "NEURON has no one unit of this dimension"),
    ("C/mol", "NEURON has no one unit of this dimension"),
    ("mol", "NEURON has no one unit of this dimension"),
    ("mA/cm", "NEURON has no one unit of this dimension"),
    ("K", "expected degC"),
    ("mdegC", "unknown unit 'mdegC'"),
    ("degC/ms", "degC has an offset"),
    ("mV/degC", "degC has an offset"),
    ("10 mV", "expected products and quotients"),
    ("1e-3", "expected products and quotients"),
    ("1 1", "expected products and quotients"),
    ("ms/1", "expected products and quotients"),
    ("S//cm2", "expected products and quotients"),
    ("((ms))", "expected products and quotients"),
    ("mV0", "exponent of 'mV' is 0"),
    ("mV99999999", "exponent of 'mV' is 99999999"),
    ("__import__('os')", "expected products and quotients"),
    ("mV.__class__", "expected products and quotients"),
    ("e", "unknown unit 'e'"),  # pint's elementary charge, speed of light, Boltzmann's constant
    ("c", "unknown unit 'c'"),
    ("k", "unknown unit 'k'"),
    ("mmin", "unknown unit 'mmin'"),
    ("kkV", "unknown unit 'kkV'"),
    ("a" * 5000, "5000 characters; expected at most 100"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_refused(text, message):
    with pytest.raises(UnitError) as error:
        parse(text)
    assert message in str(error.value)
    assert len(str(error.value)) < 240 and "\n" not in str(error.value)


def test_only_texts_are_units():
    for value in (None, 1, ["mV"], b"mV"):
        with pytest.raises(InputError, match="expected a text"):
            parse(value)


def test_random_texts_are_read_or_refused():
    """Every text gives a unit or a UnitError, quickly."""
    rng = np.random.default_rng(5)
    letters = [*"mMuSsVAcCF12-^*/() .µ_%e", "cm2", "ms", "degC", "ohm"]
    read = 0
    for _ in range(20_000):
        text = "".join(rng.choice(letters, rng.integers(1, 9)))
        try:
            unit = parse(text)
        except UnitError:
            continue
        read += 1
        assert unit.exact > 0 and np.isfinite(unit.factor)
        if unit.canonical != "degC":
            again = parse(unit.canonical)
            assert (again.exact, again.dimension) == (1, unit.dimension), text
    assert read > 500
