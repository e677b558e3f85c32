"""Results as tables of pandas."""

from __future__ import annotations

from collections.abc import Sequence

import pandas

from clhines.core.errors import InputError
from clhines.simulator.analysis.results import ResultLike, timed_record_of


def spikes(result: ResultLike) -> pandas.DataFrame:
    """Return a row for each spike: `time` (ms, float64) and `cell` (int64), by time, then cell."""
    return pandas.DataFrame({"time": result.spike_time, "cell": result.spike_cell})


def record(
    result: ResultLike, record: int, columns: Sequence[str | int] | None = None
) -> pandas.DataFrame:
    """Return a record as a table whose index is the time, ms.

    Parameters
    ----------
    result : Result
    record : int
        The number that `Simulation.record` returned.
    columns : sequence of str or int, optional
        Names of the columns; default: 0, 1, ...
    """
    t, values = timed_record_of(result, record)
    if columns is not None and len(columns) != values.shape[1]:
        raise InputError(f"columns has {len(columns)} names; expected {values.shape[1]}")
    index = pandas.Index(t, name="time")
    return pandas.DataFrame(values, index=index, columns=columns)
