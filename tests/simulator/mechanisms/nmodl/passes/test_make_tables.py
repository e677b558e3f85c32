"""Make tables: parameters on which they depend, and refused dependencies."""

import pytest
from nmodl_blocks import blocks_after

from clhines.simulator.mechanisms.nmodl.passes.make_tables import make_tables
from clhines.simulator.mechanisms.nmodl.reading.tree import Refused

TEXT = """NEURON {{ SUFFIX tabled NONSPECIFIC_CURRENT i RANGE g GLOBAL slope }}
PARAMETER {{ g = 1e-4 slope = 10 }}
STATE {{ m }}
ASSIGNED {{ v i rate }}
INITIAL {{ m = 0 }}
BREAKPOINT {{ rates(v) i = g*rate*v m = v }}
PROCEDURE rates(v) {{ TABLE rate DEPEND slope FROM -100 TO 100 WITH 200 rate = exp(v/{by}) }}
"""


def test_a_table_and_what_it_depends_on():
    (table,) = blocks_after(make_tables, TEXT.format(by="slope")).tables
    assert (table.name, table.columns, table.n) == ("rates", ("rate",), 200)
    assert table.depends == ("slope",)


def test_a_table_of_a_state_is_refused():
    with pytest.raises(Refused, match="rates"):
        blocks_after(make_tables, TEXT.format(by="m"))
