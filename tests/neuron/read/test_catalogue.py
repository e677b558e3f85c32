"""The table of mechanisms in docs/neuron.md is true."""

import re
from pathlib import Path

import pytest

from clhines.neuron.convert import converted
from clhines.neuron.read.catalogue import Catalogue
from clhines.simulator.mechanisms.mechanism import Mechanism

neuron = pytest.importorskip("neuron", reason="NEURON is not installed")
pytestmark = pytest.mark.neuron
PAGE = (Path(__file__).parents[3] / "docs" / "neuron.md").read_text("utf-8")
ROWS = re.findall(r"^\| (\w+) \| (runs|rejected: \w+) \|$", PAGE, re.M)


@pytest.mark.parametrize(("name", "told"), ROWS)
def test_mechanisms_of_neuron_are_as_the_table_says(name, told):
    found = converted(Catalogue(neuron.h)[name])
    if told == "runs":
        assert isinstance(found, Mechanism), found
    else:
        construct = told.removeprefix("rejected: ")
        assert any(construct in r.construct and r.line for r in found)


def test_table_has_rows():
    assert len(ROWS) > 10
