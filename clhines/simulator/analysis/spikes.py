"""Checks of traces and stimuli, lists of values per trace, sums and extremes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.arrays import offsets, ranges
from clhines.core.checks import as_real
from clhines.core.errors import InputError, shown
from clhines.simulator.common.checks import spread


def reduced(ufunc: np.ufunc, v: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Reduce ``v[k, begin[k]:end[k]]`` for each trace k, to (m,) float64; NaN if empty."""
    reductions, nonempty = np.full(len(v), np.nan), np.flatnonzero(begin < end)
    length = v.shape[1]
    if not len(nonempty):
        return reductions
    bounds = np.stack([begin[nonempty], end[nonempty]], axis=1) + (nonempty * length)[:, None]
    flat = v.reshape(-1)
    ends_there = bounds[-1, 1] == flat.size  # without an end, `reduceat` goes to the last value
    places = bounds.reshape(-1)[: -1 if ends_there else None]
    reductions[nonempty] = ufunc.reduceat(flat, places)[::2]
    return reductions


def summed(v: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Sum ``v[k, begin[k]:end[k]]`` for each trace k, in the order in which a kernel adds."""
    sums, size = np.full(len(v), np.nan), v.shape[1] + 1
    windows, which = np.unique(begin * size + end, return_inverse=True)
    for k, (first, last) in enumerate(zip(*np.divmod(windows, size), strict=True)):
        rows = np.flatnonzero(which == k)
        if first < last:
            sums[rows] = np.add.accumulate(v[rows, first:last], axis=1)[:, -1]
    return sums


def checked_traces(v: ArrayLike, t: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Check voltages, mV, and their times, ms; return them as (m, k) and (k,) float64."""
    rows, times = np.atleast_2d(as_real("v", v, "mV")), as_real("t", t, "ms")
    if times.ndim != 1 or len(times) < 3 or not (np.diff(times) > 0).all():
        raise InputError(f"t has shape {times.shape}; expected (k,) ascending times, 3 or more")
    if rows.ndim != 2 or rows.shape[1] != len(times):
        raise InputError(f"v has shape {rows.shape}; expected (m, {len(times)}), as many as t")
    return rows, times


def checked_stimuli(
    t: np.ndarray,
    count: int,
    stim_start: ArrayLike | None,
    stim_end: ArrayLike | None,
    current: ArrayLike | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return begin and end of each trace's stimulus, ms, and its current, nA: (count,) float64.

    Without a stimulus, return begin and end of the trace.
    """
    stim_start = t[0] if stim_start is None else stim_start
    stim_end = t[-1] if stim_end is None else stim_end
    begin = spread("stim_start", stim_start, count, unit="ms")
    end = spread("stim_end", stim_end, count, unit="ms")
    invalid = np.flatnonzero(~((begin < end) & (begin >= t[0]) & (begin < t[-1])))
    if len(invalid):
        m = int(invalid[0])
        raise InputError(
            f"stimulus of trace {m} is from {begin[m]:g} to {end[m]:g} ms; expected an interval "
            f"that begins within {t[0]:g} to {t[-1]:g} ms"
        )
    return (
        begin,
        end,
        None if current is None else spread("stimulus_current", current, count, unit="nA"),
    )


@dataclass(frozen=True, eq=False)
class RaggedArray:
    """An array of values for each trace: ``ragged[k]`` for trace k, ``ragged[:3]`` for three.

    Attributes
    ----------
    offsets : (m + 1,) int64
        Values of trace k are ``offsets[k]:offsets[k + 1]``.
    values : (count,) float64 or int64
    """

    offsets: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, k: int) -> np.ndarray: ...

    @overload
    def __getitem__(self, k: slice) -> RaggedArray: ...

    def __getitem__(self, k: int | slice) -> np.ndarray | RaggedArray:
        if isinstance(k, slice):
            rows = np.arange(len(self))[k]
            counts = self.counts[rows]
            return RaggedArray(offsets(counts), self.values[ranges(self.offsets[rows], counts)])
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
            raise InputError(f"ragged[{shown(k)}]: expected the number of a trace, or a slice")
        if not -len(self) <= k < len(self):
            raise IndexError(f"trace {k} of {len(self)}")
        k %= len(self)
        return self.values[self.offsets[k] : self.offsets[k + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[k] for k in range(len(self)))

    @property
    def counts(self) -> np.ndarray:
        """Each trace's value count, (m,) int64."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> np.ndarray:
        """Each value's trace, (count,) int64."""
        return np.repeat(np.arange(len(self)), self.counts)

    def where(self, kept: np.ndarray) -> RaggedArray:
        """Keep the values selected by `kept`, (count,) bool."""
        return lists_of(self.rows[kept], self.values[kept], len(self))

    def reduced(self, ufunc: np.ufunc, empty: float = np.nan) -> np.ndarray:
        """Reduce each trace's values, to (m,) float64; `empty` if it has no values."""
        reductions = np.full(len(self), empty)
        nonempty = np.flatnonzero(self.counts)
        if len(nonempty):
            reductions[nonempty] = ufunc.reduceat(self.values, self.offsets[:-1][nonempty])
        return reductions

    def at(self, k: int) -> np.ndarray:
        """Return each trace's value k, (m,) float64; NaN if it has fewer. -1 is the last one."""
        values = np.full(len(self), np.nan)
        long = self.counts > k if k >= 0 else self.counts >= -k
        base = self.offsets[:-1] if k >= 0 else self.offsets[1:]
        values[long] = self.values[base[long] + k]
        return values


def lists_of(rows: np.ndarray, values: np.ndarray, count: int) -> RaggedArray:
    """Make the ragged array for `count` traces from values and their traces, `rows`, sorted."""
    return RaggedArray(offsets(np.bincount(rows, minlength=count)), values)


def paired(ups: RaggedArray, downs: RaggedArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pair each trace's crossings upwards with later ones downwards; both are samples.

    Return for each pair the trace, its entry in `ups.values` and its entry in `downs.values`.
    """
    later = downs.values >= ups.at(0)[downs.rows]  # False without a crossing upwards, NaN
    entry = np.flatnonzero(later)
    downs_after = lists_of(downs.rows[later], entry, len(downs))
    pairs = np.minimum(ups.counts, downs_after.counts)
    rows = np.repeat(np.arange(len(ups)), pairs)
    first = ranges(ups.offsets[:-1], pairs)
    last = entry[ranges(downs_after.offsets[:-1], pairs)]
    sound = ups.values[first] <= downs.values[last]
    return rows[sound], first[sound], last[sound]


def following_local(v: np.ndarray) -> np.ndarray:
    """Return, for each sample in (m, k), the next one with neither of the following two below it.

    It may be the sample itself; k: there is none. (m, k) int64.
    """
    length = v.shape[1]
    sample = np.arange(length - 2)
    local = (v[:, 1:-1] >= v[:, :-2]) & (v[:, 2:] >= v[:, :-2])
    candidate = np.full(v.shape, length)
    candidate[:, :-2] = np.where(local, sample, length)
    return np.minimum.accumulate(candidate[:, ::-1], axis=1)[:, ::-1]


def first_extreme(
    v: np.ndarray, rows: np.ndarray, begin: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """Return the index of the smallest sample in each ``v[rows[j], begin[j]:end[j]]``, int64.

    Of several it is the first one.
    """
    sizes = end - begin
    if not len(sizes):
        return np.zeros(0, np.int64)
    sample, first = ranges(begin, sizes), offsets(sizes)[:-1]
    values = v[np.repeat(rows, sizes), sample]
    smallest = np.minimum.reduceat(values, first)
    hits = np.flatnonzero(values == np.repeat(smallest, sizes))
    return sample[hits[np.searchsorted(hits, first)]]
