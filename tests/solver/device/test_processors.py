"""Kernels compile for every processor of PoCL's compiler, with vectors of the chosen width."""

import re
import sys
from pathlib import Path

import processors
import pytest

from clhines.solver.device import devices

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("pocl_binary_distribution")
    versions = [d.version for _, d in devices.all_devices() if "PoCL" in d.version]
    if not any("x86_64" in version for version in versions) or sys.platform != "linux":
        pytest.skip("these are names of x86-64 processors, for the wheel of PoCL")
    return tmp_path_factory.mktemp("sources")


@pytest.mark.slow
@pytest.mark.parametrize("row", [*processors.ROWS, *processors.WRONG], ids=str)
def test_every_kernel_compiles(folder, tmp_path, row):
    name, library, width = row
    width = width or processors.width_of(name)
    path = processors.sources(width, folder)
    kernels, _, fault = processors.compiled(name, library, path, tmp_path)
    if row in processors.WRONG:  # else this compiles other code than a launch
        assert fault.startswith("no end in solve")
    else:
        assert fault == "" and kernels > 20


def test_the_table_of_processors():
    """The table in bench/notes has the test's rows and the chosen widths."""
    page = ROOT / "bench" / "notes" / "processors.md"
    if not page.is_file():
        pytest.skip("not a checkout")
    rows = re.findall(
        r"^\| `([\w-]+)` \| (\d+) bytes \| (\w+) \|.*\| (.*) \|$", page.read_text(), re.M
    )
    expected = {
        (name, str(width or processors.width_of(name)), library)
        for name, library, width in (*processors.ROWS, *processors.WRONG)
    }
    assert {row[:3] for row in rows} == expected and len(rows) == len(expected)
    for name, width, library, outcome in rows:
        wrong = (name, library, int(width)) in processors.WRONG
        assert outcome.startswith("no end in solve" if wrong else "compiled")
