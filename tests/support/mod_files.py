"""Mechanisms of tests/mod, compiled for NEURON once for all processes, and read by this package."""

import fcntl
import functools
import hashlib
import os
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
    paths = files(prefix)
    if not any(hasattr(h, path.stem) for path in paths):
        h.nrn_load_dll(str(next(compiled(paths).rglob("libnrnmech.so"))))
    return h


def in_turns(parts, engine):
    """Initialise NEURON's model and advance it by turns: (whether by this package, until when)."""
    from neuron import h

    import clhines

    h.finitialize(-65)
    for ours, until in parts:
        if ours:
            clhines.neuron.run(until, engine=engine)
        else:
            h.continuerun(until)


def compiled(paths):
    """Folder in which nrnivmodl has compiled these files; made by the first process that asks.

    ``CLHINES_TEST_BUILDS`` names the folder that the processes of a run share (`conftest`).
    """
    texts = b"".join(path.name.encode() + path.read_bytes() for path in paths)
    shared = Path(os.environ.get("CLHINES_TEST_BUILDS") or tempfile.mkdtemp())
    folder = shared / hashlib.sha256(texts).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.rglob("libnrnmech.so")):
            for path in paths:
                shutil.copy(path, folder)
            beside = Path(sys.executable).with_name("nrnivmodl")
            command = str(beside) if beside.is_file() else "nrnivmodl"
            path = f"{beside.parent}{os.pathsep}{os.environ['PATH']}"
            done = subprocess.run(
                [command, "-incflags", "-O0"], cwd=folder, env={**os.environ, "PATH": path},
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr[-2000:]
    return folder


def files(prefix, folder=FOLDER):
    """Files whose names begin with a prefix."""
    return sorted(folder.glob(f"{prefix}*.mod"))


@functools.cache
def ours(name):
    """Mechanism of a file."""
    return Mechanism.from_nmodl(FOLDER / f"{name}.mod")
