"""Drop columns: a table column that no block looks up becomes 0."""

from nmodl_blocks import blocks_before

from clhines.simulator.mechanisms.nmodl.passes.drop_columns import drop_columns

TEXT = """NEURON { SUFFIX two NONSPECIFIC_CURRENT i RANGE g }
PARAMETER { g = 1e-4 }
ASSIGNED { v i fast slow }
BREAKPOINT { rates(v) i = g*fast*(v + 65) }
PROCEDURE rates(v) { TABLE fast, slow FROM -100 TO 100 WITH 200
    fast = exp(v/10) slow = exp(v/90) }
"""


def test_a_column_that_nothing_looks_up():
    before = blocks_before(drop_columns, TEXT)
    after = drop_columns(before)
    zero = before.graph.zero
    dropped = [node is zero for _, _, node in after.bodies["table_rates"].results]
    assert dropped == [False, True]
    assert not any(node is zero for _, _, node in before.bodies["table_rates"].results)
    assert after.bodies["current"] is before.bodies["current"]
