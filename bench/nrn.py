"""NEURON's tools: its compiler of .mod files, and the names of its mechanisms."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import MissingError


def compiler(python: str = sys.executable) -> str:
    """Return nrnivmodl's path: beside a Python interpreter, or else in PATH."""
    beside = Path(python).absolute().with_name("nrnivmodl")
    command = str(beside) if beside.is_file() else shutil.which("nrnivmodl")
    if not command or not (shutil.which("c++") or shutil.which("g++")):
        raise MissingError("no C++ compiler, or no nrnivmodl, for NEURON's .mod files")
    return command


def compiled(folder: Path, *words: str) -> Path:
    """Run nrnivmodl in a folder with some arguments; the library. MissingError: there is none."""
    done = subprocess.run(
        [compiler(), *words], cwd=folder, capture_output=True, text=True, check=False
    )
    libraries = [*folder.glob("*/libnrnmech.*"), *folder.glob("*/.libs/libnrnmech.so")]
    if done.returncode or not libraries:
        last = (done.stderr.strip().splitlines() or ["no library"])[-1]
        raise MissingError(f"nrnivmodl failed: {last[:200]}")
    return libraries[0]


def mechanism_names(h: Any, points: bool) -> Iterator[str]:
    kinds, name = h.MechanismType(int(points)), h.ref("")
    for k in range(int(kinds.count())):
        kinds.select(k)
        kinds.selected(name)
        yield name[0]
