r"""Segments: the few samples in a trace that determine its peaks and the minima after them.

A trace is cut where it crosses the threshold. One pass finds a few samples in each segment, so a
kernel stores only these and the last two samples.

    v      __/''\____/'\__           kind   FIRST | UP | DOWN  | UP | DOWN
    cuts     |   |   |  |

>>> import numpy as np
>>> v = np.array([[-70.0, 10.0, 30.0, -60.0, -75.0, -70.0, -70.0]])  # mV
>>> segments = segments_of(v, -20.0)  # sample 0, from sample 1 on, and from sample 3 on
>>> segments.kind.tolist(), segments.begin.tolist()
([0, 1, 2], [0, 1, 3])
>>> [sample.values.tolist() for sample, _ in (segments.peaks(), segments.minima(v.shape[1]))]
[[2], [4]]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from clhines.core.arrays import offsets
from clhines.simulator.analysis.spikes import (
    RaggedArray,
    first_extreme,
    following_local,
    lists_of,
    paired,
)

FIRST, UP, DOWN = 0, 1, 2  # a segment begins with the trace, or with a crossing
INTEGERS = ("kind", "begin", "top", "before", "after", "any_rest", "rest")
REALS = ("top_v", "before_v", "after_v", "any_rest_v", "rest_v")


@dataclass(frozen=True, eq=False)
class TraceSegments:
    """Segments sorted by trace and time: samples, -1 for none, and with ``_v`` their voltages."""

    row: np.ndarray  # trace
    kind: np.ndarray  # `FIRST`, `UP` or `DOWN`
    begin: np.ndarray
    top: np.ndarray  # the first largest sample
    before: np.ndarray  # the first smallest sample before the top
    after: np.ndarray  # the first smallest sample from the top on
    any_rest: np.ndarray  # first sample with neither of the next two below it
    rest: np.ndarray  # first such sample from the top on
    top_v: np.ndarray
    before_v: np.ndarray
    after_v: np.ndarray
    any_rest_v: np.ndarray
    rest_v: np.ndarray
    count: int  # traces

    @cached_property
    def _highest(self) -> RaggedArray:
        up, down = np.flatnonzero(self.kind == UP), np.flatnonzero(self.kind == DOWN)
        ups, downs = (lists_of(self.row[k], self.begin[k], self.count) for k in (up, down))
        rows, first, last = paired(ups, downs)
        begin, end = up[first], down[last]
        none = np.zeros(len(rows), np.int64)
        return lists_of(rows, first_extreme(-self.top_v[None], none, begin, end), self.count)

    def peaks(self) -> tuple[RaggedArray, RaggedArray]:
        """Return each trace's peaks by eFEL's definition, as samples, and their voltages.

        A peak is the first largest sample between a crossing upwards and one downwards.
        """
        every, segment = self._highest.offsets, self._highest.values
        return RaggedArray(every, self.top[segment]), RaggedArray(every, self.top_v[segment])

    def minima(self, length: int) -> tuple[RaggedArray, RaggedArray]:
        """Return the minimum after each peak, as a sample of traces with `length`, and its voltage.

        It is the first sample with neither of the next two below it, or else the smallest sample
        before the next peak. A minimum at the end of the trace is left out.
        """
        peak, rows = self._highest.values, self._highest.rows
        begin = self.top[peak]
        last = np.append(rows[1:] != rows[:-1], True)[: len(rows)]
        next_peak = np.append(peak[1:], -1)[: len(peak)]
        end = np.where(last, length, self.top[next_peak])
        sample, v = self._next_rest(peak, length)
        same = begin >= end  # two peaks that are one sample
        sample, v = np.where(same, begin, sample), np.where(same, self.top_v[peak], v)
        none = np.flatnonzero((sample + 2 >= end) & ~same)
        # the smallest from one top to the next: interleave each segment's `before` and `after`
        values = np.stack([self.before_v, self.after_v], axis=1).reshape(1, -1)
        samples = np.stack([self.before, self.after], axis=1).reshape(-1)
        beyond = np.searchsorted(self.row, rows, side="right")
        stop = np.where(last, 2 * beyond, 2 * next_peak + 1)
        at = first_extreme(values, np.zeros(len(none), np.int64), 2 * peak[none] + 1, stop[none])
        sample[none], v[none] = samples[at], values[0, at]
        kept = sample != length - 1
        minima = lists_of(rows[kept], sample[kept], self.count)
        return minima, RaggedArray(minima.offsets, v[kept])

    def _next_rest(self, peak: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the first sample after each peak with neither of the next two below it.

        Return also its voltage; without such a sample, `length` and NaN.
        """
        number = np.arange(len(self.row))
        with_any = np.where(self.any_rest < 0, len(number), number)
        following = np.minimum.accumulate(np.append(with_any, len(number))[::-1])[::-1]
        later = following[peak + 1] if len(peak) else peak
        inside = np.minimum(later, len(number) - 1)
        in_trace = (later < len(number)) & (self.row[inside] == self.row[peak])
        sample = np.where(in_trace, self.any_rest[inside], length)
        v = np.where(in_trace, self.any_rest_v[inside], np.nan)
        has_rest = self.rest[peak] >= 0
        return (
            np.where(has_rest, self.rest[peak], sample),
            np.where(has_rest, self.rest_v[peak], v),
        )


