"""Saved states of extended networks: what a file must hold to be one of this network."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import numpy as np

from clhines.arrays import starts
from clhines.errors import InputError
from clhines.files import Member
from clhines.model.extended import Extended
from clhines.model.model import Model
from clhines.simulate.engines.variables import Variables, is_time
from clhines.simulate.events.sources import rings_of, wires_of

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
    known = variables.named()
    for name, array in known.items():
        low, high = bounds_of(name, array.dtype, known, model.extended)
        real = array.dtype == np.float64 and not is_time(name)
        found[name] = Member(array.shape, dtype if real else array.dtype, low, high)
    return found


def bounds_of(
    name: str, dtype: np.dtype, known: Mapping[str, np.ndarray], extended: Extended
) -> tuple[float | None, float | None]:
    """Return the least and the largest value of an array of whole numbers; None of others.

    `known` has the arrays of a state by name.
    """
    if dtype.kind not in "iu":
        return None, None
    if name == "failed":  # a run that failed cannot be saved
        return 0, 0
    queue, _, what = name.partition("_")
    if not queue.startswith("queue"):
        return 0, _MOST
    capacity = len(known[f"{queue}_time"])
    bounds = {
        "size": (0, capacity),
        "last": (-1, capacity - 1),
        "connection": (-1, extended.netcons.count - 1),
    }
    return bounds.get(what, (0, _MOST))


def check_events(
    where: str, arrays: Mapping[str, np.ndarray], model: Model, extended: Extended, step: int
) -> None:
    """Raise InputError for events that no run can have under way at the begin of a step.

    One that was due long before would be delivered late, and a self event that sends the next one
    would go on for ever.

    Parameters
    ----------
    where : str
        Begin of messages.
    arrays : dict of name -> array
        Of the state.
    """
    least = (step - 1) * model.dt  # those due before the middle of the last step were delivered
    for name in arrays:
        queue, _, what = name.partition("_")
        if not queue.startswith("queue") or what != "time":
            continue
        time, size = arrays[name], arrays[f"{queue}_size"]
        if (arrays[f"{queue}_last"] >= np.maximum(size, 0)).any():
            raise InputError(f"{where}{queue}_last is above {queue}_size; expected below it")
        late = (np.arange(len(time))[:, None] < size) & (time < least)
        if late.any():
            q, k = np.argwhere(late)[0]
            mechanism = model.kinds[int(queue[5:])].mechanism.name
            raise InputError(
                f"{where}{name}[{q}, {k}] is {time[q, k]:g} ms; expected no self event of "
                f"{mechanism} before {least:g} ms"
            )
    _check_rings(where, arrays, model, extended, least)


def _check_rings(
    where: str,
    arrays: Mapping[str, np.ndarray],
    model: Model,
    extended: Extended,
    least: float,
) -> None:
    """Raise InputError for cursors that are not within their rings, or events due before."""
    netcons, (size, _, _) = extended.netcons, rings_of(extended, model.dt)
    source, cursor = netcons.source, arrays["cursor"]
    lag = arrays["count"][source] - cursor
    wrong = np.flatnonzero((lag < 0) | (lag > size[source]))
    if len(wrong):
        k = int(wrong[0])
        most, count = int(size[source[k]]), int(arrays["count"][source[k]])
        raise InputError(
            f"{where}cursor[{k}] is {cursor[k]}; expected {max(count - most, 0)} to {count}, the "
            "events of its source"
        )
    waiting = np.flatnonzero(lag > 0)
    at = source[waiting]
    due = arrays["ring"][starts(size)[at] + cursor[waiting] % size[at]] + netcons.delay[waiting]
    late = np.flatnonzero(due < least)
    if len(late):
        k = int(waiting[late[0]])
        raise InputError(
            f"{where}ring: connection {k} has an event that is due at {due[late[0]]:g} ms; "
            f"expected none before {least:g} ms"
        )
