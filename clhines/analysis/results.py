"""The part of a result that adapters use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from clhines.checks import as_whole_number
from clhines.errors import InputError


class Results(Protocol):
    """Spikes and records, as of `clhines.simulate.result.Result`."""

    @property
    def spike_time(self) -> np.ndarray: ...
    @property
    def spike_cell(self) -> np.ndarray: ...
    @property
    def t(self) -> np.ndarray: ...
    @property
    def values(self) -> Sequence[np.ndarray]: ...
    @property
    def times(self) -> Sequence[np.ndarray]: ...


def timed_record_of(result: Results, record: int, least: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(rows,) ms and (rows, r): a record of `least` times, which need not be all of the run."""
    if not len(result.values):
        raise InputError(f"record is {record}; expected a result with records")
    number = as_whole_number("record", record, 0, len(result.values) - 1)
    t, found = result.times[number], result.values[number]
    kept = found.ndim == 2 and len(found) == len(t)
    if not kept or (len(result.t) and not len(t)):  # `to` leaves none
        raise InputError(
            f"record {record} has shape {found.shape}; expected one without reduce and to"
        )
    if len(t) < least:
        raise InputError(f"record {record} has {len(t)} times; expected {least} or more")
    return t, found


def cells_of(result: Results, num_cells: int) -> int:
    count = as_whole_number("num_cells", num_cells, 1)
    if len(result.spike_cell) and result.spike_cell.max() >= count:
        raise InputError(f"num_cells is {count}; expected more than {result.spike_cell.max()}")
    return count
