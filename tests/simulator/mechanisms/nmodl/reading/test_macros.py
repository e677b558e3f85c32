"""VERBATIM after C's preprocessor."""

import pytest

from clhines.simulator.mechanisms.nmodl.reading.macros import (
    NotReadError,
    expanded,
    macros_in,
    preprocessed,
)

pytestmark = pytest.mark.core


def test_conditions_of_neuron_9():
    text = "a;\n#ifndef CORENEURON_BUILD\nb;\n#else\nc;\n#endif\n#include <math.h>\nd;\n"
    assert preprocessed(text).split() == ["a;", "b;", "d;"]
    nested = "#if 0\n#ifdef NRN_VERSION_GTEQ\nx;\n#else\ny;\n#endif\n#else\nz;\n#endif\n"
    assert preprocessed(nested).split() == ["z;"]


@pytest.mark.parametrize(
    "text",
    ["#ifdef MINE\nx;\n#endif\n", "#if 0\nx;\n", "#define N 3\nx;\n", "#if 1\n#elif 0\n#endif\n"],
)
def test_other_conditions_are_not_read(text):
    with pytest.raises(NotReadError):
        preprocessed(text)


def test_macros_of_one_argument():
    text = "#define twice(x) (2*(x))\n#if 0\n#define gone(x) x\n#endif\n#define N 3\n"
    macros = macros_in(text)
    assert macros == {"twice": ("x", "(2*(x))")}
    assert expanded("y = twice(a + f(b)) + once(x);", macros) == "y = (2*(a + f(b))) + once(x);"
    for wrong in ("y = twice(a;", "y = twice(twice(a));"):
        with pytest.raises(NotReadError):
            expanded(wrong, macros)
    assert macros_in("#ifdef MINE\n#define f(x) x\n#endif\n") == {}
