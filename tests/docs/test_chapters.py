"""The docstring of each package is its chapter: short, with an example that runs."""

import doctest
import importlib
from pathlib import Path

import pytest
from processes import run_python

ROOT = Path(__file__).parents[2]
# These need no device.
FREE = (
    "core",
    "solver.plan",
    *(f"simulator.{n}" for n in ("cells", "mechanisms", "network", "model", "analysis")),
)
OTHERS = ("solver", "solver.device", "simulator", "cli")


@pytest.mark.parametrize("name", ["clhines", *(f"clhines.{name}" for name in FREE + OTHERS)])
def test_chapter(name):
    """At most 60 lines, and every example prints its documented output."""
    module = importlib.import_module(name)
    assert len(module.__doc__.splitlines()) <= 60
    test = doctest.DocTestFinder(recurse=False).find(module, name)[0]
    assert test.examples or name == "clhines", f"{name} has no worked example"
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    assert result.attempted == len(test.examples) and result.failed == 0


NESTED = ("neuron", "simulator", "solver")  # whose folders have chapters, too
FOLDERS = sorted(
    p.parent.relative_to(ROOT).as_posix().replace("/", ".")
    for top in NESTED
    for p in (ROOT / "clhines" / top).glob("*/**/__init__.py")
    if "by_" not in p.parent.name
)


@pytest.mark.parametrize("name", [*(f"clhines.{n}" for n in sorted({*FREE, *OTHERS})), *FOLDERS])
def test_chapter_names_every_module(name):
    package = importlib.import_module(name)
    folder = Path(package.__file__).parent
    inside = {p.stem for p in folder.glob("[!_]*.py")}
    if name.split(".")[1] in NESTED:
        inside |= {p.parent.name for p in folder.glob("*/__init__.py")}
    assert inside
    missing = [m for m in sorted(inside) if f"`{m}`" not in package.__doc__]
    assert not missing, f"the chapter of {name} lacks {missing}"


def test_chapters_that_need_no_device_run_without_opencl():
    """Examples of models and cells run if pyopencl cannot be imported."""
    program = (
        "import sys, doctest, importlib\n"
        "sys.modules['pyopencl'] = None\n"
        f"for name in {FREE}:\n"
        "    module = importlib.import_module(f'clhines.{name}')\n"
        "    found = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)\n"
        "    assert found.attempted and not found.failed, name\n"
    )
    done = run_python("-c", program, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
