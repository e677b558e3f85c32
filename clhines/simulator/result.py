"""Results of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from clhines.core.errors import InputError, shown
from clhines.core.files import PathLike
from clhines.core.summary import counted
from clhines.simulator.common.checks import unchangeable
from clhines.simulator.records.columns import Recording
from clhines.simulator.records.features import FeatureValues, FeatureWindows
from clhines.simulator.records.records import Record
from clhines.simulator.records.reduced import packed_columns
from clhines.simulator.state.chunk import NO_SPIKES, NO_TIMES, Chunk

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@unchangeable("an array or attribute of yours: results stay as they are")
@dataclass(frozen=True, eq=False)
class Result:
    """Spikes and records of a run.

    Attributes
    ----------
    values : list of arrays
        One per call of `record`, in order; ``result[k]`` is ``result.values[k]``, also for a
        `Recording` or a name as ``k``: (rows, r), or with ``reduce`` (r,). Crossings are (m, r),
        ms, filled up with NaN; features are (0, r). After a failed run, extremes, means and
        integrals are NaN, and counts are -1.
    features : dict of int to dict of str to (r,) array or RaggedArray
        By record number, then by name, see `simulator.analysis.Features`; NaN and empty lists after
        a failed run.
    spike_time : (k,) float64, ms
        An event that is sent ahead of its time belongs to the run that sends it.
    spike_cell : (k,) int64
        Sorted by time, then cell. If events act at exact times, all sources by number, see
        `Network.source_numbers`; cells come first.
    cost : dict of str to float, s
        ``all``: wall time. ``steps``: device time for steps, external events and recording.
        ``spikes``: device time for delivery. ``collect``: reading results after each chunk. Host
        times for ``reference``, and without timestamps (a simulation's own queue has none, which
        makes launches cheaper); for a chunk in one launch on a CPU, the time until it was done. On
        several ranks: this rank's times, and ``exchange``, exchanges including waiting.
    num_cells : int
        In the network.
    """

    values: list[np.ndarray]
    spike_time: np.ndarray
    spike_cell: np.ndarray
    cost: dict[str, float]
    features: dict[int, FeatureValues] = field(default_factory=dict)
    num_cells: int = 0
    _records: Sequence[Record] = ()
    _steps: tuple[int, int] = 0, -1  # before the run, and until its failure or end
    _dt: float = 0.0

    @cached_property
    def t(self) -> np.ndarray:
        """Ends of the steps, and 0 if the run began there, (rows,) float64, ms."""
        return _ends(self._steps, self._dt)

    @cached_property
    def times(self) -> list[np.ndarray]:
        """Times of each record's rows, (rows,) float64, ms.

        These are `t` unless the record has ``every``; with ``reduce`` there are none.
        """
        times = []
        for record, rows in zip(self._records, self.values, strict=True):
            steps = record.steps(*self._steps)[: 0 if record.reduce else len(rows)]
            times.append(np.arange(steps.start, steps.stop, steps.step) * self._dt)
        return times

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the records: ``result[name]``."""
        return tuple([record.label for record in self._records])

    @property
    def variables(self) -> tuple[str, ...]:
        """Variables of the records, such as ``v``."""
        return tuple([record.name for record in self._records])

    @property
    def units(self) -> tuple[str, ...]:
        """Units of the records, such as ``mV``; empty if unknown."""
        return tuple([record.unit for record in self._records])

    def __repr__(self) -> str:
        ends = f"{self.t[0]:g} to {self.t[-1]:g} ms" if len(self.t) else "no times"
        shapes = ", ".join(str(a.shape) for a in self.values)
        return f"Result({ends}; {counted(len(self.spike_time), 'spike')}; records [{shapes}])"

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
        """Return the number of a record, by name or by the result of `Simulation.record`.

        Raises
        ------
        InputError
            There is no such record, or several have this name.
        """
        count = len(self.values)
        if type(record) is Recording and record < count:
            if record.name == self._records[record].label:
                return int(record)
        if isinstance(record, str):
            numbers = [k for k, name in enumerate(self.names) if name == record]
            if len(numbers) == 1:
                return numbers[0]
            got = "has no such record"
            expected = ", ".join(dict.fromkeys(self.names)) or "a call of record() before the run"
            if numbers:
                got = f"has {len(numbers)} records of this name"
                expected = "names given to record(name=), or numbers"
            raise InputError(f"result[{shown(record)}]: the run {got}; expected {expected}")
        if isinstance(record, bool) or not isinstance(record, (int, np.integer)):
            raise InputError(f"result[{shown(record)}]: expected what record() returned, or a name")
        if not -count <= record < count:
            there = f"0 to {count - 1}" if count else "a call of record() before the run"
            raise InputError(
                f"result[{int(record)}]: the run has {counted(count, 'record')}; expected {there}: "
                "record() acts on the runs that follow"
            )
        k = int(record) % count
        if isinstance(record, Recording) and record.name != self._records[k].label:
            raise InputError(
                f"result[{shown(record)}]: record {k} of the run is {self.names[k]!r}; expected "
                "one of the same simulation"
            )
        return k

    def columns(self, record: int | str) -> list[str]:
        """Return the names of a record's columns.

        For nodes: ``cell 3`` at the soma of cell 3, ``cell 3 node 7`` at its node 7; without the
        cell if there is only one. For a group: the mechanism and the instance. With ``matrix``: the
        row.
        """
        return self._records[self.number(record)].columns.names()

    def traces(
        self, record: int | str | None = None
    ) -> tuple[list[tuple[np.ndarray, np.ndarray, list[str]]], str, list[str]]:
        """Return what a picture of records draws: lines, their label, and the records left out.

        Parameters
        ----------
        record : int or str, optional
            Number or name of a record; default: all voltages with rows, else all records with rows
            in the unit of the first.

        Returns
        -------
        lines : list of (t, values, names)
            For each record: (rows,) float64, ms; (rows, r); and a name for each column.
        label : str
            Quantity and unit.
        others : list of str
            Names of records that are not drawn.

        Raises
        ------
        InputError
            There is no such record with rows.
        """
        chosen = self._drawn() if record is None else [self.number(record)]
        lines = [(*self._rows(k), self._named(k, short=len(chosen) == 1)) for k in chosen]
        names = ", ".join(dict.fromkeys(self.names[k] for k in chosen))
        unit, label = self.units[chosen[0]] if chosen else "", "voltage [mV]"
        if any(self.variables[k] != "v" for k in chosen):
            label = f"{names} [{unit}]" if unit else names
        others = [k for k in range(len(self.values)) if record is None and k not in chosen]
        return lines, label, [self._short(k) for k in others]

    def _drawn(self) -> list[int]:
        """Return the records that `plot` draws: all voltages, else all in the first one's unit."""
        rows = [k for k, t in enumerate(self.times) if len(t)]
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
        name = f"{k} {self.names[k]}" if self.names.count(self.names[k]) > 1 else self.names[k]
        return f"{name} (features)" if k in self.features else name

    def _named(self, k: int, short: bool = False) -> list[str]:
        name, columns = self.names[k], self._records[k].columns.names()
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
        """Draw the spikes of cells above the records; see `analysis.draw.plot_result`.

        With `ax`, draw only records, into these axes; `analysis.draw.plot_traces` says which ones.
        """
        from clhines.simulator.analysis import draw

        if ax is not None:
            return draw.plot_traces(self, record, title=title or "", ax=ax, path=path)
        return draw.plot_result(self, record, title=title, path=path)

    def _rows(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return times, (rows,), ms, and values, (rows, r), for a record with rows."""
        t, values = self.times[k], self.values[k]
        has_rows = values.ndim == 2 and len(values) == len(t)
        if not has_rows or (len(self.t) and not len(t)):
            raise InputError(f"record {k} has shape {values.shape}; expected one without reduce")
        return t, values

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
    dtype: np.dtype,
) -> Result:
    """Join a run's chunks to a result; if the run has `failed`, drop the steps after the failure.

    `steps` counts steps before the run, until its failure or end, and until its requested end.
    Records have this `dtype`.
    """
    begin, last, end = steps
    features: dict[int, FeatureValues] = {}
    whole, values = len(chunks) == 1 and last == end, list[np.ndarray]()
    rows: np.ndarray
    for k, record in enumerate(records):
        if whole and not record.reduce and record.windows is None:
            values.append(chunks[0].values[k])
            continue
        blocks = [chunk.values[k] for chunk in chunks]
        if record.windows is not None:
            t = _ends((begin, last), dt)
            features[k] = _features(record.windows, blocks, t, record.width, last < end)
            rows = np.zeros((0, record.width))
        elif record.reduce:
            rows = _reduced(record, blocks, dt, (begin, last), failed, dtype)
        else:
            rows = blocks[0] if blocks else np.zeros((0, record.width), dtype)
            rows = np.concatenate(blocks) if len(blocks) > 1 else rows
            rows = rows[: len(record.steps(begin, last))]
        values.append(rows)
    if whole:
        time, cell = chunks[0].spike_time, chunks[0].spike_cell
    else:
        time, cell = _spikes(chunks, last if failed else np.inf)
    result = Result.__new__(Result)
    vars(result).update(  # the initialiser of a frozen class takes three times as long
        values=values, spike_time=time, spike_cell=cell, cost=cost, features=features,
        num_cells=num_cells, _records=records, _steps=(begin, last), _dt=dt,
    )  # fmt: skip
    return result


def _ends(steps: tuple[int, int], dt: float) -> np.ndarray:
    begin, last = steps
    return np.arange(begin + 1 if begin else 0, last + 1) * dt


def _spikes(chunks: Sequence[Chunk], end: float) -> tuple[np.ndarray, np.ndarray]:
    chunks = [chunk for chunk in chunks if len(chunk.spike_step)]
    if not chunks:
        return NO_TIMES, NO_SPIKES
    kept = np.concatenate([chunk.spike_step for chunk in chunks]) < end
    cell = np.concatenate([chunk.spike_cell for chunk in chunks])[kept]
    time = np.concatenate([chunk.spike_time for chunk in chunks])[kept]
    # events ahead of their time, or equal times on both sides of a chunk's end
    if any(last.spike_time[-1] >= following.spike_time[0] for last, following in pairwise(chunks)):
        order = np.lexsort((cell, time))
        cell, time = cell[order], time[order]
    return time, cell


def _features(
    windows: FeatureWindows, blocks: Sequence[np.ndarray], t: np.ndarray, width: int, failed: bool
) -> FeatureValues:
    if failed or not width:
        return windows.features.nothing(width)
    return windows.values([block for block in blocks if len(block)], t)


def _reduced(
    record: Record,
    blocks: Sequence[np.ndarray],
    dt: float,
    steps: tuple[int, int],
    failed: bool,
    dtype: np.dtype,
) -> np.ndarray:
    """Return a record's reduction over a run.

    `blocks` has for each chunk the reduction from the run's start to the chunk's end, or the steps
    of crossings in the chunk. `steps` are the step at which the run began, and the step of its
    failure or end. After a failure (`failed`) the result is NaN, or -1 for counts.
    """
    begin, last = steps
    reduce, width = record.reduce, record.width
    if reduce == "crossings":  # steps before `last`
        step = np.concatenate([np.zeros((0, width), np.int64), *blocks]).astype(np.int64)
        row, column = np.nonzero((step >= 0) & (step < last))
        return packed_columns(column, (step[row, column] + 1) * dt, width, np.nan)
    blocks = [rows for rows in blocks if len(rows)]  # the start has none
    if failed or not blocks:
        nothing = {"integral": 0.0, "count": 0}.get(reduce, np.nan)
        filler = (-1 if reduce == "count" else np.nan) if failed else nothing
        return np.full(width, filler, dtype if reduce in ("min", "max") else None)
    last_row: np.ndarray = blocks[-1][0]
    return {"mean": last_row / (last - begin), "integral": last_row * dt}.get(reduce, last_row)
