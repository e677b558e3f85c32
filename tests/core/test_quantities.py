"""Quantities of pint and other packages, as numbers in a unit."""

import numpy as np
import pint
import pytest

from clhines import InputError
from clhines.core.quantities import as_numbers, has_unit

pytestmark = pytest.mark.core
U = pint.UnitRegistry()


def test_quantities_of_other_packages():
    pq = pytest.importorskip("quantities")
    assert as_numbers("amp", 100 * pq.pA, "nA") == pytest.approx(0.1)
    assert as_numbers("g", [1, 2] * pq.mS / pq.cm**2, "S/cm2") == pytest.approx([1e-3, 2e-3])
    assert as_numbers("t", [25 * pq.us, 1 * pq.ms], "ms") == pytest.approx([0.025, 1.0])
    with pytest.raises(InputError, match="amp is in ms; expected a quantity in nA, or a number"):
        as_numbers("amp", 1 * pq.ms, "nA")
    with pytest.raises(InputError, match="where is in um; expected a pure number"):
        as_numbers("where", 1 * pq.um)


def test_dimensionless_quantities_are_pure_numbers():
    for unit in (None, "1"):
        assert as_numbers("scale", 3 * U.dimensionless, unit) == 3.0
        assert as_numbers("scale", 3 * U.mV / U.V, unit) == pytest.approx(3e-3)
    assert as_numbers("scale", np.arange(3) * U.dimensionless) == pytest.approx(np.arange(3))
    with pytest.raises(InputError, match="scale is in nA; expected a pure number"):
        as_numbers("scale", 3 * U.nA)
    with pytest.raises(InputError, match="amp is dimensionless; expected a quantity in nA, or a"):
        as_numbers("amp", 3 * U.dimensionless, "nA")


def test_units_in_all_or_in_none():
    with pytest.raises(InputError, match="amp has quantities beside 2; expected units in all or"):
        as_numbers("amp", [1 * U.nA, 2], "nA")
    assert not has_unit([1.0, [2.0, np.ones(3)], np.array([1, 2])])
    nested = [np.ones(2), [1 * U.nA]]
    assert has_unit(nested)
    assert as_numbers("x", "text", "nA") == "text"
    mixed = np.array([1 * U.nA, 2 * U.pA], object)
    assert as_numbers("amp", mixed, "nA") == pytest.approx([1.0, 2e-3])
