"""Run a benchmark module in a separate process, which writes one JSON file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import MissingError
from clhines.core.errors import install

BENCH = Path(__file__).resolve().parent


def mpiexec(ranks: int, python: str = sys.executable) -> list[str]:
    """Return the command that starts ranks: ``$MPIEXEC``, the one beside a Python, or PATH's."""
    places = os.pathsep.join([str(Path(python).absolute().parent), os.environ["PATH"]])
    launcher = os.environ.get("MPIEXEC") or shutil.which("mpiexec", path=places)
    if launcher is None:
        raise MissingError(f"there is no mpiexec; {install('mpi')}")
    return [launcher, "-n", str(ranks)]


def run(
    module: str, arguments: Sequence[str], most: float, launcher: Sequence[str] = ()
) -> dict[str, Any]:
    """Run a module in a process; return its result, or the ``reason`` for a missing result.

    Parameters
    ----------
    module : str
        Name below `bench`; its `main` gets the arguments and, as the last one, the output file.
    most : float, s
        Time limit.
    launcher : sequence of str
        Command that starts the interpreter, such as ``mpiexec -n 2``.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "row.json"
        command = [*launcher, sys.executable, str(BENCH), module, *arguments, str(out)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=most, check=False, cwd=folder
            )
        except subprocess.TimeoutExpired:
            return {"reason": f"took more than {most:.0f} s"}
        if out.is_file():
            result: dict[str, Any] = json.loads(out.read_text("utf-8"))
            return result
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["nothing"]
        return {"reason": f"ended with code {done.returncode} and said: {said[-1].strip()[:120]}"}
