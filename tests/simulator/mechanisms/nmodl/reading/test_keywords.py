"""Reserved words of NEURON are refused as by its translator."""

import contextlib

import nocmodl
import pytest

from clhines.simulator.mechanisms import Mechanism
from clhines.simulator.mechanisms.nmodl import NmodlError
from clhines.simulator.mechanisms.nmodl.reading.keywords import FUNCTIONS_OF_NEURON, KEYWORDS

NAMED = {  # declarations of a name, and uses
    "PARAMETER": "PARAMETER {{ {0} = 2 }}\nINITIAL {{ out = {0} }}",
    "ASSIGNED": "ASSIGNED {{ {0} }}\nINITIAL {{ {0} = 2\nout = {0} }}",
    "STATE": "STATE {{ {0} }}\nBREAKPOINT {{ SOLVE a METHOD euler }}\nDERIVATIVE a {{ {0}' = 1 }}",
    "CONSTANT": "CONSTANT {{ {0} = 2 }}\nINITIAL {{ out = {0} }}",
    "LOCAL": "INITIAL {{ LOCAL {0}\n{0} = 1\nout = {0} }}",
    "argument": "INITIAL {{ out = a_(1) }}\nFUNCTION a_({0}) {{ a_ = {0} }}",
    "FUNCTION": "INITIAL {{ out = {0}(3) }}\nFUNCTION {0}(a_) {{ {0} = a_ }}",
    "PROCEDURE": "INITIAL {{ {0}(3) }}\nPROCEDURE {0}(a_) {{ out = a_ }}",
}


@pytest.mark.parametrize("sort", NAMED)
def test_words_that_neuron_keeps_are_refused_where_it_refuses_them(sort):
    """Check keywords, functions, and other names that NEURON defines but does not reserve."""
    others = {"abs", "acosh", "adrk", "random_setseed", "x", "y"}
    for word in sorted(KEYWORDS | FUNCTIONS_OF_NEURON | others):
        text = "NEURON { SUFFIX one  RANGE out }\nASSIGNED { out }\n" + NAMED[sort].format(word)
        is_refused = word in KEYWORDS or (word not in others and sort not in ("LOCAL", "argument"))
        with pytest.raises(NmodlError) if is_refused else contextlib.nullcontext():
            Mechanism.from_nmodl(text)
        if nocmodl.folder() is not None:
            assert nocmodl.takes(text) != is_refused, word
