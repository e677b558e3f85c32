"""Values of nodes that repeat, kept once: cells taken in turn are alike in every round."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from clhines.arrays import repeat_moved


class NodeValues:
    """Values of all nodes of a network, by name; arrays of all nodes are made when asked for.

    `once` is one round of each, (m,), which is repeated to `count` nodes; the last round may be
    cut. The arrays are read-only from now on.
    """

    def __init__(self, once: Mapping[str, np.ndarray], count: int) -> None:
        self._once, self.count = dict(once), count
        for array in self._once.values():
            array.setflags(write=False)
        self._whole = {name: a for name, a in self._once.items() if len(a) == count}

    def whole(self, name: str) -> np.ndarray:
        """(n,): of all nodes, read-only."""
        if name not in self._whole:
            found = repeat_moved(self._once[name], self.count)
            found.setflags(write=False)
            self._whole[name] = found
        return self._whole[name]

    def at(self, name: str, nodes: np.ndarray) -> np.ndarray:
        """Return the values of some nodes; -1 stands for the last."""
        if name in self._whole:
            return self._whole[name][nodes]
        once = self._once[name]
        return once[nodes % len(once)]

    def any(self, name: str) -> bool:
        """Whether a value is not 0."""
        return bool(self._once[name][: self.count].any())

    def copied(self, copies: int) -> NodeValues:
        """Return the values of all nodes in so many copies, one after another."""
        whole = {k: self.count % len(a) == 0 for k, a in self._once.items()}
        once = {k: a if whole[k] else self.whole(k) for k, a in self._once.items()}
        return NodeValues(once, self.count * copies)

    def changed(self, **values: np.ndarray) -> NodeValues:
        """Return these values with some replaced: a round or all of each."""
        return NodeValues({**self._once, **values}, self.count)

    def part(self, low: int, high: int) -> NodeValues:
        """Return the values of the nodes from `low` to `high`, as arrays of these."""
        return NodeValues({k: self.whole(k)[low:high] for k in self._once}, high - low)
