"""Spikes and reports as files of the SONATA format, which libsonata and its family read."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.checks import as_array, shown
from clhines.core.errors import InputError, install
from clhines.core.files import PathLike, check_new, whole
from clhines.simulator.analysis.results import ResultLike, timed_record_of

try:
    import h5py
except ImportError as error:
    raise ImportError(
        f"clhines.analysis.sonata needs h5py ({error}): {install('adapters')}"
    ) from None

_MAGIC, _VERSION = 0x0A7A, (0, 1)
_SORTING = {"none": 0, "by_id": 1, "by_time": 2}


def write_spikes(result: ResultLike, path: PathLike, population: str = "cells") -> None:
    """Write ``/spikes/POPULATION`` with `timestamps` (ms) and `node_ids`, sorted by time.

    Parameters
    ----------
    result : Result
    path : str or path-like
        Of a new file, which is there whole or not at all.
    population : str
        Name of the cells' population.

    Raises
    ------
    InputError
        The file is there already, or cannot be written; or spikes out of order.
    """
    _check_population(population)
    check_new(path)
    if (np.diff(result.spike_time) < 0).any():
        raise InputError("spike_time descends; expected spikes by time")
    with _new_file(path) as file:
        group = file.create_group(f"spikes/{population}")
        group.attrs.create("sorting", _SORTING["by_time"], dtype=h5py.enum_dtype(_SORTING, "u1"))
        times = group.create_dataset("timestamps", data=np.asarray(result.spike_time, np.float64))
        times.attrs["units"] = "ms"
        group.create_dataset("node_ids", data=np.asarray(result.spike_cell, np.uint64))


def write_report(
    result: ResultLike,
    record: int,
    path: PathLike,
    cells: ArrayLike,
    elements: ArrayLike | None = None,
    *,
    population: str = "cells",
    units: str = "mV",
) -> None:
    """Write a record as ``/report/POPULATION``: float32 values, by cell.

    Parameters
    ----------
    record : int
        The number that `Simulation.record` returned: a record without ``reduce``.
    path : str or path-like
        Of a new file, which is there whole or not at all.
    cells : (r,) integer
        The cell of each column.
    elements : (r,) integer, optional
        Number of each column within its cell, for example of its section. Default: 0.
    population : str
        Name of the cells' population.
    units : str
        Of the values.

    Raises
    ------
    InputError
        The file is there already, or cannot be written; or the record has no rows, or
        other columns.
    """
    _check_population(population)
    check_new(path)
    if not isinstance(units, str) or not units:
        raise InputError(f"units is {shown(units)}; expected a name of units")
    t, values = timed_record_of(result, record, 2)
    columns = values.shape[1]
    cell = _numbers("cells", cells, columns)
    elements = np.zeros(columns, int) if elements is None else elements
    element = _numbers("elements", elements, columns)
    order = np.argsort(cell, kind="stable")
    ids, first = np.unique(cell[order], return_index=True)
    step = float(t[-1] - t[0]) / (len(t) - 1)
    with _new_file(path) as file:
        group = file.create_group(f"report/{population}")
        data = group.create_dataset("data", data=values[:, order].astype(np.float32))
        data.attrs["units"] = units
        mapping = group.create_group("mapping")
        nodes = mapping.create_dataset("node_ids", data=ids.astype(np.uint64))
        nodes.attrs["sorted"] = np.uint8(1)
        pointers = np.append(first, columns).astype(np.uint64)
        mapping.create_dataset("index_pointers", data=pointers)
        mapping.create_dataset("element_ids", data=element[order].astype(np.uint32))
        times = mapping.create_dataset("time", data=[t[0], t[0] + len(t) * step, step])
        times.attrs["units"] = "ms"


@contextmanager
def _new_file(path: PathLike) -> Iterator[h5py.File]:
    """Yield a SONATA file in memory, then write it to `path`, whole or not at all."""
    memory = io.BytesIO()
    with h5py.File(memory, "w") as file:
        file.attrs["magic"] = np.uint32(_MAGIC)
        file.attrs["version"] = np.array(_VERSION, np.uint32)
        yield file
    with whole(path) as target:
        target.write(memory.getbuffer())


def _check_population(population: str) -> None:
    if not isinstance(population, str) or not population or "/" in population or "\0" in population:
        raise InputError(f"population is {shown(population)}; expected a name without '/'")


def _numbers(name: str, values: ArrayLike, count: int) -> np.ndarray:
    """(count,) int64: numbers of cells or elements, checked."""
    numbers = as_array(name, values)
    if numbers.shape != (count,) or not np.issubdtype(numbers.dtype, np.integer):
        raise InputError(
            f"{name} is {numbers.dtype} of shape {numbers.shape}; expected ({count},) whole "
            "numbers, one for each column of the record"
        )
    if count and not 0 <= numbers.min() <= numbers.max() < 2**32:
        raise InputError(f"{name} is {numbers.min()} to {numbers.max()}; expected 0 to 2**32 - 1")
    return numbers.astype(np.int64)
