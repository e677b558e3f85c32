"""Names of constants and local variables in printed source."""

import re

import pytest
from mechanism_texts import minimal

from clhines.simulator.mechanisms.emit.functions import Functions
from clhines.simulator.mechanisms.mechanism import Mechanism

pytestmark = pytest.mark.core


def test_a_constant_in_a_condition_of_constants_has_one_name():
    """A second definition beside the shared constant would keep the source from building."""
    lines = "parameter a = 1\nb = exp(a)\ncurrent i = where(exp(b) > 9, where(v < 0, b, 1), 2)*v"
    few = Mechanism(minimal(lines)).compiled
    source, constants = Functions(few, "double", 1, ["a"]).lifted(["current"])
    assert "b" in constants
    assert "real b = " not in source[source.index("_current(") :]


def test_a_constant_has_another_name_than_a_variable_of_its_block():
    factor = Mechanism.from_nmodl(
        "NEURON { SUFFIX factor RANGE gbar GLOBAL q10, tadj NONSPECIFIC_CURRENT i }\n"
        "PARAMETER { gbar = 0.1 q10 = 2.3 celsius }\nASSIGNED { v i tadj a }\nSTATE { m }\n"
        "INITIAL { rates(v) m = a }\n"
        "BREAKPOINT { SOLVE states METHOD cnexp i = tadj*gbar*m*v }\n"
        "DERIVATIVE states { rates(v) m' = tadj*(a - m) }\n"
        "PROCEDURE rates(x) { tadj = q10^((celsius - 23)/10) a = 1/(1 + exp(-x)) }"
    )
    printed = Functions(factor.compiled, "double", 4, ["q10", "celsius"])
    source, constants = printed.lifted(["current", "advance"])
    head = source[source.index("factor__v4_current(") :].split(")")[0]
    names = re.findall(r"(\w+)(?:,|$)", head)
    assert constants and set(constants) <= set(names)
    assert len(set(names)) == len(names)


def test_constants_of_two_branches_of_one_name_have_two_names():
    branches = Mechanism.from_nmodl(
        "NEURON { SUFFIX branches NONSPECIFIC_CURRENT i }\n"
        "PARAMETER { celsius slow = 12 quick = 1.5 }\nASSIGNED { v i share }\nSTATE { m }\n"
        "BREAKPOINT { SOLVE states METHOD cnexp i = 1e-4*m*(v + 60) }\n"
        "DERIVATIVE states { LOCAL tau, all\n"
        "all = 3^((celsius - 23)/10)\n"
        "if (v < -55) { tau = slow/all } else { tau = quick/all }\n"
        "share = 1 - exp(-dt/tau)\n"
        "m' = share*(1/(1 + exp(-v/9)) - m) }"
    )
    printed = Functions(branches.compiled, "double", 4, ["celsius", "slow", "quick"])
    source, constants = printed.lifted(["current", "advance"])
    assert "tau" in constants and len(set(constants)) == len(constants)
    for head in re.findall(r"\bbranches_\w+\(([^)]*)\)\s*\{", source):
        names = re.findall(r"(\w+)(?:,|$)", head)
        assert len(set(names)) == len(names)
