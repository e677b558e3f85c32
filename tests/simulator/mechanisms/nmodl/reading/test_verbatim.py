"""VERBATIM blocks: each is reported, and a return in a block that no IF can replace."""

import pytest
from nmodl_texts import assert_refused, rejections, text_of

REFUSED = {  # text, refused construct, words in its line
    "return in a loop": (
        text_of("FROM k=0 TO 2 { VERBATIM\nreturn;\nENDVERBATIM\n}"),
        "VERBATIM: a return there",
        "VERBATIM",
    ),
    "return beside a LOCAL": (
        text_of("if (v > 0) { LOCAL x\nx = 2\nVERBATIM\nreturn;\nENDVERBATIM\n}\nx = 1"),
        "VERBATIM: a return beside a LOCAL",
        "if",
    ),
}


@pytest.mark.parametrize("which", REFUSED)
def test_refused_by_name_and_line(which):
    assert_refused(*REFUSED[which])


def test_every_verbatim_is_told():
    block = "VERBATIM\n{} = *y;\nENDVERBATIM\n"
    calls = f"{block.format('x')}x = f(2) + f(3)\n{block.format('y')}"
    text = text_of(calls) + f"FUNCTION f(a) {{\n{block.format('f')}}}\n"
    lines = [k for k, line in enumerate(text.split("\n"), 1) if line.endswith("VERBATIM")]
    refusals = rejections(text)
    assert [r.construct for r in refusals] == ["VERBATIM"] * 3
    assert sorted(r.line for r in refusals) == [
        k for k in lines if "END" not in text.split("\n")[k - 1]
    ]
