"""Connections in whole steps between spike sources and their targets."""

from __future__ import annotations

import math
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.errors import InputError
from clhines.simulator.common.arrays import each, once
from clhines.simulator.network.plasticity import Rule

_SUM_BITS = 63  # an int64's bits without its sign
_LEAST_BITS = 40  # bits that the largest weight must have
_CHUNK = 1 << 18  # connections compared at once


class GridConnections:
    """Connections in whole steps, from sources (cells) to targets (instances that receive events).

    Engines store connections as compressed rows, one row for each source: sorted by source, then
    delay, then target, and equal ones in the order of the calls. So a spike reads the weights of
    all targets with one delay from consecutive memory (Brette and Goodman 2012, section 2.3).

    Arguments have one number for each of the k connections, (k,), or one for all, which is stored
    once (`arrays.once`). A delay is at least 1 step: a spike of step s acts at step s + 1 + delay.
    By default `num_sources` and `num_targets` are one above the largest number. `rule` changes the
    weights of `plastic` connections.
    """

    def __init__(
        self,
        source: ArrayLike,
        target: ArrayLike,
        weight: ArrayLike = 1.0,
        delay: ArrayLike = 1,
        num_sources: int | None = None,
        num_targets: int | None = None,
        plastic: ArrayLike = False,
        rule: Rule | None = None,
    ) -> None:
        numbers = np.int32, np.int32, np.float64, np.int32, np.bool_
        self.source, self.target, self.weight, self.delay, self.plastic = (
            each(partial(np.asarray, dtype=dtype), np.broadcast_to(values, np.shape(source)))
            for values, dtype in zip((source, target, weight, delay, plastic), numbers, strict=True)
        )
        ends = (int(once(a).max(initial=-1)) + 1 for a in (self.source, self.target))
        given = num_sources, num_targets
        self.num_sources, self.num_targets = (
            end if count is None else count for count, end in zip(given, ends, strict=True)
        )
        self.rule = rule

    @property
    def count(self) -> int:
        return len(self.source)

    @property
    def max_delay(self) -> int:
        return int(once(self.delay).max(initial=1))

    @property
    def min_delay(self) -> int:
        return int(once(self.delay).min()) if self.count else 1 << 30

    @property
    def largest(self) -> np.ndarray:
        """The largest magnitude that each weight can reach, (k,) float64."""
        if self.rule is None:
            return each(np.abs, self.weight)
        return self.rule.max_weight(self, self.plastic)

    @cached_property
    def order(self) -> np.ndarray:
        """The connections in row order, as indices of the arguments, (k,) integer."""
        if self.is_sorted:
            return np.arange(self.count, dtype=np.int32)
        return _sorted(self.source, self.delay, self.target)

    @cached_property
    def is_sorted(self) -> bool:
        return not self.delay.strides[0] and not any(
            ((a[1:] < a[:-1]) | ((a[1:] == a[:-1]) & (b[1:] < b[:-1]))).any()
            for a, b in (
                (self.source[k : k + _CHUNK + 1], self.target[k : k + _CHUNK + 1])
                for k in range(0, self.count, _CHUNK)
            )
        )

    def by_rows(self, values: np.ndarray) -> np.ndarray:
        """Reorder connection values from argument order to row order."""
        if self.is_sorted or not values.strides[0]:
            return values
        return values[self.order]

    @cached_property
    def row(self) -> np.ndarray:
        return offsets_of(self.source, self.num_sources)

    def backward(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the backward rows: a row for each target, with the connections to the target.

        The first result has the rows' bounds, (num_targets + 1,) int64. The second has, for each
        connection in them, its position in the (forward) rows, (k,) int64, ascending for a target.
        """
        position = np.argsort(self.target[self.order], kind="stable")
        return offsets_of(self.target, self.num_targets), position

    def scale(self, external: float | np.ndarray = 0.0, largest: np.ndarray | None = None) -> float:
        """Return the unit for integer weights: the smallest with which no target's sum overflows.

        It is a power of two. `external` is each target's largest sum of other events' magnitudes in
        one step. `largest`, (k,), is the largest magnitude that each weight can reach, by default
        its own magnitude. Raises InputError if a target has so many connections that less than 40
        bits remain for a weight.
        """
        return unit_of(*self.most(external, largest))

    def most(
        self, external: float | np.ndarray = 0.0, largest: np.ndarray | None = None
    ) -> tuple[float, float, int]:
        """Return the largest sum at a target, the largest weight, and the target; see `scale`."""
        size = each(np.abs, self.weight if largest is None else largest)
        sums = sums_of(self.target, size, self.num_targets) + external
        target = int(np.argmax(sums)) if len(sums) else 0
        return float(np.max(sums, initial=0.0)), float(once(size).max(initial=0.0)), target


def unit_of(total: float, most: float, target: int) -> float:
    """Return the unit for integer weights with a largest sum `total` and a largest weight `most`.

    It is a power of two. InputError if `most` would have less than 40 bits.
    """
    if total == 0:
        return 2.0**-_LEAST_BITS
    if not math.isfinite(total):
        raise InputError(f"weights at a target sum up to {total}; expected a finite sum")
    bits = _SUM_BITS - math.frexp(total)[1]
    if math.ldexp(total, bits) >= 2.0**_SUM_BITS - 2.0**32:  # space for rounding
        bits -= 1
    bits = min(1000, bits)
    if math.ldexp(most, bits) < 2.0**_LEAST_BITS and bits < 1000:
        raise InputError(
            f"weights at target {target} sum up to {total:g}, above 2**22 times the largest "
            f"weight, {most:g}: no room for {_LEAST_BITS} bits of it"
        )
    return math.ldexp(1.0, -bits)


def sums_of(key: np.ndarray, values: np.ndarray | None, count: int) -> np.ndarray:
    """Compute `numpy.bincount`, (count,) float64 or int64, without copies of large arrays."""
    # values that are all the same are counted and multiplied: a sum has one rounding error
    if values is not None and len(key) and not values.strides[0]:
        return sums_of(key, None, count) * float(values[0])
    sums = np.zeros(count, np.int64 if values is None else float)
    length = _CHUNK * max(1, count // _CHUNK)
    for k in range(0, len(key), length):
        here = slice(k, k + length)
        sums += np.bincount(key[here], None if values is None else values[here], count)
    return sums


def offsets_of(key: np.ndarray, count: int) -> np.ndarray:
    """Return each key's first entry in a list sorted by key, and the end, (count + 1,) int64."""
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(sums_of(key, None, count), out=offsets[1:])
    return offsets


def _sorted(*keys: np.ndarray) -> np.ndarray:
    sizes = [int(key.max(initial=0)) + 1 for key in keys]
    if math.prod(sizes) >= 2**63:
        return np.lexsort(keys[::-1])
    joint = np.zeros(len(keys[0]), np.int64)
    for key, size in zip(keys, sizes, strict=True):
        joint *= size
        joint += key
    return np.argsort(joint, kind="stable")
