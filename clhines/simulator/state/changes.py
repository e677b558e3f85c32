"""Change a run on one device in place: parameters, constants, weights, and the stored start."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.arrays import inverse, stretch_of
from clhines.simulator.mechanisms.ir.program import HELD_STEPS
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.model.model import Model
from clhines.simulator.network.changes import ParameterValue
from clhines.simulator.state.decisions import external_sums
from clhines.simulator.state.ranges import check_range, largest_of
from clhines.solver.device import devices, program
from clhines.solver.device.arrays import fill_soon, set_soon
from clhines.solver.plan.kernel_spec import TemplateSpec
from clhines.solver.plan.plan import real_name

_MOST = 2**31  # array size that the kernel's int indices allow
_FEW = 64  # up to so many adjacent elements are written, more are filled


@dataclass(frozen=True)
class SpreadSpec(TemplateSpec):
    template: ClassVar[str] = "simulator/spread"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "spread": (
            "int count, int offset, int single, const int *restrict at",
            "const int *restrict source, const real *restrict values, real *restrict target",
        )
    }
    real: str


@dataclass(frozen=True, eq=False)
class Storage:
    """Where a run stores a mechanism's parameter: a device array, and indices in it."""

    array: cla.Array
    offset: int
    key: Hashable = ()  # parameters with equal `places` have equal keys
    # returns entries of the array after `offset`, and the instance of each, (m,) both; None: one
    # number serves all instances
    places: Callable[[], tuple[np.ndarray, np.ndarray]] | None = None


class Spread:
    """Write new parameter values into arrays on a device; keep the tables of indices for reuse."""

    def __init__(self, queue: cl.CommandQueue, dtype: np.dtype, model: Model) -> None:
        self.queue, self.dtype, self._model = queue, np.dtype(dtype), model
        spec = SpreadSpec(real_name(self.dtype))
        self._kernel = program.kernel_of(queue.context, spec, "spread")
        self._tables: dict[Hashable, cla.Array] = {}
        self._sources_of_each: dict[Hashable, np.ndarray] = {}
        self._rows: dict[Hashable, tuple[int, int]] = {}  # first index and length of rows
        self._written = deque[cl.Event | None](maxlen=8)

    def put(self, storage: Storage, group: int, value: ParameterValue) -> None:
        """Enqueue a write of `value` for the instances in group number `group`, at `storage`."""
        numbers = np.asarray(value.numbers, self.dtype)
        key, first, count = (storage.key, group), storage.offset, 1
        if storage.places is not None:
            row = self._rows.get(key)
            if row is None:
                places = self._entries(storage, group)[0]
                adjacent = len(places) > 0 and bool((np.diff(places) == 1).all())
                row = self._rows[key] = (int(places[0]), len(places)) if adjacent else (0, 0)
            first, count = first + row[0], row[1]
        if count and value.by == "all":
            if count > _FEW:
                fill_soon(storage.array, first, count, numbers[0], self.queue)
                return
            if count > 1:
                numbers = numbers.repeat(count)
            self._written.append(set_soon(storage.array, first, numbers, self.queue))
            return
        at = self._table((*key, "at"), lambda: self._entries(storage, group)[0])
        source = at
        if value.by != "all":
            source = self._table(
                (*key, value.by),
                lambda: self._sources(self._entries(storage, group)[1], group, value.by),
            )
        self.values(storage.array, at, source, numbers, storage.offset, value.by == "all")

    def of_each(self, group: int, value: ParameterValue) -> np.ndarray:
        if (group, value.by) not in self._sources_of_each:
            line = np.arange(len(self._model.instances[group][1]))
            self._sources_of_each[group, value.by] = self._sources(line, group, value.by)
        return value.numbers[self._sources_of_each[group, value.by]]

    def values(
        self,
        target: cla.Array,
        at: cla.Array,
        source: cla.Array,
        numbers: np.ndarray,
        offset: int = 0,
        single: bool = False,
    ) -> None:
        """Enqueue ``target[at + offset] = numbers[source]`` or, if `single`, ``= numbers[0]``."""
        if not at.size:
            return
        values = cla.to_device(self.queue, np.ascontiguousarray(numbers, self.dtype))
        groups = devices.small_groups(self.queue.device, at.size)
        arrays = (a.data for a in (at, source, values, target))
        self._kernel(
            self.queue, *groups, np.int32(at.size), np.int32(offset), np.int32(single), *arrays
        )

    def _table(self, key: Hashable, make: Callable[[], np.ndarray]) -> cla.Array:
        if key not in self._tables:
            self._tables[key] = cla.to_device(self.queue, make().astype(np.int32))
        return self._tables[key]

    def _entries(self, storage: Storage, group: int) -> tuple[np.ndarray, np.ndarray]:
        assert storage.places is not None
        at, instance = storage.places()
        k, instances = self._model.instances[group]
        position = inverse(instances, self._model.kinds[k].count)[instance]
        return at[position >= 0], position[position >= 0]

    def _sources(self, line: np.ndarray, group: int, by: str) -> np.ndarray:
        if by == "instance":
            return line
        k, instances = self._model.instances[group]
        return stretch_of(
            self._model.forest.cell_offsets, self._model.kinds[k].node[instances][line]
        )


