"""Results of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from clhines.core.checks import unchangeable
from clhines.core.errors import InputError, shown, warn_caller
from clhines.core.files import PathLike
from clhines.core.summary import as_html, counted
from clhines.simulator.analysis.results import timed_record_of
from clhines.simulator.records.columns import RecordColumns, Recording
from clhines.simulator.records.features import FeatureValues
from clhines.simulator.records.records import Record
from clhines.simulator.records.reduced import packed_columns
from clhines.simulator.state.chunk import Chunk

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@unchangeable("an array or attribute of yours: results stay as they are")
@dataclass(frozen=True, eq=False)
class Result:
    """Spikes and records of a run.

    Attributes
    ----------
    t : (rows,) float64, ms
        The ends of the steps, and 0 where the run began there.
    values : list of arrays
        One per call of `record`, in their order; ``result[k]`` is ``result.values[k]``, also for a
        `Recording` or a name as ``k``: (rows, r),
        or with ``reduce`` (r,), the times of crossings excepted: (m, r), ms, each column filled up
        with NaN; of features and with ``to`` (0, r). Where a run has failed, extremes, means and
        integrals are NaN and counts -1.
    features : dict of int to dict of str to (r,) array or RaggedArray
        By number of the record, then by name, see `simulator.analysis.Features`; where a run has
        failed, NaN and empty lists.
    times : list of (rows,) float64, ms
        Times of the rows of each record, `t` unless it has ``every``; empty with ``reduce`` and
        ``to``.
    spike_time : (k,) float64, ms
        An event that is sent ahead of its time is in the run that sends it.
    spike_cell : (k,) int64
        By time, then cell; gids, if the network has `Network.gids`. Where events act at exact times
        those of all sources, by their numbers:
        `Network.source_numbers`; the first are the cells.
    cost : dict of str to float, s
        ``all``, the wall time. What the device spent of it: ``steps``, with events from outside
        and recording, and ``spikes``, their delivery; where the queue has no timestamps (as one
        that a simulation makes itself, whose launches take less of the host's time), and for
        ``reference``, what the host did, and of a chunk in one launch on a CPU until it was done.
        ``collect``: reading results after each chunk. Of several ranks: of this one, and
        ``exchange``, its time in exchanges, waiting for others included.
    names : tuple of str
        Of the records: ``result[name]``.
    variables : tuple of str
        What each of them is, as ``v``.
    units : tuple of str
        Of their values, as ``mV``; empty where none is known.
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
    units: tuple[str, ...] = ()
    num_cells: int = 0
    _columns: tuple[RecordColumns, ...] = ()

    def __repr__(self) -> str:
        ends = f"{self.t[0]:g} to {self.t[-1]:g} ms" if len(self.t) else "no times"
        shapes = ", ".join(str(a.shape) for a in self.values)
        return f"Result({ends}; {counted(len(self.spike_time), 'spike')}; records [{shapes}])"

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
        k = self.number(k)
        if k in self.features:
            raise InputError(f"record {k} has features; expected result.features[{k}]")
        return self.values[k]

    def __contains__(self, record: object) -> bool:
        if isinstance(record, str):
            return record in self.names
        return isinstance(record, (int, np.integer)) and int(record) in range(len(self.values))

    def number(self, record: int | str) -> int:
        """Return the number of the record with a name, or of what `Simulation.record` returned.

        Raises
        ------
        InputError
            There is no such record, or several have this name.
        """
        count = len(self.values)
        if isinstance(record, str):
            found = [k for k, other in enumerate(self.names) if other == record]
            if len(found) == 1:
                return found[0]
            several = f"has {len(found)} records of this name" if found else "has no such record"
            expected = ", ".join(dict.fromkeys(self.names)) or "a call of record() before the run"
            expected = "names given to record(name=), or numbers" if found else expected
            raise InputError(f"result[{shown(record)}]: the run {several}; expected {expected}")
        if isinstance(record, bool) or not isinstance(record, (int, np.integer)):
            raise InputError(f"result[{shown(record)}]: expected what record() returned, or a name")
        if not -count <= record < count:
            there = f"0 to {count - 1}" if count else "a call of record() before the run"
            raise InputError(
                f"result[{int(record)}]: the run has {counted(count, 'record')}; expected {there}: "
                "record() acts on the runs that follow"
            )
        k = int(record) % count
        if isinstance(record, Recording) and record.name != self.names[k]:
            raise InputError(
                f"result[{record!r}]: record {k} of the run is {self.names[k]!r}; expected one of "
                "the same simulation"
            )
        return k

    def to_pandas(self, record: int | str | None = None) -> pandas.DataFrame:
        """Return a record as a table, or all records of all steps as one table.

        Parameters
        ----------
        record : int or str, optional
            Number or name; default: all records of all steps, or if there is none (``every``) all
            that have the times of the first one. A warning names those with other times.

        Returns
        -------
        pandas.DataFrame
            Its index is the time, ms. Columns have the names of the records, and after them those
            of `columns` where there are several.

        Raises
        ------
        InputError
            pandas is missing; or there is no such record with rows.
        """
        try:
            from clhines.simulator.analysis import pandas as tables
        except ImportError as error:
            raise InputError("to_pandas() needs pandas: python -m pip install pandas") from error
        chosen = [self.number(record)] if record is not None else self._of_common_times()
        joined, *others = [tables.record(self, k, self._named(k)) for k in chosen]
        for table in others:
            joined = joined.join(table)
        return joined

    def _of_common_times(self) -> list[int]:
        """Return the records of all steps, else of the times of the first; name what is left."""
        rows = self._with_rows()
        if not rows:
            without = ", ".join(self._short(k) for k in range(len(self.values)))
            there = f"those that there are have none: {without}" if without else "there is none"
            raise InputError(f"the result has no record with rows ({there}); expected one")
        times = next((self.times[k] for k in rows if len(self.times[k]) == len(self.t)), None)
        times = self.times[rows[0]] if times is None else times
        chosen = [k for k in rows if np.array_equal(self.times[k], times)]
        left_out = [k for k in rows if k not in chosen]
        if left_out:
            names = ", ".join(self._short(k) for k in left_out)
            calls = f"to_pandas({self._key(left_out[0])!r})"
            warn_caller(
                f"to_pandas() leaves out {names}: the rows have other times; expected {calls}, "
                "a table of its own",
                UserWarning,
            )
        return chosen

    def columns(self, record: int | str) -> list[str]:
        """Return the names of the columns of a record.

        Of nodes ``cell 3`` at the soma of cell 3, ``cell 3 node 7`` at the node of this number in
        the cell, without the cell where there is one only; of a group the mechanism and the
        instance; with ``matrix`` the row.
        """
        return self._columns[self.number(record)].names()

    def traces(
        self, record: int | str | None = None
    ) -> tuple[list[tuple[np.ndarray, np.ndarray, list[str]]], str, list[str]]:
        """Return records as lines of a picture.

        Parameters
        ----------
        record : int or str, optional
            Number or name of a record; default: all voltages with rows, else all records with rows
            whose unit is that of the first.

        Returns
        -------
        lines : list of (t, values, names)
            One for each record: (rows,) float64, ms; (rows, r); and a name for each column.
        label : str
            What is drawn, with its unit.
        others : list of str
            Names of the records that are not drawn.

        Raises
        ------
        InputError
            There is no such record with rows.
        """
        chosen = self._drawn() if record is None else [self.number(record)]
        lines = [
            (*timed_record_of(self, k), self._named(k, short=len(chosen) == 1)) for k in chosen
        ]
        names = ", ".join(dict.fromkeys(self.names[k] for k in chosen))
        unit, label = self.units[chosen[0]] if chosen else "", "voltage [mV]"
        if any(self.variables[k] != "v" for k in chosen):
            label = f"{names} [{unit}]" if unit else names
        others = [k for k in range(len(self.values)) if record is None and k not in chosen]
        return lines, label, [self._short(k) for k in others]

    def _drawn(self) -> list[int]:
        """Return the records of a picture: voltages, else those of the first one's unit."""
        rows = self._with_rows()
        first = next((k for k in rows if self.variables[k] == "v"), rows[0] if rows else None)
        if first is None:
            return []
        of_v = self.variables[first] == "v"
        return [
            k
            for k in rows
            if self.units[k] == self.units[first] and (self.variables[k] == "v") == of_v
        ]

    def _short(self, k: int) -> str:
        """Return the name of a record as a message has it, with its number if it is not unique."""
        name = f"{k} {self.names[k]}" if self.names.count(self.names[k]) > 1 else self.names[k]
        return f"{name} (features)" if k in self.features else name

    def _key(self, k: int) -> int | str:
        """Return the name of a record, or its number if several have the name."""
        return k if self.names.count(self.names[k]) > 1 else self.names[k]

    def _named(self, k: int, short: bool = False) -> list[str]:
        """Return a name for each column of a record, `short` without that of the record."""
        name, columns = self.names[k], self._columns[k].names()
        if self.names.count(name) > 1:
            name = f"{k} {name}"
        if len(set(columns)) < len(columns):
            columns = [str(c) for c in range(len(columns))]
        if short:
            return columns
        return [name] if len(columns) == 1 else [f"{name} {c}" for c in columns]

    def plot(
        self,
        record: int | str | None = None,
        title: str | None = None,
        path: PathLike | None = None,
        ax: Axes | None = None,
    ) -> Figure:
        """Draw the spikes of cells above what was recorded; see `core.draw.plot_result`.

        With `ax`, what was recorded alone, into these axes; see `core.draw.plot_traces`. By
        default these are all voltages with rows, also with ``every``; without voltages, all records
        with rows in the unit of the first. The picture names the records that it leaves out.
        """
        from clhines.core import draw

        if ax is not None:
            return draw.plot_traces(self, record, title=title or "", ax=ax, path=path)
        return draw.plot_result(self, record, title=title, path=path)

    def _with_rows(self) -> list[int]:
        """Return the numbers of the records that have rows."""
        return [k for k, t in enumerate(self.times) if len(t)]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[k] for k in range(len(self.values)))


