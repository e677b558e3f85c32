"""Spikes as a file of the SONATA format, which libsonata and the simulators of that family read."""

from __future__ import annotations

import io

import numpy as np

from clhines.analysis.results import Spikes
from clhines.checks import shown
from clhines.errors import InputError
from clhines.files import PathLike, whole

try:
    import h5py
except ImportError as error:
    raise ImportError(
        f"clhines.analysis.sonata needs h5py ({error}): pip install 'clhines[adapters]'"
    ) from None

_MAGIC, _VERSION = 0x0A7A, (0, 1)
_SORTING = {"none": 0, "by_id": 1, "by_time": 2}


def write_spikes(result: Spikes, path: PathLike, population: str = "cells") -> None:
    """Write ``/spikes/POPULATION`` with `timestamps` (ms) and `node_ids`, sorted by time.

    Parameters
    ----------
    result : Result
    path : str or path-like
        The file is there whole or not at all.
    population : str
        Name of the cells' population.
    """
    if not isinstance(population, str) or not population or "/" in population or "\0" in population:
        raise InputError(f"population is {shown(population)}; expected a name without '/'")
    if (np.diff(result.spike_time) < 0).any():
        raise InputError("spike_time descends; expected spikes by time")
    memory = io.BytesIO()
    with h5py.File(memory, "w") as file:
        file.attrs["magic"] = np.uint32(_MAGIC)
        file.attrs["version"] = np.array(_VERSION, np.uint32)
        group = file.create_group(f"spikes/{population}")
        group.attrs.create("sorting", _SORTING["by_time"], dtype=h5py.enum_dtype(_SORTING, "u1"))
        times = group.create_dataset("timestamps", data=np.asarray(result.spike_time, np.float64))
        times.attrs["units"] = "ms"
        group.create_dataset("node_ids", data=np.asarray(result.spike_cell, np.uint64))
    with whole(path) as target:
        target.write(memory.getbuffer())
