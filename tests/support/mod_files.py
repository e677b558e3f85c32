"""Mechanisms of tests/mod, compiled for NEURON once for all processes, and read by this package."""

import fcntl
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path

from clhines import Mechanism

FOLDER = Path(__file__).parents[1] / "mod"
FEW = "na", "ext_ca", "ext_cad", "ext_kca", "ext_nmda"  # files of tests marked `core`
sys.path.append(str(FOLDER.parents[1]))  # bench
# A compiler that reads the headers of all translated .mod files once, which halves the time. Its
# arguments end with -c FILE -o OBJECT, or belong to the linker.
COMPILER = r"""#!/bin/sh
set -e
last='neuron/cache/mechanism_range.hpp"$'
for file; do case $file in *.cpp) break ;; esac; done
command -v flock > /dev/null && grep -qs "$last" "$file" || exec c++ "$@"
(
    flock 9
    [ ! -e headers.h.gch ] || exit 0
    sed -n "/^#include/,\:$last:p; \:$last:q" "$file" > headers.h
    kept=$(($# - 4)) count=0
    for word; do shift; [ $((count += 1)) -gt $kept ] || set -- "$@" "$word"; done
    c++ "$@" -x c++-header headers.h -o headers.h.tmp
    mv headers.h.tmp headers.h.gch
) 9> headers.lock
exec c++ -include headers.h "$@"
"""


@functools.cache
def loaded():
    """NEURON's h, with the mechanisms of all files."""
    from neuron import h

    h.load_file("stdrun.hoc")  # cvode
    if not hasattr(h, "ext_cad"):
        h.nrn_load_dll(str(library()))
    return h


def library(names=()):
    """Return nrnivmodl's library for the mechanisms of some files, or of all."""
    return next(compiled(names).rglob("libnrnmech.so"))


def compiled(names=()):
    """Return the folder of nrnivmodl for some files, or for all; the first call compiles them.

    ``CLHINES_TEST_BUILDS`` names a folder that the processes of a run share (`conftest`). It may be
    kept between runs: its folders are named by the files, NEURON and the compiler.
    """
    folders = FOLDER, FOLDER / "nmodl", FOLDER / "library"
    few = "CLHINES_TEST_FEW_MODS" in os.environ
    assert not few or {*names} == {*FEW}, "a test that is marked `core` uses `mod_files.FEW` alone"
    paths = [FOLDER / f"{name}.mod" for name in names]
    paths = paths or [p for f in folders for p in sorted(f.iterdir()) if p.is_file()]
    shared = Path(os.environ.get("CLHINES_TEST_BUILDS") or tempfile.mkdtemp())
    folder = shared / _digest(paths)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:  # notes the last use, too
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.utime(folder)
        if not (folder / "done").is_file():
            from bench import nrn

            for path in paths:
                shutil.copy(path, folder)
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            compiler = folder / "compiler"
            compiler.write_text(COMPILER)
            compiler.chmod(0o755)
            done = subprocess.run(
                [nrn.compiler(), "-incflags", "-O0"], cwd=folder, capture_output=True, text=True,
                env={**os.environ, "PATH": path, "CXX": str(compiler)}, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr[-2000:]
            for large in folder.rglob("headers.h.gch"):
                large.unlink()
            (folder / "done").touch()
    return folder


def _digest(paths):
    """Name of a build: texts of the files, NEURON's version and the compiler's."""
    texts = [path.name.encode() + b"\0" + path.read_bytes() + b"\0" for path in paths]
    return hashlib.sha256(b"".join([*texts, versions()])).hexdigest()[:16]


@functools.cache
def versions():
    """Versions of the compiler, the processor, NEURON and Python."""
    compiler = subprocess.run(["c++", "--version"], capture_output=True, check=True).stdout
    neuron = [d.version for d in distributions() if d.name in ("neuron", "neuron-nightly")]
    return compiler + f"{platform.machine()} {neuron[0]} {sys.version}".encode()


@functools.cache
def ours(name):
    """Mechanism of a file."""
    return Mechanism.from_nmodl(FOLDER / f"{name}.mod")
