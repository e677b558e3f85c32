"""Run the mechanisms that docs/neuron.md names."""

import re
from pathlib import Path

import pytest

from clhines.neuron.convert import converted
from clhines.neuron.read.catalogue import Catalogue
from clhines.simulator.mechanisms.mechanism import Mechanism

neuron = pytest.importorskip("neuron", reason="NEURON is not installed")
pytestmark = pytest.mark.neuron
PAGE = (Path(__file__).parents[3] / "docs" / "neuron.md").read_text("utf-8")
NAMES = re.search(r"^\| NEURON's mechanisms \| ([^|]+) \|", PAGE, re.M)[1].split(", ")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "ChannelBuilder"])
def test_mechanisms_that_the_page_names_run(name):
    assert isinstance(converted(Catalogue(neuron.h)[name]), Mechanism)


def test_the_page_names_mechanisms():
    assert len(NAMES) > 10
