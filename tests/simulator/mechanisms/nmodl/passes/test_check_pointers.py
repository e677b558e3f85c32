"""Check pointers: no block may read a variable that a pointer writes."""

import pytest
from nmodl_blocks import blocks_before

from clhines.simulator.mechanisms.nmodl.passes.check_pointers import check_pointers
from clhines.simulator.mechanisms.nmodl.reading.tree import Refused

ADDS = """NEURON {{ SUFFIX adds POINTER total NONSPECIFIC_CURRENT i }}
ASSIGNED {{ total v i x }}
INITIAL {{ x = {x} }}
BREAKPOINT {{ i = 0 }}
AFTER SOLVE {{ total = total + v }}
"""


def test_a_sum_is_not_read_elsewhere():
    blocks = blocks_before(check_pointers, ADDS.format(x="1"))
    assert any(role == "add" for _, body in blocks.bodies.items() for role, *_ in body.results)
    assert check_pointers(blocks) is blocks


def test_reading_what_a_pointer_writes_is_refused():
    blocks = blocks_before(check_pointers, ADDS.format(x="total"))
    with pytest.raises(Refused, match="total"):
        check_pointers(blocks)
