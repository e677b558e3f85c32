"""Sort variables: states keep values between blocks; only users read outputs."""

from nmodl_blocks import blocks_after

from clhines.simulator.mechanisms.nmodl.passes.sort_variables import sort_variables

TEXT = """NEURON { SUFFIX some USEION k READ ek WRITE ik RANGE g, shown, unused }
PARAMETER { g = 1e-4 unused = 3 }
STATE { m }
ASSIGNED { v ek ik shown hidden }
INITIAL { m = 0 }
BREAKPOINT { SOLVE states METHOD cnexp shown = g*m hidden = 2*shown ik = hidden*(v - ek) }
DERIVATIVE states { m' = (1 - m)/5 }
"""


def test_variables_by_what_becomes_of_them():
    blocks = blocks_after(sort_variables, TEXT)
    assert (blocks.states, blocks.outputs, blocks.parameters) == (("m",), ("shown",), ("g",))
    assert {"m", "g"} <= blocks.live and "shown" not in blocks.live


def test_what_others_point_to_is_a_state():
    assert blocks_after(sort_variables, TEXT, kept=("shown",)).states == ("m", "shown")
