"""Guard draws: conditions for a draw from NEURON's global generator."""

from nmodl_blocks import blocks_after

from clhines.simulator.mechanisms.nmodl.passes.guard_draws import guard_draws

TEXT = """NEURON { POINT_PROCESS draws NONSPECIFIC_CURRENT i RANGE noise }
PARAMETER { noise = 0 }
ASSIGNED { v i x }
INITIAL { x = 0 if (noise > 0) { x = normrand(0, 1) } }
BREAKPOINT { i = x }
"""


def test_a_block_says_when_a_draw_is_needed():
    blocks = blocks_after(guard_draws, TEXT)
    (message,) = blocks.unless
    assert "line 4" in message
    ((role, name, condition),) = blocks.bodies["unless_initial"].results
    assert (role, name) == ("unless", "0") and condition.free == {"noise"}


def test_nothing_is_drawn():
    blocks = blocks_after(guard_draws, TEXT.replace("x = normrand(0, 1)", "x = 1"))
    assert not blocks.unless and not any(n.startswith("unless") for n in blocks.bodies)
