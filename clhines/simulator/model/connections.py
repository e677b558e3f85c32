"""Connections in whole steps between spike sources and their targets."""

from __future__ import annotations

import math
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.checks import as_array, as_real, as_whole_number
from clhines.core.errors import InputError
from clhines.simulator.common.arrays import each, once
from clhines.simulator.network.plasticity import Rule

_MOST = 2**31 - 1  # most sources, and most targets: their numbers must fit int32
_SUM_BITS = 63  # an int64's bits without its sign
_LEAST_BITS = 40  # bits that the largest weight must have
_CHUNK = 1 << 18  # connections compared at once
_KEYS = 1 << 16  # sort keys that NumPy counts instead of comparing: uint16


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
        source = as_array("source", source)
        shape = source.shape
        if len(shape) != 1:
            raise InputError(f"source has shape {shape}; expected (connections,)")
        self.source, self.num_sources = _numbers("source", source, shape, 0, num_sources)
        self.target, self.num_targets = _numbers("target", target, shape, 0, num_targets)
        self.delay, _ = _numbers("delay", delay, shape, 1, None)
        weight = broadcast_numbers("weight", as_array("weight", weight), shape)
        self.weight = each(partial(as_real, "weight"), weight)
        self.plastic = broadcast_numbers("plastic", as_array("plastic", plastic, bool), shape)
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
        if self._grouped and self.max_delay < _KEYS:
            return self._by_delay()
        return _sorted(self.source, self.delay, self.target)

    @cached_property
    def is_sorted(self) -> bool:
        return self._grouped and not self.delay.strides[0]

    @cached_property
    def _grouped(self) -> bool:
        return not any(
            ((a[1:] < a[:-1]) | ((a[1:] == a[:-1]) & (b[1:] < b[:-1]))).any()
            for a, b in (
                (self.source[k : k + _CHUNK + 1], self.target[k : k + _CHUNK + 1])
                for k in range(0, self.count, _CHUNK)
            )
        )

    def _by_delay(self) -> np.ndarray:
        order, rows = np.empty(self.count, np.int32), self.row
        sources = _KEYS // (self.max_delay + 1)  # NumPy counts 16-bit keys
        for first in range(0, self.num_sources, sources):
            begin, end = rows[[first, min(first + sources, self.num_sources)]].tolist()
            key = (self.source[begin:end] - first) * (self.max_delay + 1) + self.delay[begin:end]
            order[begin:end] = np.argsort(key.astype(np.uint16), kind="stable")
            order[begin:end] += begin
        return order

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


def broadcast_numbers(name: str, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if values.shape not in ((), shape):
        raise InputError(f"{name} has shape {values.shape}; expected {shape} or one number")
    return np.broadcast_to(values, shape)


def _numbers(
    name: str, values: ArrayLike, shape: tuple[int, ...], least: int, end: int | None
) -> tuple[np.ndarray, int]:
    array = broadcast_numbers(name, as_array(name, values), shape)
    if end is not None:
        end = as_whole_number(f"num_{name}s", end, 0, _MOST)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"{name} has dtype {array.dtype}; expected integers")
    numbers = once(array)
    most = int(numbers.max(initial=least - 1))
    limit = most + 1 if end is None else int(end)
    if numbers.min(initial=least) < least or most >= min(limit, _MOST):
        k = int(np.argmax((numbers < least) | (numbers >= min(limit, _MOST))))
        expected = f"at least {least}" if end is None else f"{least} to {limit - 1}"
        raise InputError(f"{name} of connection {k} is {numbers[k]}; expected {expected}")
    return each(lambda values: values.astype(np.int32, copy=False), array), max(limit, 0)