def segments_of(v: np.ndarray, threshold: float) -> TraceSegments:
    (count, length), flat = v.shape, v.reshape(-1)
    above, below = v > threshold, v < threshold
    kind = np.full(v.shape, -1)
    kind[:, 1:][above[:, 1:] & below[:, :-1]] = UP
    kind[:, 1:][below[:, 1:] & above[:, :-1]] = DOWN
    kind[:, 0] = FIRST
    row, begin = np.nonzero(kind >= 0)
    start = row * length + begin
    end = np.append(start[1:], flat.size)
    following = following_local(v).reshape(-1)

    def extreme(values: np.ndarray, first: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """Return the flat index of each range's smallest value, the first one; -1: empty."""
        place, nonempty = np.full(len(first), -1), np.flatnonzero(first < stop)
        none = np.zeros(len(nonempty), np.int64)
        place[nonempty] = first_extreme(values[None], none, first[nonempty], stop[nonempty])
        return place

    def local(first: np.ndarray) -> np.ndarray:
        at = row * length + following[first]
        return np.where((following[first] < length) & (at < end), at, -1)

    top = extreme(-flat, start, end)
    places = [top, extreme(flat, start, top), extreme(flat, top, end), local(start), local(top)]
    samples = [np.where(at < 0, -1, at - row * length) for at in places]
    empty = np.inf, np.inf, np.inf, np.nan, np.nan
    voltages = [np.where(at < 0, none, flat[at]) for at, none in zip(places, empty, strict=True)]
    fields = [kind[row, begin], begin, *samples, *voltages]
    named = dict(zip((*INTEGERS, *REALS), fields, strict=True))
    return TraceSegments(row=row, count=count, **named)


def packed(segments: TraceSegments) -> np.ndarray:
    """Write traces' segments as an array with a column for each trace, (k, m) float64.

    Row 0 has the number of closed segments, row 1 the number of all segments. Then follow the
    fields `INTEGERS` and `REALS` for the trace's first segment, for its second one, and so on.
    Columns with fewer segments end in NaN.
    """
    number = np.bincount(segments.row, minlength=segments.count)
    fields = [getattr(segments, name) for name in (*INTEGERS, *REALS)]
    most = int(number.max(initial=0))
    table = np.full((most, len(fields), segments.count), np.nan)
    rank = np.arange(len(segments.row)) - offsets(number)[:-1][segments.row]
    table[rank, :, segments.row] = np.stack(fields, axis=1)
    head = np.stack([np.zeros_like(number), number]).astype(np.float64)
    return np.concatenate([head, table.reshape(most * len(fields), segments.count)])


def joined(blocks: list[np.ndarray]) -> TraceSegments:
    """Join the `packed` segments from a run's chunks.

    A segment that is open at the end of a chunk appears again in the next chunk: it is kept from
    the last chunk only.
    """
    fields, count = len(INTEGERS) + len(REALS), blocks[0].shape[1]
    tables, rows, order = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    for k, block in enumerate(blocks):
        number = block[1 if k == len(blocks) - 1 else 0].astype(np.int64)
        values = block[2:].reshape((len(block) - 2) // fields, fields, count)
        rank, row = np.nonzero(np.arange(len(values))[:, None] < number)
        tables.append(values[rank, :, row])
        rows.append(row)
        order.append(np.full(len(row), k))
    row = np.concatenate(rows)
    values = np.concatenate(tables)
    sorted_by = np.lexsort((values[:, 1], row))
    row, values = row[sorted_by], values[sorted_by]
    named = {
        name: values[:, k].astype(np.int64 if name in INTEGERS else np.float64)
        for k, name in enumerate((*INTEGERS, *REALS))
    }
    return TraceSegments(row=row, count=count, **named)
