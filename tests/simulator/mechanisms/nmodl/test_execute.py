"""The statements that a file executes are counted before they run."""

import time

import numpy as np
import pytest
from nmodl_texts import assert_refused, text_of

from clhines import Mechanism
from clhines.simulator.mechanisms.nmodl import NmodlError

HEAD = "NEURON { SUFFIX many  RANGE x }\nASSIGNED { x }\nDEFINE N 9\n"


def loops(depth, last):
    body = "x = x + 1\n"
    for k in range(depth):
        body = f"FROM i{k} = 0 TO {last} {{\n{body}}}\n"
    return body


def chain(block):
    """Return forty functions, each of which calls the next one in the form `block`."""
    text = "\n".join(f"FUNCTION f{k}(a) {{ {block.format(k, k + 1)} }}" for k in range(39))
    return f"{HEAD}INITIAL {{ x = f0(1) }}\n{text}\nFUNCTION f39(a) {{ f39 = a }}\n"


MANY = {
    **{f"FROM to {last}": f"{HEAD}INITIAL {{ {loops(6, last)} }}" for last in ("9", "N")},
    "FROM to a LOCAL": f"{HEAD}INITIAL {{ LOCAL q\nq = 9\n{loops(6, 'q')} }}",
    "in a PROCEDURE": f"{HEAD}INITIAL {{ p() }}\nPROCEDURE p() {{ {loops(6, '9')} }}",
    "side by side": chain("f{0} = f{1}(a) + f{1}(a + 1)"),
    "within each other": chain("f{0} = f{1}(f{1}(a))"),
    "in both branches": chain("IF (a > 0) {{ f{0} = f{1}(a) }} ELSE {{ f{0} = f{1}(-a) }}"),
    "in a loop": chain("FROM j = 0 TO 5 {{ f{0} = f{1}(a) }}"),
}


@pytest.mark.parametrize("which", MANY)
def test_too_many_statements_are_refused_at_once(which):
    begin = time.process_time()
    with pytest.raises(NmodlError, match="more than 60000 statements are executed"):
        Mechanism.from_nmodl(MANY[which])
    assert time.process_time() - begin < 2  # 7 to 50 s without the count; now about 0.1 s


def test_many_statements_are_executed():
    made = Mechanism.from_nmodl(f"{HEAD}INITIAL {{ x = 0\n{loops(3, 9)} }}")
    assert float(made.twin("initial", ("x",))()[0]) == 1000


TURNS = """
NEURON { SUFFIX turns NONSPECIFIC_CURRENT i RANGE x, a, b, n }
PARAMETER { x = 4.5 }
ASSIGNED { v i a b n }
INITIAL {
    LOCAL f
    n = 0 a = 0 b = 0 f = 0
    while (n < x) {
        n = n + 1
        if (n > 2) { a = a + n }
    }
    FROM k = 0 TO x {
        if (f == 1) { b = b + k }
        f = 1
    }
}
BREAKPOINT { i = 0.0001*(a + b + n) }
"""


def test_loops_keep_branches_that_the_first_turn_does_not_take():
    """Compare with sums 3 + 4 + ... up to the first number from x on, and 1 + 2 + ... up to x."""
    x = np.array([0.5, 1.0, 2.5, 4.5, 7.0])
    result = Mechanism.from_nmodl(TURNS).initial(np.full(5, -65.0), {"x": x})
    last, whole = np.ceil(x).astype(int), np.floor(x).astype(int)
    assert result["n"].tolist() == last.tolist()
    assert result["a"].tolist() == [sum(range(3, n + 1)) for n in last]
    assert result["b"].tolist() == [sum(range(1, n + 1)) for n in whole]


REFUSED = {  # text, refused construct, words in its line
    "FROM": (text_of("FROM k=0 TO 3 BY v { x = k }"), "FROM with a step", "FROM k"),
    "delay of a turn": (
        "NEURON { ARTIFICIAL_CELL a }\nPARAMETER { d = 2 }\nNET_RECEIVE(w) {\n"
        " IF (flag == 0) {\n FROM k = 1 TO 3 {\n net_send(k*d, 1) } } }",
        "net_send(k * ...): NEURON puts t + before the loop's k",
        "net_send(k*d",
    ),
    "bounds that change": (
        text_of("FROM k = 0 TO 2*x { f() }", more="PROCEDURE f() { x = 1 }"),
        "FROM that changes its own bounds",
        "FROM k",
    ),
}


@pytest.mark.parametrize("which", REFUSED)
def test_refused_by_name_and_line(which):
    assert_refused(*REFUSED[which])
