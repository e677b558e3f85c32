"""Changes that a caller makes to a file: a RANGE variable becomes a POINTER, and so on."""

import pytest

from clhines import InputError
from clhines.simulator.mechanisms.nmodl.reading.changes import FileChanges
from clhines.simulator.mechanisms.nmodl.reading.parse import parse

TEXT = """
NEURON { POINT_PROCESS one RANGE g, other, e NONSPECIFIC_CURRENT i POINTER far, rng }
PARAMETER { g = 1 other = -65 (mV) e }
ASSIGNED { v i far rng x }
BREAKPOINT { i = g*(v - other) }
FUNCTION draw() {
VERBATIM
    if (style == 2) { _ldraw = nrn_random_pick(_p_rng); } else { _ldraw = 1; }
ENDVERBATIM
}
"""


def changed(statics=(("style", 2),), **changes):
    return parse(TEXT, changes=FileChanges(statics, **changes))


def test_a_range_variable_becomes_a_pointer():
    file = changed(pointing=("other", "far"))
    assert {*file.pointers} == {"other", "far"} and [*file.range][:2] == ["g", "e"]
    assert file.variables["other"].sort == "assigned"
    with pytest.raises(InputError, match="x is in no RANGE of the text"):
        changed(pointing=("x",))


def test_a_pointer_becomes_a_variable_of_the_file():
    file = changed(unpointed=("far",), ranged=("far",))
    assert not file.pointers and "far" in file.range and "far" in file.variables


def test_a_parameter_says_which_instances_have_a_stream():
    flag = changed(streamless=("rng",)).variables["rng_given"]
    assert (flag.sort, flag.value) == ("parameter", 0)


@pytest.mark.parametrize("shows", [False, True])
def test_hoc_sees_currents(shows):
    assert ("i" in changed(shows_currents=shows).range) == shows


@pytest.mark.parametrize("value", [2, -1])
def test_c_has_the_values_of_static_variables(value):
    file = changed(statics=(("style", value),))
    [condition] = [s for s in file.blocks["draw"].body if s.kind == "if"]
    number = condition.values[0][1]
    assert value == (-number[1][1] if value < 0 else number[1])


def test_c_with_an_unknown_name_is_not_read():
    """Without the caller's value a static variable has none, and C that uses it is refused."""
    assert [s.kind for s in changed(statics=()).blocks["draw"].body] == ["call"]
