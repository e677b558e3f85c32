"""Features of recorded voltages, computed chunk by chunk on the host or on a device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.simulator.analysis.features import Features, WindowSums, sums_of_windows
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
from clhines.simulator.device import launches
from clhines.solver.device import devices, program
from clhines.solver.device.arrays import to_device
from clhines.solver.plan.kernel_spec import TemplateSpec
from clhines.solver.plan.plan import real_name

_LINE = 8  # columns in a cache line
_ROOM = 16  # segments per column in a chunk; grows if a chunk has more

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
class FeatureWindows:
    """A record's features, and the time windows in which they need samples."""

    features: Features
    begin: np.ndarray  # (windows, width) sample numbers; 0 is the run's first
    end: np.ndarray  # (windows, width)
    first: int  # steps before the first sample: 0 for values at t = 0

    @classmethod
    def of(
        cls, features: Features, width: int, begin: int, steps: int, dt: float
    ) -> FeatureWindows:
        first = begin + 1 if begin else 0
        t = np.arange(first, begin + steps + 1) * dt
        return cls(features, *features.windows(t, width), first)

    def of_columns(self, columns: np.ndarray) -> FeatureWindows:
        return replace(self, begin=self.begin[:, columns], end=self.end[:, columns])

    def values(self, chunks: list[np.ndarray], t: np.ndarray) -> FeatureValues:
        """Compute a run's features from the results of `take` for all its chunks."""
        size = 3 * len(self.begin)
        sums = chunks[-1][:size].reshape(3, len(self.begin), chunks[-1].shape[1])
        segments = joined([chunk[size:] for chunk in chunks])
        return self.features.of_windows(t, WindowSums(segments, *sums))


class HostFeatures:
    """Compute features on the host; all rows stay in memory until the end."""

    def __init__(self, windows: FeatureWindows) -> None:
        self._windows, self._rows = windows, list[np.ndarray]()

    def take(self, values: np.ndarray) -> np.ndarray:
        self._rows.append(np.array(values, np.float64))
        v = np.concatenate(self._rows)
        v = np.nan_to_num(v.T)  # after a step with NaN the run ends, and all features are NaN
        ends = np.minimum([self._windows.begin, self._windows.end], v.shape[1])
        sums = np.concatenate(sums_of_windows(v, *ends))
        return np.concatenate([sums, packed(segments_of(v, self._windows.features.threshold))])


class DeviceFeatures:
    """Compute features of recorded voltages on a device, from one chunk of rows after another."""

    def __init__(self, windows: FeatureWindows, queue: cl.CommandQueue, dtype: np.dtype) -> None:
        self._windows, self._queue, self._dtype = windows, queue, np.dtype(dtype)
        self._built = program.build(queue.context, FeaturesSpec(real_name(self._dtype)))
        self._count, self._width = windows.begin.shape
        bounds = np.stack([windows.begin, windows.end], axis=1)
        self._bounds = to_device(queue, bounds, np.int32)
        empty = np.zeros((max(self._count, 1), 4, self._width), self._dtype)
        empty[:, 2], empty[:, 3] = np.inf, -np.inf
        self._kept = to_device(queue, empty, self._dtype)
        self._states = [self._empty_state(), self._empty_state()]
        self._counts = cla.zeros(queue, 2 * self._width, np.int32)
        self._room = 0
        self._make_room(_ROOM)

    def _empty_state(self) -> tuple[cla.Array, cla.Array]:
        integers = cla.zeros(self._queue, len(INTEGERS) * self._width, np.int32)
        return integers, cla.zeros(self._queue, (len(REALS) + 3) * self._width, self._dtype)

    def _make_room(self, room: int) -> None:
        self._room = room
        self._lists = [
            cla.empty(self._queue, (room, len(names), self._width), dtype)
            for names, dtype in ((INTEGERS, np.dtype(np.int32)), (REALS, self._dtype))
        ]

    def _launch(self, name: str, rows: int, arguments: list[object]) -> None:
        kernel = launches.BoundKernel(self._built, name, arguments)
        most = _LINE if devices.is_cpu(self._queue.device) else devices.SMALL_GROUP
        kernel.launch_columns(self._queue, self._width, rows, most)

    def take(self, array: cla.Array, rows: int, column: int, first: int) -> np.ndarray:
        """Add `rows` rows, the first one after `first` steps in the run; wait for the device.

        Return (k, width) float64: sum, smallest and largest value in each window so far, then the
        segments that these rows close or leave open, as `segments.packed` writes them.
        """
        first -= self._windows.first
        stride = int(array.shape[1])
        shape: list[object] = [np.int32(n) for n in (rows, self._width, stride, column, first)]
        if self._count:
            self._launch("windows", self._count, [*shape, array, self._bounds, self._kept])
        counts, threshold = self._counts, self._dtype.type(self._windows.features.threshold)
        while True:
            old, new = self._states
            inputs = [*shape, np.int32(self._room), threshold, array, *old]
            self._launch("segments", 1, [*inputs, *new, counts, *self._lists])
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
