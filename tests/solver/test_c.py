"""The C program of docs/howto/c launches a solver's source: gcc and PyOpenCL's loader suffice."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyopencl as cl
import pytest

from clhines.solver.device import devices, pocl

FOLDER = Path(__file__).resolve().parents[2] / "docs/howto/c"
LIBRARIES = Path(cl.__file__).parent / ".libs"  # of PyOpenCL's wheel, with PoCL's beside it
LOADERS = sorted(LIBRARIES.glob("libOpenCL*"))
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir() or shutil.which("gcc") is None or not LOADERS
    or not (LIBRARIES / "pocl.icd").exists(),
    reason="needs docs, gcc, and PyOpenCL and PoCL from pip",
)  # fmt: skip
UNNAMED = any(pocl.is_unnamed(device) for _, device in devices.all_devices())


@pytest.mark.skipif(UNNAMED, reason="PoCL alone builds nothing for a processor without a name")
@pytest.mark.parametrize("method", ["interleaved", "flat"])
def test_a_c_program_launches_a_solver(tmp_path, method):
    text = (FOLDER / "export.py").read_text("utf-8")
    assert '"interleaved"' in text
    code = text.replace('"interleaved"', f'"{method}"')
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    strict = "-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror"
    source = str(FOLDER / "solve.c"), str(LOADERS[0]), "-lm"
    subprocess.run(["gcc", *strict, "-o", "solve", *source], cwd=tmp_path, check=True)
    own = {
        "PYOPENCL_HOME": str(LIBRARIES.parent),  # its loader crashes without
        "OCL_ICD_VENDORS": str(LIBRARIES / "pocl.icd"),
        "LD_LIBRARY_PATH": str(LIBRARIES),
    }
    run = {"cwd": tmp_path, "env": {**os.environ, **own}, "capture_output": True, "text": True}
    done = subprocess.run(["./solve"], **run)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1000 cells, 5000 nodes, residual ")
    (tmp_path / "solve.bin").write_bytes((tmp_path / "solve.bin").read_bytes()[:-4])
    done = subprocess.run(["./solve"], **run)
    assert done.returncode == 1 and "a file is too short" in done.stderr
