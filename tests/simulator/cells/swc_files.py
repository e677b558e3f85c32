"""SWC files, the cells read from them, and the words of refusals."""

import numpy as np
import pytest

from clhines.core.errors import MorphologyError
from clhines.simulator.cells.swc import read_swc


def swc(tmp_path, text, name="cell.swc"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return path


def refusal(path, **options):
    """Return the line number and the message after ``file:line: ``."""
    with pytest.raises(MorphologyError) as caught:
        read_swc(path, **options)
    message = str(caught.value)
    assert message.startswith(f"{path}:"), message
    assert "\n" not in message
    line, _, rest = message[len(f"{path}:") :].partition(": ")
    return int(line), rest


def parent_ids(cell):
    return np.where(cell.parent < 0, -1, cell.id[cell.parent])


def zero_edges(cell):
    child = np.flatnonzero(cell.parent >= 0)
    return int((cell.xyz[child] == cell.xyz[cell.parent[child]]).all(axis=1).sum())


def is_tree(parent):
    seen = np.flatnonzero(parent < 0)
    total = seen.size
    while seen.size:
        seen = np.flatnonzero(np.isin(parent, seen))
        total += seen.size
    return total == parent.size
