"""Note sets: events that set v store the value and its time in outputs."""

from nmodl_blocks import blocks_after

from clhines.simulator.mechanisms.ir.program import SET, SET_AT
from clhines.simulator.mechanisms.nmodl.passes.note_sets import note_sets

TEXT = """NEURON {{ POINT_PROCESS fires NONSPECIFIC_CURRENT i }}
ASSIGNED {{ v i }}
INITIAL {{ net_send(0, 1) }}
BREAKPOINT {{ i = 0 }}
NET_RECEIVE(w) {{ if (flag == 1) {{ WATCH (v > 0) 2 }} else if (flag == 2) {{ {sets} }} }}
"""


def test_what_an_event_leaves():
    blocks = blocks_after(note_sets, TEXT.format(sets="v = -65"))
    assert blocks.notes == (SET.format("v"), SET_AT)
    assert {*blocks.notes} <= blocks.bodies["receive"].writes.keys()


def test_events_that_set_no_voltage():
    assert blocks_after(note_sets, TEXT.format(sets="net_event(t)")).notes == ()
