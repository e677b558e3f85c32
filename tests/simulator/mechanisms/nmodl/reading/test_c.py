"""C in VERBATIM blocks that has no equivalent in NMODL is refused."""

import pytest
from nmodl_texts import assert_refused, text_of


def verbatim(c, before="", after="", **more):
    """Return a file whose INITIAL has a VERBATIM block."""
    return text_of(f"{before}VERBATIM\n{c}\nENDVERBATIM{after}", **more)


REFUSED = {
    "VERBATIM": verbatim(" x = *y;"),
    "whole quotient": verbatim(" x = 1/2;"),
    "int": verbatim(" int k = 1; x = k;"),
    "cast": verbatim(" x = (int) 1.5;"),
    "rounded FROM variable": verbatim(" x = _lk/2;", "FROM k = 0 TO 2 {\n", "\n}"),
    "array": verbatim(" x = x[0];"),
    "loop": verbatim(" while (x < 2) { x = x + 1; }"),
    "counter": verbatim(" x++;"),
    "sum": verbatim(" x += 1;"),
    "printf": verbatim(' printf("%g", x);'),
    "name of C": verbatim(" x = unknown;"),
    "switch": verbatim(" switch (_lk) { case 1: x = 2; break; }", "LOCAL k\n"),
    "an assignment in a condition": verbatim(" if ((x = t) > 2) { x = 2; }"),
    "v of an event": verbatim(" x = v;").replace("INITIAL", "NET_RECEIVE(w)"),
    "hidden by a LOCAL": verbatim(" x = m;", "LOCAL m\n"),
    "braces of others": verbatim(
        " if (x > 0) {", after="\nx = 2 VERBATIM\nfprintf(f, &x); }\nENDVERBATIM"
    ),
    "left out": verbatim("#if 0", after="\nx = 2\nVERBATIM\n#endif\nENDVERBATIM"),
    # the statement after the block may not be dropped with it
    "a body without braces": verbatim(' if (x > 0) puts("x"); x = 2;'),
    "a body behind the block": verbatim(" if (x > 0)", after="\nx = 2"),
    "braces of NMODL": verbatim(" f(); } else { f();", "if (x > 0) {\n", "\nx = 2 }"),
    "diam of C": verbatim(" x = diam;"),
    "pointer in C": verbatim(" if (_p_q) x = 2;", neuron="POINTER q", more="ASSIGNED { q }"),
}


@pytest.mark.parametrize("which", REFUSED)
def test_refused_by_name_and_line(which):
    other = which == "braces of others"  # whose other VERBATIM block is refused, too
    beside = "x = 2" if other else "VERBATIM"
    assert_refused(REFUSED[which], "VERBATIM", beside, alone=not other)
