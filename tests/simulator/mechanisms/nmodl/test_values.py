"""Values of variables that one block sets and another reads."""

import pytest
from nmodl_texts import assert_refused, text_of

from clhines import Network, Simulation
from clhines.core.errors import InputError
from clhines.simulator.mechanisms import Mechanism

REFUSED = {  # text, refused construct, words in its line
    "v of a function of events": (
        "NEURON { POINT_PROCESS one\nNONSPECIFIC_CURRENT i }\nASSIGNED { v i x }\n"
        "BREAKPOINT { i = x*v }\nFUNCTION f() {\nf = v }\nNET_RECEIVE(w) { x = f() }",
        "v in f, which is the voltage of the previous step",
        "f = v",
    ),
    "v set for events alone": (
        text_of("f()").replace("INITIAL", "PROCEDURE f() {\nv = -70 }\nNET_RECEIVE(w)"),
        "v is set in f, but not in NET_RECEIVE",
        "v = -70",
    ),
    "v set in a loop": (
        text_of("WHILE (x < v) {\nx = x + 1 v = 3\n}"),
        "v is set in a loop",
        "v = 3",
    ),
    "POINTER set in BREAKPOINT": (
        text_of("", "NONSPECIFIC_CURRENT i\nPOINTER p\n", "ASSIGNED { i p }").replace(
            "x = m", "p = 3\ni = 0"
        ),
        "POINTER p is written in BREAKPOINT",
        "p = 3",
    ),
    "POINTER set by an event": (
        text_of("", "POINTER p", "ASSIGNED { p }\nNET_RECEIVE(w) { p = p + w }\nINITIAL { x = p }"),
        "POINTER p, which NET_RECEIVE writes, is used elsewhere, too",
        "POINTER p",
    ),
    "POINTER set from itself": (
        text_of("p = 3*p", "POINTER p", "ASSIGNED { p }"),
        "POINTER p is set but from itself in INITIAL",
        "POINTER p",
    ),
    "POINTER set where others add": (
        text_of("", "POINTER p", "ASSIGNED { p }\nAFTER SOLVE { p = 3 }"),
        "POINTER p is other than added to in AFTER SOLVE",
        "POINTER p",
    ),
    "POINTER written and read": (
        text_of("p = 3", "POINTER p", "ASSIGNED { p }\nAFTER SOLVE { x = p }"),
        "POINTER p is written and read",
        "POINTER p",
    ),
    "shared": (
        text_of("q = v", "RANGE x", "LOCAL q\nAFTER SOLVE { x = q }\nBEFORE STEP { q = v }"),
        "all instances share 'q'",
        "LOCAL q",
    ),
    "in turn": (
        text_of("q = q + 1", "RANGE x", "LOCAL q\nAFTER SOLVE { x = q }"),
        "all instances share 'q'",
        "LOCAL q",
    ),
}


@pytest.mark.parametrize("which", REFUSED)
def test_refused_by_name_and_line(which):
    assert_refused(*REFUSED[which])


@pytest.mark.parametrize("body", ["q = v", "q = q + 1"])
def test_globals_that_a_step_begins_and_ends_with_are_of_one_instance(body):
    """BEFORE STEP of an instance reads the value that the previous instance's block set."""
    more = f"ASSIGNED {{ q }}\nBEFORE STEP {{ x = q\n {body} }}"
    made = Mechanism.from_nmodl(text_of("q = v", "RANGE x\n GLOBAL q", more))
    assert (made.program.alone, made.program.last) == (("q",), ())
    one, two = (
        Network.from_arrays([-1, 0], [0, 2], [300.0] * 2, [0.0, 0.1], [0.005] * 2) for _ in range(2)
    )
    one.insert(made, [1])
    Simulation(one, dt=0.05, engine="reference").run(1)
    two.insert(made, [0, 1])
    with pytest.raises(InputError, match="one: each of its 2 instances sets q"):
        Simulation(two, dt=0.05, engine="reference")
