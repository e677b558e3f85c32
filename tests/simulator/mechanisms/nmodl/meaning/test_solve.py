"""SOLVE: methods and equations that are refused."""

import pytest
from nmodl_texts import assert_refused, text_of

REFUSED = {  # text, refused construct, words in its line
    "a rate's value": (
        text_of("", more="ASSIGNED { y }").replace("m' = -m", "m' = -m\n y = m'"),
        "m' in an expression",
        "y = m'",
    ),
    "singular": (
        text_of("SOLVE q", more="LINEAR q { ~ m = 1 \n ~ 0*v = 3 }"),
        "2 equations for 1 states",
        "LINEAR q",
    ),
    "a sum over executions": (
        text_of("")
        .replace("cnexp", "derivimplicit")
        .replace("{ m' = -m }", "{ x = x + 1 m' = -m }"),
        "s sets 'x' after using it",
        "DERIVATIVE s",
    ),
    "method": (text_of("").replace("cnexp", "adams"), "METHOD adams", "SOLVE"),
    "SOLVE in a loop": (
        text_of("").replace("SOLVE s METHOD cnexp", "FROM k=0 TO 1 { SOLVE s METHOD cnexp }"),
        "SOLVE s in a loop",
        "SOLVE",
    ),
    "in an IF: an equation": (
        text_of("SOLVE q", more="LINEAR q { if (v > 0) { ~ m = 1 } }"),
        "an equation in an IF",
        "~ m = 1",
    ),
}


@pytest.mark.parametrize("which", REFUSED)
def test_refused_by_name_and_line(which):
    assert_refused(*REFUSED[which])