_SPARE_BITS = 8  # the present unit may waste so many of the largest sum's 62 bits


class DeviceChanges:
    """Change a run's parameters, constants and weights in place, on one device.

    A method returns False if the change is not possible in place; then a new run is needed.
    """

    def __init__(self, run: Any) -> None:
        self.run, self.queue, self.model = run, run.queue, run.model
        self._spread: Spread | None = None
        self._largest = largest_of(run.dtype)
        self._since_start: dict[tuple[int, str], ParameterValue] = {}  # by group and name

    def set_parameter(self, group: int, name: str, value: ParameterValue) -> bool:
        (k, instances), run = self.model.instances[group], self.run
        if not len(instances):
            return True
        numbers, by_all = value.numbers, value.by == "all"
        if not by_all or abs(numbers.item()) > self._largest:
            check_range(f"{self.model.kinds[k].mechanism.name}: {name}", numbers, run.dtype)
        if self._spread is None:
            self._spread = Spread(self.queue, run.dtype, self.model)
        storages = run.state.storages(k, name)
        for storage in storages:  # without `places` there is one number, for all instances
            if not storage.places and not (by_all and len(instances) == self.model.kinds[k].count):
                return False
            if storage.array.size >= _MOST:
                return False
        if not storages:
            return False
        for storage in storages:
            self._spread.put(storage, group, value)
        self._since_start[group, name] = value
        if not by_all:
            numbers = self._spread.of_each(group, value)
        run.start.take(k, name, instances, numbers)
        run.kernels.take(k, name, numbers)
        return True

    def keep_start(self) -> None:
        """Store the present state, with its parameters, as the one to which `reset` returns."""
        self._since_start.clear()
        if self.run.state.waiting is None:
            self.run.start.keep()

    def reset(self) -> bool:
        """Return to the stored state, but with the present parameters."""
        for (group, name), value in self._since_start.items():
            assert self._spread is not None
            for storage in self.run.state.storages(self.model.instances[group][0], name):
                start = self.run.start.copy_of(storage.array)
                if start is not None:
                    self._spread.put(replace(storage, array=start), group, value)
        self._since_start.clear()
        return bool(self.run.reset())

    def set_constants(self, d: np.ndarray, b: np.ndarray, g: np.ndarray) -> bool:
        return bool(self.run.set_constants(d, b, g))

    def set_weights(self, weight: np.ndarray) -> bool:
        """Replace all weights; return False if this needs a new run.

        A new run is needed for plastic connections, events at exact times, and weights whose sums
        do not fit the present integer unit.
        """
        grid, connections = self.run.grid, self.model.connections
        if grid is None or grid.delivery is None or connections.rule is not None:
            return False
        delivery = grid.delivery
        unit, external = delivery.incoming_scale, external_sums(self.model)
        largest = np.maximum(np.abs(weight), np.abs(grid.weights()))  # both may be pending
        finest = connections.scale(external, largest)
        if not unit / 2**_SPARE_BITS <= finest <= unit:
            return False
        delivery.set_weights(weight)
        grid.weight = weight.copy()
        return True


def affects_start(model: Model, mechanism: Mechanism, name: str) -> bool:
    """Whether a change in a parameter changes the state at t = 0.

    Values that the first step computes again do not count.
    """
    spike = mechanism.program.spike
    names = {name, HELD_STEPS} if spike is not None and name == spike.refractory else {name}
    if names & mechanism.compiled.start_uses:
        return True
    if not names & mechanism.compiled.current_uses:
        return False
    by_pointers = bool(model.read or model.written)  # other kinds may read states
    return by_pointers or any(kind.mechanism.compiled.reads_first_currents for kind in model.kinds)
