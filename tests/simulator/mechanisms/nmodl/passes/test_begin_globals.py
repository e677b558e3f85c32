"""Begin globals: INITIAL sees the defaults of variables that only later blocks set."""

import pytest
from nmodl_blocks import blocks_after

from clhines.simulator.mechanisms.nmodl.passes.begin_globals import begin_globals

TEXT = """NEURON {{ SUFFIX late NONSPECIFIC_CURRENT i GLOBAL level }}
PARAMETER {{ level = 2 }}
STATE {{ m }}
ASSIGNED {{ v i }}
INITIAL {{ m = level*3 }}
BREAKPOINT {{ i = m*{factor} level = v }}
"""


@pytest.mark.parametrize("factor, is_known", [("v", True), ("level", False)])
def test_the_default_is_written_unless_another_block_needs_the_value(factor, is_known):
    start = blocks_after(begin_globals, TEXT.format(factor=factor)).bodies["initial"].writes["m"]
    assert start.is_number == is_known
    assert start.value == 6 if is_known else start.free == {"level"}
