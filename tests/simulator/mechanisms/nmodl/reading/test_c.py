"""C of VERBATIM blocks that NMODL cannot say is refused."""

import pytest
from nmodl_texts import assert_refused, text_of

REFUSED = {  # text, what is refused, and what stands in its line
    "VERBATIM": (text_of("VERBATIM\n x = *y;\nENDVERBATIM"), "VERBATIM", "VERBATIM"),
    "whole quotient": (text_of("VERBATIM\n x = 1/2;\nENDVERBATIM"), "VERBATIM", "VERBATIM"),
    "rounded": (text_of("VERBATIM\n int k = 0.5;\nENDVERBATIM"), "VERBATIM", "VERBATIM"),
    "falls through": (
        text_of("LOCAL k\nVERBATIM\n switch (_lk) { case 1: x = 2; case 2: x = 3; }\nENDVERBATIM"),
        "VERBATIM",
        "VERBATIM",
    ),
    "v of an event": (
        text_of("VERBATIM\n x = v;\nENDVERBATIM").replace("INITIAL", "NET_RECEIVE(w)"),
        "VERBATIM",
        "VERBATIM",
    ),
    "hidden by a LOCAL": (
        text_of("LOCAL m\nVERBATIM\n x = m;\nENDVERBATIM"),
        "VERBATIM",
        "VERBATIM",
    ),
    "braces of others": (
        text_of(
            "VERBATIM\n if (x > 0) {\nENDVERBATIM\nx = 2 VERBATIM\nfprintf(f, &x); }\nENDVERBATIM"
        ),
        "VERBATIM",
        "x = 2",
    ),
    "left out": (
        text_of("VERBATIM\n#if 0\nENDVERBATIM\nx = 2\nVERBATIM\n#endif\nENDVERBATIM"),
        "VERBATIM",
        "VERBATIM",
    ),
    "a body without braces": (  # what follows it may not go with it
        text_of('VERBATIM\n if (x > 0) puts("x"); x = 2;\nENDVERBATIM'),
        "VERBATIM",
        "VERBATIM",
    ),
    "a body behind the block": (
        text_of("VERBATIM\n if (x > 0)\nENDVERBATIM\nx = 2"),
        "VERBATIM",
        "VERBATIM",
    ),
    "braces of NMODL": (
        text_of("if (x > 0) {\nVERBATIM\n f(); } else { f();\nENDVERBATIM\nx = 2 }"),
        "VERBATIM",
        "VERBATIM",
    ),
    "diam of C": (text_of("VERBATIM\n x = diam;\nENDVERBATIM"), "VERBATIM", "VERBATIM"),
    "pointer in C": (
        text_of("VERBATIM\n if (_p_q) x = 2;\nENDVERBATIM", "POINTER q", "ASSIGNED { q }"),
        "VERBATIM",
        "VERBATIM",
    ),
}


@pytest.mark.parametrize("which", REFUSED)
def test_refused_by_name_and_line(which):
    other = which == "braces of others"  # whose other block is refused, too
    assert_refused(*REFUSED[which], alone=not other)
