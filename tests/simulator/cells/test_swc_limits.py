"""Files and cells too large are refused before memory is allocated: 2 GiB of addresses suffice."""

import os

import pytest
from processes import run_python

from clhines.core.errors import InputError
from clhines.simulator.cells.swc import read_swc

pytestmark = pytest.mark.core


def run_limited(code, *arguments, limit=2**31):
    program = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))\n{code}"
    done = run_python("-c", program, *arguments, timeout=60, OPENBLAS_NUM_THREADS="1")
    return done.stdout + done.stderr[-2000:]


READ = """
import sys
from clhines.core.errors import ClhinesError
from clhines.simulator.cells.swc import read_swc
try:
    read_swc(sys.argv[1])
except ClhinesError as error:
    print(error)
"""


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there is no /dev/zero")
def test_a_file_without_end_is_refused():
    said = "/dev/zero: cannot be read: is no regular file, expected an SWC file"
    assert run_limited(READ, "/dev/zero") == said + "\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"\n" * (2**22 + 1), ": has 4194305 lines, expected at most 4194304"),
        (b"\r" * (2**22 + 1), ": has 4194305 lines, expected at most 4194304"),
        (b"1 " * 2**24, ":1: more than 1000 columns in '1 1 1"),
        (b"1" * 2**25 + b" 1 0 0 0 1 -1", ":1: id is '1111"),
        (b"1 1 0 0 " + b"1" * 2**25 + b" 1 -1", ":1: z is '1111"),
    ],
    ids=["lines", "returns", "columns", "an id", "a coordinate"],  # a variable holds them
)
def test_large_files_are_judged_before_they_are_taken_apart(tmp_path, text, said):
    path = tmp_path / "large.swc"
    path.write_bytes(text)
    result = run_limited(READ, path)
    assert result.startswith(f"{path}{said}")
    assert result.count("\n") == 1


CUT = """
import sys
from clhines.simulator.cells.cable import discretise
from clhines.core.errors import ClhinesError
from clhines.simulator.cells.swc import read_swc
try:
    length = float(sys.argv[2])
    discretise(read_swc(sys.argv[1]), max_length=length or None)
except ClhinesError as error:
    print(error)
"""


@pytest.mark.parametrize("length", [0, 1e-300, 1, 20])
@pytest.mark.parametrize("radius", ["1", "1e9", "1e38", "1e-30"])
@pytest.mark.parametrize("x", ["1e9", "1e30", "3e38"])
def test_huge_cells_are_judged_before_they_are_cut(tmp_path, x, radius, length):
    path = tmp_path / "huge.swc"
    path.write_text(f"1 1 0 0 0 {radius} -1\n2 3 -{x} 0 0 1 1\n3 3 {x} 0 0 {radius} 2\n")
    result = run_limited(CUT, path, length)
    assert result == "" or (result.startswith(str(path)) and result.count("\n") == 1)
    if length in (1e-300, 1, 20):
        assert "segments in a cell, of which" in result or "too long for single precision" in result


@pytest.mark.parametrize("path", [None, 3])
def test_what_is_no_path_is_rejected(path):
    with pytest.raises(InputError, match=f"path is {path}, expected the name of an SWC file"):
        read_swc(path)
