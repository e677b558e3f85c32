"""Mechanisms of tests/mod, compiled for NEURON once per session, and read by this package."""

import functools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from clhines import Mechanism

FOLDER = Path(__file__).parents[1] / "mod"


@functools.cache
def loaded(prefix):
    """NEURON's h, with the mechanisms of all files whose names begin with a prefix."""
    from neuron import h

    h.load_file("stdrun.hoc")  # cvode
    if any(hasattr(h, path.stem) for path in files(prefix)):
        return h
    where = Path(tempfile.mkdtemp())
    for path in files(prefix):
        shutil.copy(path, where)
    command = shutil.which("nrnivmodl") or Path(sys.executable).with_name("nrnivmodl")
    subprocess.run([command], cwd=where, check=True, capture_output=True)
    h.nrn_load_dll(str(next(where.rglob("libnrnmech.so"))))
    return h


def files(prefix):
    """Files whose names begin with a prefix."""
    return sorted(FOLDER.glob(f"{prefix}*.mod"))


@functools.cache
def ours(name):
    """Mechanism of a file."""
    return Mechanism.from_nmodl(FOLDER / f"{name}.mod")
