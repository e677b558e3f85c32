"""NMODL texts for tests of refusals, the rejections, and the assertion."""

import pickle

import pytest

from clhines.core.errors import InputError
from clhines.simulator.mechanisms import Mechanism
from clhines.simulator.mechanisms.nmodl import NmodlError

TWO_STATES = (
    "NEURON { SUFFIX two }\nPARAMETER { p = 1 }\nSTATE { a b }\nINITIAL { a = 1 b = 0 }\n"
    "BREAKPOINT { SOLVE k METHOD sparse }\n"
)


def text_of(body, neuron="RANGE x", more=""):
    return (
        f"NEURON {{ SUFFIX one\n {neuron} }}\nASSIGNED {{ v x }}\nSTATE {{ m }}\n"
        f"BREAKPOINT {{ SOLVE s METHOD cnexp\n x = m }}\nDERIVATIVE s {{ m' = -m }}\n{more}\n"
        f"INITIAL {{\n{body}\n}}\n"
    )


def diffusing(statements, neuron="RANGE x", more=""):
    text = text_of("", neuron, more).replace("{ m' = -m }", "{\n" + statements + "\n~ m << (1)\n}")
    text = text.replace("DERIVATIVE", "KINETIC").replace("cnexp", "sparse")
    return text.replace("{D}", "LONGITUDINAL_DIFFUSION")


def rejections(text):
    """Return a text's constructs that are not supported."""
    try:
        Mechanism.from_nmodl(text)
    except NmodlError as error:
        return error.rejections
    return []


def assert_refused(text, construct, beside, alone=True):
    """Check that a file is refused by name, in the line of `beside`, by an error that pickles."""
    if "NET_RECEIVE" in text:
        text = text.replace("SUFFIX", "POINT_PROCESS")
    line = 1 + next(k for k, part in enumerate(text.split("\n")) if beside in part)
    with pytest.raises(NmodlError) as caught:
        Mechanism.from_nmodl(text, path="some.mod")
    assert isinstance(caught.value, InputError)
    one, *others = caught.value.rejections
    assert not others or not alone
    assert construct in one.construct
    assert (one.file, one.line) == ("some.mod", line)
    assert str(one).startswith(f"some.mod:{line}: ")
    assert pickle.loads(pickle.dumps(caught.value)).rejections == [one, *others]
