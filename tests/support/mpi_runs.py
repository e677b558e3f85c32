"""Programs on several ranks of MPI, where mpi4py and mpiexec are installed."""

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

MPIEXEC = os.environ.get("MPIEXEC") or shutil.which(
    "mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
)


needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or MPIEXEC is None,
    reason="needs mpi4py and mpiexec: pip install '.[mpi]'",
)


def mpiexec(count, *words, seconds=90):
    """Run a program on so many ranks; it must end in time."""
    command = [MPIEXEC, "-n", str(count), sys.executable, *map(str, words)]
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    return done, time.perf_counter() - begin
