"""Features of recorded voltages: what a run keeps of the rows of its chunks, chunk after chunk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.simulator.analysis.features import Features, WindowSums
from clhines.simulator.analysis.segments import (
    DOWN,
    INTEGERS,
    REALS,
    UP,
    joined,
    packed,
    segments_of,
)
from clhines.simulator.analysis.spikes import RaggedArray
from clhines.solver.device import devices, program
from clhines.solver.device.arrays import to_device
from clhines.solver.plan.kernel_spec import TemplateSpec
from clhines.solver.plan.plan import real_name

_LINE = 8  # columns in one line of the cache
_ROOM = 16  # segments of a column in a chunk at first; more where a chunk has more

FeatureValues = dict[str, "np.ndarray | RaggedArray"]


@dataclass(frozen=True)
class FeaturesSpec(TemplateSpec):
    template: ClassVar[str] = "simulator/features"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "windows": (
            "int rows, int width, int stride, int column, int first",
            "const real *restrict values, const int *restrict bounds, real *restrict kept",
        ),
        "segments": (
            "int rows, int width, int stride, int column, int first, int room, real threshold",
            "const real *restrict values, const int *restrict before",
            "const real *restrict before_v, int *restrict after, real *restrict after_v",
            "int *restrict count, int *restrict list, real *restrict list_v",
        ),
    }
    integers: ClassVar[tuple[str, ...]] = INTEGERS
    reals: ClassVar[tuple[str, ...]] = REALS
    up: ClassVar[int] = UP
    down: ClassVar[int] = DOWN
    real: str


@dataclass(frozen=True, eq=False)
class Asked:
    """Features that a record asks for, in a run."""

    features: Features
    begin: np.ndarray  # (windows, width) numbers of samples: 0 is the first of the run
    end: np.ndarray  # likewise
    first: int  # steps before the first sample: 0 for the values at t = 0

    @classmethod
    def of(cls, features: Features, width: int, begin: int, steps: int, dt: float) -> Asked:
        """Return the features of a run of `steps` steps from step `begin` on."""
        first = begin + 1 if begin else 0
        t = np.arange(first, begin + steps + 1) * dt
        return cls(features, *features.windows(t, width), first)

    def some(self, columns: np.ndarray) -> Asked:
        return Asked(self.features, self.begin[:, columns], self.end[:, columns], self.first)

    def found(self, chunks: list[np.ndarray], t: np.ndarray) -> FeatureValues:
        """Return the features of a run from what was kept of each of its chunks."""
        size = 3 * len(self.begin)
        sums = chunks[-1][:size].reshape(3, len(self.begin), chunks[-1].shape[1])
        segments = joined([chunk[size:] for chunk in chunks])
        return self.features.found(t, WindowSums(segments, *sums))


class HostFeatures:
    """Features on the host: keeps all rows. Takes and returns what `DeviceFeatures` does."""

    def __init__(self, asked: Asked) -> None:
        self._asked, self._rows = asked, list[np.ndarray]()

    def take(self, values: np.ndarray, first: int) -> np.ndarray:
        self._rows.append(np.array(values, np.float64))
        v = np.concatenate(self._rows)
        begin, end = self._asked.begin, self._asked.end
        found = np.stack([np.zeros(begin.shape), *(np.full(begin.shape, x) for x in (1, -1))])
        found[1:] *= np.inf
        for w, j in np.ndindex(*begin.shape):
            window = v[begin[w, j] : end[w, j], j]
            if len(window):
                found[:, w, j] = np.add.accumulate(window)[-1], window.min(), window.max()
        segments = packed(segments_of(v.T, self._asked.features.threshold))
        return np.concatenate([*found, segments])


class DeviceFeatures:
    """Features on a device, from the rows of a chunk."""

    def __init__(self, asked: Asked, queue: cl.CommandQueue, dtype: np.dtype) -> None:
        self._asked, self._queue, self._dtype = asked, queue, np.dtype(dtype)
        self._built = program.build(queue.context, FeaturesSpec(real_name(self._dtype)))
        self._count, self._width = asked.begin.shape
        bounds = np.stack([asked.begin, asked.end], axis=1)
        self._bounds = to_device(queue, bounds, np.int32)
        empty = np.zeros((max(self._count, 1), 4, self._width), self._dtype)
        empty[:, 2], empty[:, 3] = np.inf, -np.inf
        self._kept = to_device(queue, empty, self._dtype)
        self._states = [self._state(), self._state()]
        self._counts = cla.zeros(queue, 2 * self._width, np.int32)
        self._room = 0
        self._make_room(_ROOM)

    def _state(self) -> tuple[cla.Array, cla.Array]:
        """Return room for the open segment, its samples and the last three of the trace."""
        integers = cla.zeros(self._queue, len(INTEGERS) * self._width, np.int32)
        return integers, cla.zeros(self._queue, (len(REALS) + 3) * self._width, self._dtype)

    def _make_room(self, room: int) -> None:
        self._room = room
        self._lists = [
            cla.empty(self._queue, (room, len(names), self._width), dtype)
            for names, dtype in ((INTEGERS, np.dtype(np.int32)), (REALS, self._dtype))
        ]

    def _launch(self, name: str, rows: int, arguments: list[object]) -> None:
        kernel = program.BoundKernel(self._built, name, arguments)
        most = _LINE if devices.is_cpu(self._queue.device) else devices.SMALL_GROUP
        kernel.launch_columns(self._queue, self._width, rows, most)

    def take(self, array: cla.Array, rows: int, column: int, first: int) -> np.ndarray:
        """Take rows, the first of values after `first` steps; wait, and return what is kept.

        That is (k, width) float64: sums, smallest and largest of the windows so far, then segments
        as of `segments.packed`: those closed in these rows, and those open after them.
        """
        first -= self._asked.first
        stride = int(array.shape[1])
        of_rows: list[object] = [np.int32(n) for n in (rows, self._width, stride, column, first)]
        if self._count:
            self._launch("windows", self._count, [*of_rows, array, self._bounds, self._kept])
        counts, threshold = self._counts, self._dtype.type(self._asked.features.threshold)
        while True:
            given = [*of_rows, np.int32(self._room), threshold, array, *self._states[0]]
            self._launch("segments", 1, [*given, *self._states[1], counts, *self._lists])
            number = counts.get(self._queue).reshape(2, -1)
            most = int(number[1].max())
            if most <= self._room:
                break
            self._make_room(most)
        self._states.reverse()
        kept = self._kept.get(self._queue).astype(np.float64).reshape(-1, 4, self._width)
        kept = kept[: self._count]
        windows = [kept[:, 0] + kept[:, 1], kept[:, 2], kept[:, 3]]
        lists = [a[:most].get(self._queue).astype(np.float64) for a in self._lists]
        segments = np.concatenate(lists, axis=1).reshape(-1, self._width)
        return np.concatenate([*windows, number.astype(np.float64), segments])
