"""What a file executes is counted before it is done."""

import time

import pytest

from clhines import Mechanism
from clhines.simulator.mechanisms.nmodl import NmodlError

HEAD = "NEURON { SUFFIX many  RANGE x }\nASSIGNED { x }\nDEFINE N 9\n"


def loops(depth, last):
    body = "x = x + 1\n"
    for k in range(depth):
        body = f"FROM i{k} = 0 TO {last} {{\n{body}}}\n"
    return body


def chain(block):
    """Forty functions, each of which calls the next one as `block` says."""
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
    assert time.process_time() - begin < 2  # it took 7 to 50 s; now some 0.1 s


def test_many_statements_are_executed():
    made = Mechanism.from_nmodl(f"{HEAD}INITIAL {{ x = 0\n{loops(3, 9)} }}")
    assert float(made.twin("initial", ("x",))()[0]) == 1000
