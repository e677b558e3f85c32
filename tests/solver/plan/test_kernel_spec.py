"""Parameters and bit fields of kernels, as Python and OpenCL read them."""

import numpy as np
import pytest

from clhines.solver.plan.by_cell.cell import STEP
from clhines.solver.plan.by_segment.schedule import LINK
from clhines.solver.plan.kernel_spec import STATUS, Word, parameter


def test_words_are_read_as_they_are_packed():
    """Unpack by Python, and by the printed text, whose operators OpenCL C shares with Python."""
    rng = np.random.default_rng(3)
    for word in (LINK, STATUS, STEP, Word(a=1, b=7, c=23)):
        names = list(word.shifts)
        values = {n: rng.integers(0, word.most(n) + 1, 50) for n in names}
        packed = word.pack(**values)
        for n in names:
            np.testing.assert_array_equal(word.unpack(n, packed), values[n])
            read = [eval(word.read(n, str(int(w)))) for w in packed]  # this test's text
            scale = 1 << word.shifts[n] if word.most(n) == 1 else 1
            np.testing.assert_array_equal(read, values[n] * scale)
    root = STEP.pack(first=[1, 0], waiting=[0, 1], parent=[-1, 5])  # the last one may be negative
    np.testing.assert_array_equal(STEP.unpack("parent", root), [-1, 5])


def test_a_number_without_room_in_its_bits_is_refused():
    for numbers in ({"a": 8, "b": 0}, {"a": 0, "b": 16}, {"a": -1, "b": 0}):
        with pytest.raises(OverflowError, match="expected 0 to"):
            Word(a=3, b=4).pack(**numbers)
    with pytest.raises(ValueError, match="32 bits; expected at most 31"):
        Word(a=16, b=16)


def test_declarations():
    assert str(parameter("int n")) == "const int n"
    assert str(parameter("real *x")) == "__global real *x"
    assert str(parameter("volatile int *restrict k")) == "volatile __global int *restrict k"
    assert parameter("rows:place", "const int *").role == "place"
    with pytest.raises(ValueError, match="expected a type and a name"):
        parameter("x")
