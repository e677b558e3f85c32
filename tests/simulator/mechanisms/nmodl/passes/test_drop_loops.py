"""Drop loops: iterations that no result needs."""

from dataclasses import replace

from nmodl_blocks import blocks_before

from clhines.simulator.mechanisms.nmodl.passes.drop_loops import drop_loops

TEXT = """NEURON { SUFFIX cubic NONSPECIFIC_CURRENT i }
STATE { m }
ASSIGNED { v i }
BREAKPOINT { SOLVE states METHOD derivimplicit i = m*v }
DERIVATIVE states { m' = -m*m*m }
"""


def test_loops_of_states_stay_and_others_go():
    before = blocks_before(drop_loops, TEXT)
    assert before.bodies["advance"].loops
    assert len(drop_loops(before).bodies["advance"].loops) == len(before.bodies["advance"].loops)
    nothing = replace(before, needed=frozenset())
    assert not drop_loops(nothing).bodies["advance"].loops
    assert before.bodies["advance"].loops
