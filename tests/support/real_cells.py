"""Paths of the real morphologies for some tests, which skip if the folder is absent."""

import csv
import os
from pathlib import Path

import pytest

FOLDER = Path(
    os.environ.get("CLHINES_MORPHOLOGIES")
    or Path(__file__).resolve().parents[2] / ".." / "shared" / "morphologies"
)
INDEX = FOLDER / "index.csv"
needs_folder = pytest.mark.skipif(
    not INDEX.is_file(),
    reason=f"no morphologies in {FOLDER}; set CLHINES_MORPHOLOGIES to their folder",
)


def names():
    """Return the names of files in the folder ``good``, as parameters of a test."""
    if not INDEX.is_file():
        return [pytest.param("none", marks=needs_folder)]
    return [row["file"] for row in csv.DictReader(INDEX.read_text(encoding="utf-8").splitlines())]
