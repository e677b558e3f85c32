"""Saved states of extended networks: what a file must hold to be one of this network."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass

import numpy as np

from clhines.files import Member
from clhines.network.extended import Extended
from clhines.network.model import Model
from clhines.simulate.variables import Variables, is_time
from clhines.simulate.wires import wires_of

_MOST = 2**31 - 1  # of all counts


def described(extended: Extended) -> bytes:
    """Return a digest of everything in an extended network."""
    digest = hashlib.sha256()

    def add(value: object) -> None:
        if isinstance(value, np.ndarray):
            digest.update(repr((value.dtype.str, value.shape)).encode() + value.tobytes())
        elif is_dataclass(value):
            for one in fields(value):
                add(getattr(value, one.name))
        elif isinstance(value, dict):
            for key, entry in value.items():
                add(key)
                add(entry)
        elif isinstance(value, tuple):
            for entry in value:
                add(entry)
        else:
            digest.update(repr(value).encode())

    add(extended)
    return digest.digest()


def extended_members(model: Model, dtype: np.dtype) -> dict[str, Member]:
    """Return what a file of an extended network holds besides its step and the digest."""
    assert model.extended is not None
    wires = wires_of(model, model.extended)
    variables = Variables(model, model.extended, wires)
    failed = Member((model.forest.num_cells,), np.dtype(np.int32), 0, 0)
    found = {"failed": failed}
    for name, array in variables.named().items():
        kind = name.split("_", 1)
        of_queue = name.startswith("queue")
        what = f"queue_{kind[1]}" if of_queue else name
        low, high = _bounds(what, variables, array)
        real = array.dtype == np.float64 and not is_time(name)
        found[name] = Member(array.shape, dtype if real else array.dtype, low, high)
    return found


def _bounds(
    what: str, variables: Variables, array: np.ndarray
) -> tuple[float | None, float | None]:
    """Least and largest value of an array of whole numbers; None of others."""
    if array.dtype != np.int64:
        return None, None
    capacity = max([len(queue.time) for queue in variables.queues.values()], default=0)
    bounds = {
        "queue_size": (0, capacity),
        "queue_last": (-1, capacity - 1),
        "queue_connection": (-1, variables.extended.netcons.count - 1),
    }
    return bounds.get(what, (0, _MOST))
