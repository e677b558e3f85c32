"""Tokens of an NMODL text, and files that it includes."""

import os

import pytest
from nmodl_texts import assert_refused, text_of

from clhines import InputError, Mechanism

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs FIFOs")


def test_what_a_file_includes_is_read_with_care(tmp_path):
    os.mkfifo(tmp_path / "fifo.inc")
    (tmp_path / "one.mod").write_text('NEURON { SUFFIX one }\nINCLUDE "fifo.inc"\n')
    with pytest.raises(InputError, match=r"one.mod:2: INCLUDE .*fifo.inc"):
        Mechanism.from_nmodl(tmp_path / "one.mod")


def test_one_long_line_is_a_text():
    with pytest.raises(InputError, match="unexpected"):
        Mechanism.from_nmodl("{" * 5000)


REFUSED = {  # text, refused construct, words in its line
    "INCLUDE": (text_of('x = 3\n}\nINCLUDE "no.inc"\nINITIAL {'), "no.inc", "INCLUDE")
}


@pytest.mark.parametrize("which", REFUSED)
def test_refused_by_name_and_line(which):
    assert_refused(*REFUSED[which])
