"""Results of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from clhines.analysis.results import timed_record_of
from clhines.errors import InputError, shown
from clhines.files import PathLike
from clhines.simulate.records.features import FeatureValues
from clhines.simulate.records.records import Record
from clhines.simulate.records.reduced import packed_columns
from clhines.simulate.state.chunk import Chunk
from clhines.summary import as_html

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

_DRAWN = 10  # traces of a picture at most


@dataclass(frozen=True, eq=False)
class Result:
    """Spikes and records of a run.

    Attributes
    ----------
    t : (rows,) float64, ms
        The ends of the steps, and 0 where the run began there.
    values : list of arrays
        One per call of `record`, in their order; ``result[k]`` is ``result.values[k]``: (rows, r),
        or with ``reduce`` (r,), the times of crossings excepted: (m, r), ms, each column filled up
        with NaN; of features and with ``to`` (0, r). Where a run has failed, extremes, means and
        integrals are NaN and counts -1.
    features : dict of int to dict of str to (r,) array or Lists
        By number of the record, then by name, see `clhines.analysis.Features`; where a run has
        failed, NaN and empty lists.
    times : list of (rows,) float64, ms
        Times of the rows of each record, `t` unless it has ``every``; empty with ``reduce`` and
        ``to``.
    spike_time : (k,) float64, ms
    spike_cell : (k,) int64
        By time, then cell. Where events act at exact times those of all sources, by their numbers:
        `Network.source_numbers`; the first are the cells.
    cost : dict of str to float, s
        ``all``, the wall time. What the device spent of it: ``steps``, with events from outside
        and recording, and ``spikes``, their delivery; where the queue has no timestamps, and for
        ``reference``, what the host did, and of a chunk in one launch on a CPU until it was done.
        ``collect``: reading results after each chunk. Of several ranks: of this one, and
        ``exchange``, its time in exchanges, waiting for others included.
    names : tuple of str
        Of the records: ``result[name]``.
    variables : tuple of str
        What each of them is, as ``v``.
    num_cells : int
        Of the network.
    """

    t: np.ndarray
    values: list[np.ndarray]
    spike_time: np.ndarray
    spike_cell: np.ndarray
    cost: dict[str, float]
    times: list[np.ndarray]
    features: dict[int, FeatureValues] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    num_cells: int = 0

    def __repr__(self) -> str:
        ends = f"{self.t[0]:g} to {self.t[-1]:g} ms" if len(self.t) else "no times"
        shapes = ", ".join(str(a.shape) for a in self.values)
        return f"Result({ends}; {len(self.spike_time)} spikes; records [{shapes}])"

    def _repr_html_(self) -> str:
        rows: dict[str, object] = {
            "time": f"{self.t[0]:g} to {self.t[-1]:g} ms" if len(self.t) else "none",
            "spikes": len(self.spike_time),
            "wall time": f"{self.cost['all']:.3g} s" if "all" in self.cost else "unknown",
        }
        for k, values in enumerate(self.values):
            features = ", ".join(self.features.get(k, ()))
            rows[f"record {k}, {self.names[k]}"] = (
                f"features {features}" if features else values.shape
            )
        return as_html("Result", rows)

    def __getitem__(self, k: int | str) -> np.ndarray:
        k = self.number(k) if isinstance(k, str) else k
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
            raise InputError(f"result[{shown(k)}]: expected the number that record() returned")
        if k in self.features:
            raise InputError(f"record {k} has features; expected result.features[{k}]")
        if not -len(self.values) <= k < len(self.values):
            count = len(self.values)
            there = f"0 to {count - 1}" if count else "a call of record() before the run"
            raise InputError(
                f"result[{k}]: the run has {count} record{'' if count == 1 else 's'}; expected "
                f"{there}: record() acts on the runs that follow"
            )
        return self.values[k]

    def number(self, name: str) -> int:
        """Return the number of the record with a name.

        Raises
        ------
        InputError
            No record has this name, or several have.
        """
        found = [k for k, other in enumerate(self.names) if other == name]
        if len(found) != 1:
            several = f"has {len(found)} records of this name" if found else "has no such record"
            told = ", ".join(dict.fromkeys(self.names)) or "a call of record() before the run"
            told = "names given to record(name=), or numbers" if found else told
            raise InputError(f"result[{shown(name)}]: the run {several}; expected {told}")
        return found[0]

    def to_pandas(self, record: int | str | None = None) -> pandas.DataFrame:
        """Return a record as a table, or all of them that have the times of the steps.

        Parameters
        ----------
        record : int or str, optional
            Number or name.

        Returns
        -------
        pandas.DataFrame
            Its index is the time, ms. Columns have the names of the records, with the number of the
            place after it where there are several.

        Raises
        ------
        InputError
            pandas is missing; or there is no such record with rows.
        """
        try:
            from clhines.analysis import pandas as tables
        except ImportError as error:
            raise InputError("to_pandas() needs pandas: pip install pandas") from error
        chosen = self._with_rows() if record is None else [record]
        if not chosen:
            raise InputError("the result has no record of all steps; expected one")
        found = None
        for one in chosen:
            k = self.number(one) if isinstance(one, str) else one
            table = tables.record(self, k)
            several = table.shape[1] > 1 or self.names.count(self.names[k]) > 1
            name = self.names[k] if self.names.count(self.names[k]) == 1 else f"{k} {self.names[k]}"
            table.columns = [f"{name} {c}" if several else name for c in range(table.shape[1])]
            found = table if found is None else found.join(table)
        return found

    def plot(self, record: int | str | None = None, path: PathLike | None = None) -> Figure:
        """Draw the spikes of cells above what was recorded; see `clhines.draw.activity`.

        Parameters
        ----------
        record : int or str, optional
            Number or name of a record; default: the voltages of all steps. Of its places, the
            first ten are drawn.
        path : str or path, optional
            Ends in .png, .svg or .pdf; written where it is given.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        InputError
            matplotlib is missing, or there is no such record with rows.
        """
        from clhines import draw

        chosen: list[int | str] = [k for k in self._with_rows() if self.variables[k] == "v"]
        chosen = chosen if record is None else [record]
        t, columns, names, label = self.t, list[np.ndarray](), list[str](), "voltage [mV]"
        for one in chosen:
            k = self.number(one) if isinstance(one, str) else one
            t, values = timed_record_of(self, k)
            label = label if self.variables[k] == "v" else self.names[k]
            single = values.shape[1] == 1
            names += [self.names[k] if single else f"{self.names[k]} {c}" for c in
                      range(values.shape[1])]  # fmt: skip
            columns += list(values.T)
        rows = np.array(columns[:_DRAWN]).reshape(-1, len(t)).T
        cells = self.spike_cell < self.num_cells
        spikes = self.spike_time[cells], self.spike_cell[cells]
        title = f"{len(spikes[0])} spikes"
        if len(columns) > _DRAWN:
            title += f"; {_DRAWN} of {len(columns)} traces"
        return draw.activity(spikes, self.num_cells, (t, rows, names[:_DRAWN]), title, path, label)

    def _with_rows(self) -> list[int]:
        """Return the numbers of the records that have a row for each of `t`."""
        return [k for k, t in enumerate(self.times) if len(t) and len(t) == len(self.t)]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[k] for k in range(len(self.values)))


def joined_result(
    chunks: Sequence[Chunk],
    records: Sequence[Record],
    dt: float,
    steps: tuple[int, int],
    failed: bool,
    cost: dict[str, float],
) -> Result:
    """Join the chunks of a run, whose `steps` are its first one and the first one that is left out.

    Of that one and those after it spikes and records are left out; `failed`: such were taken.
    """
    begin, last = steps
    t = np.arange(begin + 1 if begin else 0, last + 1) * dt
    values, times = list[np.ndarray](), list[np.ndarray]()
    features: dict[int, FeatureValues] = {}
    for k, record in enumerate(records):
        own = [c.values[k] for c in chunks]
        steps_of_rows = record.steps(begin, last)
        if record.asked is not None:
            blocks = [one for one in own if len(one)]
            nothing = failed or not record.width
            features[k] = (
                record.asked.features.nothing(record.width)
                if nothing
                else record.asked.found(blocks, t)
            )
            values.append(np.zeros((0, record.width)))
            times.append(np.zeros(0))
        elif record.reduce:
            values.append(_reduced(record, own, dt, (begin, last), failed))
            times.append(np.zeros(0))
        else:
            rows = np.concatenate(own) if own else np.zeros((0, record.width))
            values.append(rows[: len(steps_of_rows)])
            if record.stream is not None:
                times.append(np.zeros(0))
            else:
                times.append(steps_of_rows * dt if record.every > 1 else t)
    none = [np.zeros(0, np.int64)]
    step = np.concatenate(none + [c.spike_step for c in chunks])
    cell = np.concatenate(none + [c.spike_cell for c in chunks])
    kept = step < last
    time = np.concatenate([np.zeros(0), *(c.spike_time for c in chunks)])[kept]
    names, variables = tuple(r.label for r in records), tuple(r.name for r in records)
    return Result(t, values, time, cell[kept], cost, times, features, names, variables)


def _reduced(
    record: Record, own: list[np.ndarray], dt: float, steps: tuple[int, int], failed: bool
) -> np.ndarray:
    """Return the reduction of a record of all steps of a run, from what its chunks gave."""
    begin, last = steps
    reduce, width, taken = record.reduce, record.width, last - begin
    if reduce == "crossings":
        return _crossings(own, width, last, dt)
    own = [rows for rows in own if len(rows)]  # the start has none
    if failed or not own:
        nothing = {"integral": 0.0, "count": 0}.get(reduce, np.nan)
        return np.full(width, (-1 if reduce == "count" else np.nan) if failed else nothing)
    found: np.ndarray = own[-1][0]
    return {"mean": found / taken, "integral": found * dt}.get(reduce, found)


def _crossings(own: list[np.ndarray], width: int, last: int, dt: float) -> np.ndarray:
    """(m, width) ms: times of crossings in steps before `last`, by time."""
    step = np.concatenate([np.zeros((0, width), np.int64), *own]).astype(np.int64)
    known = (step >= 0) & (step < last)
    row, column = np.nonzero(known)
    return packed_columns(column, (step[row, column] + 1) * dt, width, np.nan)
