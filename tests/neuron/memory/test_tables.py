"""FUNCTION_TABLE, whose tables clhines does not read from NEURON."""

import pytest

import clhines
from tests.support import mod_files

h = pytest.importorskip("neuron", reason="NEURON is not installed").h
pytestmark = pytest.mark.neuron


@pytest.mark.parametrize("has_table", [True, False])
def test_a_function_table_is_refused_by_name(has_table):
    mod_files.loaded()
    soma = h.Section(name="soma")
    point = h.ext_funpoint(soma(0.5))
    if has_table:
        point.table_inf(5)
    [line] = [str(one) for one in clhines.neuron.check()]
    assert line.startswith("ext_funpoint: FUNCTION_TABLE inf without a table")
    assert line.endswith("expected a FUNCTION, as tables of hoc are not read")