def joined_result(
    chunks: Sequence[Chunk],
    records: Sequence[Record],
    dt: float,
    steps: tuple[int, int, int],
    failed: bool,
    cost: dict[str, float],
    num_cells: int,
    shown: Callable[[np.ndarray], np.ndarray],
    dtype: np.dtype,
) -> Result:
    """Join the chunks of a run; `failed`: the last one has steps to be left out.

    `steps` are the first and the last step that were taken, and the end of the run.
    `shown` gives the numbers of sources that users know; `dtype` is that of records.
    """
    begin, last, end = steps
    t = np.arange(begin + 1 if begin else 0, last + 1) * dt
    values, times = list[np.ndarray](), list[np.ndarray]()
    features: dict[int, FeatureValues] = {}
    for k, record in enumerate(records):
        own: list[np.ndarray] = [c.values[k] for c in chunks]
        if record.windows is not None:
            blocks = [one for one in own if len(one)]
            nothing = last < end or not record.width
            features[k] = (
                record.windows.features.nothing(record.width)
                if nothing
                else record.windows.values(blocks, t)
            )
            values.append(np.zeros((0, record.width)))
            times.append(np.zeros(0))
        elif record.reduce:
            values.append(_reduced(record, own, dt, (begin, last), failed, dtype))
            times.append(np.zeros(0))
        else:
            rows = np.concatenate(own) if own else np.zeros((0, record.width), dtype)
            own_t = record.steps(begin, last) * dt if record.every > 1 else t
            rows = rows[: len(own_t)]
            values.append(rows)  # with `to`, those that could not be written
            times.append(own_t[len(own_t) - len(rows) :])
    cell, time = np.zeros(0, np.int64), np.zeros(0)
    if spikes := [c for c in chunks if len(c.spike_step)]:
        kept = np.concatenate([c.spike_step for c in spikes]) < (last if failed else np.inf)
        cell = np.concatenate([c.spike_cell for c in spikes])[kept]
        time = np.concatenate([c.spike_time for c in spikes])[kept]
        if len(spikes) > 1 and (np.diff(time) < 0).any():  # some were sent ahead
            order = np.lexsort((cell, time))
            cell, time = cell[order], time[order]
    known = [(r.label, r.name, r.unit, r.columns) for r in records]
    names, variables, units, columns = zip(*known, strict=True) if known else ((),) * 4
    cell = shown(cell)
    return Result(
        t, values, time, cell, cost, times, features, names, variables, units, num_cells, columns
    )  # fmt: skip


def _reduced(
    record: Record,
    chunks: list[np.ndarray],
    dt: float,
    steps: tuple[int, int],
    failed: bool,
    dtype: np.dtype,
) -> np.ndarray:
    begin, last = steps
    reduce, width, count = record.reduce, record.width, last - begin
    if reduce == "crossings":  # times of those in steps before `last`
        step = np.concatenate([np.zeros((0, width), np.int64), *chunks]).astype(np.int64)
        row, column = np.nonzero((step >= 0) & (step < last))
        return packed_columns(column, (step[row, column] + 1) * dt, width, np.nan)
    chunks = [rows for rows in chunks if len(rows)]  # the start has none
    if failed or not chunks:
        nothing = {"integral": 0.0, "count": 0}.get(reduce, np.nan)
        filler = (-1 if reduce == "count" else np.nan) if failed else nothing
        return np.full(width, filler, dtype if reduce in ("min", "max") else None)
    last_row: np.ndarray = chunks[-1][0]
    return {"mean": last_row / count, "integral": last_row * dt}.get(reduce, last_row)
