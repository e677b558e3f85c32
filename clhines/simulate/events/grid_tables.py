"""Connections as the tables that the kernels of `grid` read."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device.arrays import to_device
from clhines.model.connections import Connections


class Tables:
    """The arrays of connections on the device, made when an algorithm first asks for them."""

    def __init__(
        self,
        queue: cl.CommandQueue,
        connections: Connections,
        num_targets: int,
        weight: np.ndarray,
    ) -> None:
        self.queue, self.connections, self.num_targets = queue, connections, num_targets
        self.weight = to_device(queue, weight[connections.order], np.int64)
        self.row = to_device(queue, connections.row, np.int32)
        self._chunks: dict[int, np.ndarray] = {}

    @cached_property
    def offset(self) -> cla.Array:
        """Where each connection adds, less its slot."""
        c = self.connections
        offset = c.delay.astype(np.int64) * self.num_targets + c.target
        return to_device(self.queue, offset[c.order], np.int32)

    @cached_property
    def target(self) -> cla.Array:
        """Target of each connection, by rows."""
        return to_device(self.queue, self.connections.target[self.connections.order], np.int32)

    @cached_property
    def delays(self) -> cla.Array:
        """Distinct delays."""
        return to_device(self.queue, self.connections.delays, np.int32)

    def chunks(self, columns: int) -> np.ndarray:
        """As `Connections.chunks`, kept."""
        if columns not in self._chunks:
            self._chunks[columns] = self.connections.chunks(columns)
        return self._chunks[columns]

    def forget(self) -> None:
        """Drop all but the weights and rows; what a launcher uses it holds itself."""
        for name in ("offset", "target", "delays", "pulled"):
            self.__dict__.pop(name, None)
        self._chunks.clear()

    @cached_property
    def pulled(self) -> list[cla.Array]:
        """First index, source, delay and forward index of each target's connections."""
        c = self.connections
        first, index = c.backward()
        first = np.append(first, np.full(self.num_targets - c.num_targets, first[-1]))
        which = c.order[index]
        arrays = first, c.source[which], c.delay[which], index
        return [to_device(self.queue, a, np.int32) for a in arrays]


def random_list(sources: int, steps: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Source and step, from 0, of so many different spikes."""
    pick = np.random.default_rng(0).choice(sources * steps, count, replace=False)
    return pick % max(1, sources), pick // max(1, sources)
