"""Recorder: rows of what is recorded of two arrays on a device, voltages and all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.device.arrays import to_device
from clhines.simulate.records.reduced import View


class Recorder:
    """Rows of recorded values on a device."""

    def __init__(
        self, queue: cl.CommandQueue, dtype: np.dtype, zeros: Callable[..., cla.Array]
    ) -> None:
        self._queue, self._dtype, self._zeros, self._views = queue, dtype, zeros, list[View]()

    def begin(
        self, rows: int, locations: Sequence[tuple[str, np.ndarray]], owner: np.ndarray, last: int
    ) -> dict[str, np.integer | cla.Array]:
        """Make room; return arguments of the kernel that writes the rows, by name.

        `locations` are of each record which array it is in, ``v`` or ``mem``, and where there, and
        `owner`, of each place in ``mem``, in order, is the active node whose work-item writes it,
        or `last`, the number of active nodes, for those of no node.
        """
        wide: dict[str, list[np.ndarray]] = {"v": [], "mem": []}
        columns = []
        for source, at in locations:
            columns.append((source, sum(len(a) for a in wide[source])))
            wide[source].append(at)
        index = {s: np.concatenate([np.zeros(0, np.int64), *parts]) for s, parts in wide.items()}
        room = {
            s: self._zeros(f"{s}_rows", (max(rows, 1), max(len(a), 1)), self._dtype)
            for s, a in index.items()
        }
        self._views = [View(room[source], begin) for source, begin in columns]
        order = np.argsort(owner, kind="stable")
        given = {
            "v_index": index["v"],
            "mem_first": np.searchsorted(owner[order], np.arange(last + 1)),
            "mem_column": order,
            "mem_index": index["mem"][order],
        }
        return {
            "num_v": np.int32(len(index["v"])),
            "num_mem": np.int32(len(index["mem"])),
            "v_rows": room["v"],
            "mem_rows": room["mem"],
            **{name: to_device(self._queue, a, np.int32) for name, a in given.items()},
        }

    def views(self) -> list[View]:
        """Where the rows of each record are on the device."""
        return self._views
