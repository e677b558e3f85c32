"""Objects whose attributes are made on demand, and arrays that repeat for copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from clhines.core.arrays import shifted, starts

Makers = Mapping[str, Callable[[], object]]  # functions that make attributes at first access
_Object = TypeVar("_Object", bound="Deferred")


class Deferred:
    """Base of classes whose objects make some attributes at first access."""

    if not TYPE_CHECKING:  # a type checker would accept any attribute

        def __getattr__(self, name: str) -> Any:
            if name not in vars(self).get("_made", {}):
                raise AttributeError(f"{type(self).__name__} has no attribute {name}")
            return self._make(name)

    def _make(self, name: str) -> Any:
        vars(self)[name] = value = vars(self)["_made"][name]()
        return value


def deferred(kind: type[_Object], made: Makers, /, **values: object) -> _Object:
    """Make an object of class `kind` with the attributes `values`, without ``__init__``.

    `made` has a function for each further attribute, which is called at first access.
    """
    new = kind.__new__(kind)
    vars(new).update(values, _made=made)
    return new


class Repeated:
    """A function that repeats an array, or a dict of arrays, for `count` copies of a network.

    From copy to copy, integers grow by `step`. A single number is returned as it is.
    """

    def __init__(self, once: Any, count: int, step: int = 0) -> None:
        self._once, self._count, self._step = once, count, step

    def __call__(self) -> Any:
        once, count = self._once, self._count
        if isinstance(once, Mapping):
            return {name: Repeated(value, count)() for name, value in once.items()}
        if not isinstance(once, np.ndarray):
            return once
        whole = shifted(once, self._step, count) if self._step else np.tile(once, count)
        whole.setflags(write=False)
        return whole


def in_blocks(sizes: np.ndarray | Sequence[int], copies: int) -> np.ndarray:
    """Return the index of each item in each copy of a network, (copies, m) int64.

    A copy's m items are in blocks of `sizes`. All copies of the first block come first, then all
    copies of the second: ``in_blocks([2, 1], 2)`` is ``[[0, 1, 4], [2, 3, 5]]``.
    """
    each = np.asarray(sizes, np.int64)
    base = np.arange(int(each.sum())) + np.repeat(starts(each) * (copies - 1), each)
    return base + np.repeat(each, each) * np.arange(copies)[:, None]
