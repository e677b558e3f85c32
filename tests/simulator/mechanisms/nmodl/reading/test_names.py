"""Names of an NMODL file in generated functions."""

import re

import pytest

from clhines.core.errors import InputError
from clhines.simulator.mechanisms import Mechanism


def test_a_name_that_no_file_can_have_is_an_error_of_input():
    with pytest.raises(InputError, match="is no path of a file"):
        Mechanism.from_nmodl("na\0.mod")


def test_a_name_with_an_underscore_is_not_another_ones_pointer():
    text = (
        "NEURON { POINT_PROCESS both NONSPECIFIC_CURRENT i }\nASSIGNED { i (nA) A_ }\n"
        "STATE { A }\nINITIAL { A = 0 A_ = 2 }\nBREAKPOINT { SOLVE steps METHOD cnexp i = A*A_ }\n"
        "DERIVATIVE steps { A' = -A*A_ }\nNET_RECEIVE(w) { A = A + w A_ = A_ + A }\n"
    )
    source = Mechanism.from_nmodl(text).functions("double")
    heads = re.findall(r"static \w+ both_(\w+)\(([^)]*)\)", source)
    assert {"initial", "receive"} <= {name for name, _ in heads}
    for name, arguments in heads:
        names = [a.split("*")[-1].split()[-1] for a in arguments.split(",") if a != "void"]
        assert len(set(names)) == len(names), (name, names)
