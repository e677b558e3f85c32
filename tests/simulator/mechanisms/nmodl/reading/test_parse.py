"""Blocks of an NMODL file, and braces that do not close."""

import pytest
from nmodl_texts import assert_refused, rejections, text_of

from clhines.simulator.mechanisms import Mechanism
from clhines.simulator.mechanisms.nmodl import NmodlError


@pytest.mark.parametrize("word", ["NEURON", "PARAMETER", "BREAKPOINT", "IF", "DERIVATIVE", "UNITS"])
def test_a_brace_that_is_not_closed_names_its_line(word):
    lines = [
        "NEURON {", "SUFFIX one  NONSPECIFIC_CURRENT i }", "UNITS {", "(mV) = (millivolt) }",
        "PARAMETER {", "p = 1 }", "ASSIGNED { v i }", "STATE { m }", "BREAKPOINT {",
        "SOLVE rates METHOD cnexp", "IF (v > 0) {", "i = 0", "}", "i = p }", "DERIVATIVE rates {",
        "m' = 1 - m }", "INITIAL { m = 0 }",
    ]  # fmt: skip
    Mechanism.from_nmodl("\n".join(lines))
    at = next(k for k, line in enumerate(lines) if line.startswith(word))
    end = next(k for k, line in enumerate(lines) if k > at and line.endswith("}"))
    lines[end] = lines[end].removesuffix("}")
    with pytest.raises(NmodlError, match="'{' without its '}'") as caught:
        Mechanism.from_nmodl("\n".join(lines))
    # the next '}' closes the IF: then the block around it is not closed
    assert caught.value.rejections[0].line == (9 if word == "IF" else at + 1)


REFUSED = {  # text, refused construct, words in its line
    "not closed": ("NEURON { SUFFIX one\nRANGE x", "'{' without its '}'", "NEURON"),
    "a second declaration": (
        text_of("y = 1", more="PARAMETER { y = 2 }\nASSIGNED { y }"),
        "'y' is declared twice",
        "ASSIGNED { y }",
    ),
}


@pytest.mark.parametrize("which", REFUSED)
def test_refused_by_name_and_line(which):
    assert_refused(*REFUSED[which])


SEVERAL = """
NEURON { SUFFIX x RANGE g NONSPECIFIC_CURRENT i FOO a }
PARAMETER { g = 1 (S/cm2) }
ASSIGNED { v (mV) i (mA/cm2) g }
STATE { m n }
BREAKPOINT { SOLVE s METHOD cnexp  i = g*m*v }
DERIVATIVE s { m' = (1 - m)/3
    n'' = 4 }
BEFORE FOO { g = 3 }
"""


def test_a_refusal_does_not_hide_those_of_later_blocks():
    """The refusals of NEURON's translator follow once all blocks can be read."""
    ids = [(r.line, r.construct.id) for r in rejections(SEVERAL)]
    assert ids == [
        (2, "mod.neuron-block"),
        (4, "mod.declared-twice"),
        (8, "mod.derivative-order"),
        (9, "mod.neuron-refuses"),
    ]
    text = SEVERAL.replace(" FOO a", "").replace("(mA/cm2) g", "(mA/cm2)").replace("n'' = 4", "")
    text = text.replace("BEFORE FOO", "NET_RECEIVE(w)")
    text += "PROCEDURE p() { TABLE g FROM 0 TO 1 WITH 9 }"
    assert [r.line for r in rejections(text)] == [10, 9]


def test_a_syntax_error_ends_the_list():
    text = "NEURON { SUFFIX x }\nPARAMETER { g = = 1 }\nASSIGNED { v v }"
    assert [r.construct.id for r in rejections(text)] == ["mod.syntax"]
