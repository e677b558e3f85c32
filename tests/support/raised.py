"""Note the ids of refusals that a test raises, in its process and in processes of `forked`."""

import contextlib
import os
import tempfile
from pathlib import Path

from clhines.simulator import refusals

FILE = "CLHINES_TEST_RAISED"  # environment variable: the file for notes of processes
_made = refusals._sentence


def _noted(text, id_, way_out):
    with open(os.environ[FILE], "a", encoding="utf-8") as file:
        file.write(f"{id_}\n")
    return _made(text, id_, way_out)


_noted.__module__, _noted.__qualname__ = _made.__module__, _made.__qualname__  # for pickle


def note():
    """Note them in this process from now on, if a test asks for it."""
    if FILE in os.environ:
        refusals._sentence = _noted


@contextlib.contextmanager
def noting():
    """Yield a set, which has the ids after the block."""
    ids = set()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "raised")
        os.environ[FILE] = str(path)
        note()
        try:
            yield ids
        finally:
            refusals._sentence = _made
            del os.environ[FILE]
            ids |= {*path.read_text("utf-8").split()} if path.exists() else set()
