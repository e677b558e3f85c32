"""The table of mechanisms in docs/neuron.md is true."""

import re
from pathlib import Path

import pytest

from clhines.neuron.convert import converted, pointing
from clhines.neuron.memory.catalogue import Catalogue
from clhines.simulator.mechanisms.mechanism import Mechanism

neuron = pytest.importorskip("neuron", reason="NEURON is not installed")
pytestmark = pytest.mark.neuron
PAGE = (Path(__file__).parents[2] / "docs" / "neuron.md").read_text("utf-8")
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


@pytest.mark.parametrize("kind", ["PARAMETER", "ASSIGNED"])
@pytest.mark.parametrize(
    "lists",
    [
        "RANGE g, vother, i\n NONSPECIFIC_CURRENT i",
        "RANGE G_most, g, vother\n NONSPECIFIC_CURRENT i",
        "RANGE vother NONSPECIFIC_CURRENT i",
        "RANGE vother\n RANGE RANGED, g NONSPECIFIC_CURRENT i",
        "NONSPECIFIC_CURRENT i RANGE g RANGE vother",
    ],
)
def test_a_range_variable_becomes_a_pointer_and_lines_stay(kind, lists):
    other = "ASSIGNED" if kind == "PARAMETER" else "PARAMETER"
    text = (
        f"NEURON {{\n POINT_PROCESS half\n {lists}\n}}\nASSIGNED {{ G_most RANGED }}\n"
        f"{kind} {{\n vother (mV)\n}}\n{other} {{\n"
        + (" g = 1 (uS)\n}\n" if other == "PARAMETER" else " v (mV)\n i (nA)\n}\n")
        + ("ASSIGNED { v (mV) i (nA) }\n" if other == "PARAMETER" else "PARAMETER { g = 1 (uS) }\n")
        + "BREAKPOINT { i = g*(v - vother) }\n"
    )
    changed = pointing(text, "vother")
    assert changed.split("\n").index("BREAKPOINT { i = g*(v - vother) }") == text.split("\n").index(
        "BREAKPOINT { i = g*(v - vother) }"
    )
    made = Mechanism.from_nmodl(changed)
    assert made.program.pointers == ("vother",) and "g" in made.defaults
