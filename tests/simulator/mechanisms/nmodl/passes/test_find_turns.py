"""Find turns: variables of all instances that the instances set one after the other."""

import pytest
from nmodl_blocks import blocks_after

from clhines.simulator.mechanisms.nmodl.passes.find_turns import find_turns

TEXT = """NEURON {{ SUFFIX turns NONSPECIFIC_CURRENT i RANGE g GLOBAL level }}
PARAMETER {{ g = 1e-4 }}
STATE {{ m }}
ASSIGNED {{ v i level }}
INITIAL {{ {initial} m = 0 }}
BREAKPOINT {{ {current} i = g*m*v }}
BEFORE STEP {{ {before} }}
"""


@pytest.mark.parametrize(
    "parts, alone, begun",
    [
        ({"initial": "level = g", "current": "m = level"}, (), ("level",)),
        ({"initial": "level = 1", "before": "level = level + v m = level"}, ("level",), ()),
        ({"initial": "level = 1", "before": "m = level"}, (), ()),
    ],
)
def test_who_sets_a_global(parts, alone, begun):
    """A global is a constant of INITIAL, or each instance sets it in turn from its own values."""
    text = TEXT.format(**{"initial": "", "current": "", "before": "", **parts})
    blocks = blocks_after(find_turns, text)
    assert (blocks.alone, blocks.begun, blocks.last) == (alone, begun, ())
