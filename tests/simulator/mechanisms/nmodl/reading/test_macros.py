"""What C's preprocessor leaves of VERBATIM."""

import pytest

from clhines.simulator.mechanisms.nmodl.reading.macros import NotReadError, preprocessed

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
