"""Deliver spikes to targets in whole steps, on a device.

Brette and Goodman (2012, sections 2.3 and 4) describe the algorithms. They work in parallel on

    vpo    the targets of the cells that spiked, with atomic additions
    pull   all targets; each tests one bit per source and step: for devices without 64-bit atomics

Weights are integers in units of a power of two. So sums do not depend on their order, and both
algorithms give the same bits in every run.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from numpy.typing import ArrayLike

from clhines.core.checks import as_choice, shown
from clhines.core.errors import DeviceError, InputError, SpikeOverflowError
from clhines.simulator.common.arrays import each, once
from clhines.simulator.model.connections import GridConnections
from clhines.solver.device import devices, program
from clhines.solver.device.arrays import to_device
from clhines.solver.device.devices import has_atomics
from clhines.solver.plan.kernel_spec import TemplateSpec

NewSpikes = tuple[cla.Array, cla.Array, cla.Array]  # sources, steps, spike count


class Tables:
    """Connection arrays on a device, each of which is made at its first use.

    Weights are in the row order of `GridConnections`.
    """

    def __init__(
        self,
        queue: cl.CommandQueue,
        connections: GridConnections,
        num_targets: int,
        weight: np.ndarray,
    ) -> None:
        self.queue, self.connections, self.num_targets = queue, connections, num_targets
        self.weight = to_device(queue, connections.by_rows(weight), np.int64)
        self.row = to_device(queue, connections.row, np.int32)

    @cached_property
    def offset(self) -> cla.Array:
        """Each connection's sum as an index in the ring buffer, relative to the current slot."""
        c = self.connections
        offset = each(lambda delay: delay * np.int32(self.num_targets), c.delay) + c.target
        return to_device(self.queue, c.by_rows(offset), np.int32)

    @cached_property
    def pulled(self) -> list[cla.Array]:
        """Connection tables by target.

        They are each target's first connection, and each connection's source, delay and weight
        index.
        """
        c = self.connections
        first, index = c.backward()
        first = np.append(first, np.full(self.num_targets - c.num_targets, first[-1]))
        which = c.order[index]
        arrays = first, c.source[which], c.delay[which], index
        return [to_device(self.queue, a, np.int32) for a in arrays]


FLAG_BITS = 32  # ``pull``'s steps per launch
ALGORITHMS = ("vpo", "pull")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DeliverSpec(TemplateSpec):
    template: ClassVar[str] = "simulator/delivery"
    flag_bits: ClassVar[int] = FLAG_BITS
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "flag": (
            "const int *restrict spike_source, const int *restrict spike_step",
            "const int *restrict spike_count, int capacity, int *marks, int turn, int first_step",
            "int steps, int last_step, volatile int *fired",
        ),
        "clear": ("int num_sources, int *restrict fired",),
        "pull": (
            "int first_step, int num_targets, int slots, const int *restrict fired",
            "const int *restrict first, const int *restrict source, const int *restrict delay",
            "const int *restrict position, const long *restrict weight",
            "long *restrict incoming",
        ),
        "deliver": (
            "const int *restrict spike_source, const int *restrict spike_step",
            "const int *restrict spike_count, int capacity, int *marks, int turn, int first_step",
            "int steps, int last_step, int num_targets, int slots, const int *restrict first",
            "const int *restrict offset, const long *restrict weight, volatile long *incoming",
        ),
    }
    algorithm: str
    work_group: int

    @property
    def pulled(self) -> bool:
        return self.algorithm == "pull"


class Delivery:
    """Add the weights of connections whose source has spiked to their targets' sums.

    A step's kernels append spikes in any order to a list on the device: `spike_source` and
    `spike_step`, (capacity,) int32; `spike_count`, (1,) int32. `enqueue` delivers those that are
    new since its last call, and leaves the list for the host to read; `reset` empties it. Neither
    waits for the device. The queue is in order.

    - `slots`: length of the sums' ring buffer, more than the largest delay in steps
    - `algorithm`: one of `ALGORITHMS`, or ``auto``: ``vpo``, or ``pull`` on devices without 64-bit
      atomics
    - `incoming_scale`: a power of two, by which a sum is multiplied to get a weight: `scale`, or
      the one of `GridConnections.scale`
    """

    def __init__(
        self,
        queue: cl.CommandQueue,
        connections: GridConnections,
        num_targets: int,
        slots: int,
        capacity: int,
        algorithm: str = "auto",
        *,
        work_group: int | None = None,
        scale: float | None = None,
    ) -> None:
        if slots * num_targets >= 2**31 or connections.count >= 2**31:
            raise InputError(
                f"{slots} slots of {num_targets} targets and {connections.count} connections; "
                "expected less than 2**31 of each"
            )
        self.queue, self.connections = queue, connections
        self.num_targets, self.slots, self.capacity = num_targets, slots, capacity
        self.incoming_scale = scale or connections.scale()
        weight = self.quantise(connections.weight)
        self.tables = Tables(queue, connections, num_targets, weight)
        self._marks, self._zeros = (to_device(queue, np.zeros(3), np.int32) for _ in range(2))
        self._turn = 0
        self.use(algorithm, work_group)
        _log.info("spikes are delivered by %s", self.algorithm)

    def use(self, algorithm: str, work_group: int | None = None) -> None:
        """Choose how kernels add weights from now on; both algorithms give the same bits."""
        device = self.queue.device
        as_choice("algorithm", algorithm, ("auto", *ALGORITHMS))
        if algorithm == "auto":
            algorithm = "vpo" if has_atomics(device) else "pull"
        if algorithm == "vpo" and not has_atomics(device):
            raise DeviceError(
                f"{device.name.strip()} has no 64-bit atomics, which {shown(algorithm)} needs; "
                "use 'pull'"
            )
        most = 1 << (device.max_work_group_size.bit_length() - 1)
        group = work_group or min(16 if devices.is_cpu(device) else 256, most)
        self.algorithm = algorithm
        spec = DeliverSpec(algorithm, group)
        self._launcher = _Launcher(self.queue, self.tables, spec, self.slots)

    def quantise(self, weight: ArrayLike) -> np.ndarray:
        exponent = -round(math.log2(self.incoming_scale))
        weights = np.asarray(weight, np.float64)
        scaled = np.ldexp(once(weights) if weights.ndim else weights, exponent)
        return np.broadcast_to(np.rint(scaled).astype(np.int64), weights.shape)

    def set_weights(self, weight: np.ndarray) -> None:
        integers = self.quantise(self.connections.by_rows(weight))
        self.tables.weight.set(integers, self.queue)

    def enqueue(
        self, new_spikes: NewSpikes, incoming: cla.Array, first_step: int, steps: int = 1
    ) -> cl.Event:
        """Deliver the spikes that were appended to the list since the last call.

        A source is in the list at most once per step. The new spikes are from `steps` steps (at
        most `slots`) from `first_step` on. `check` reports a list that overflowed. A spike in step
        s adds to slot ``(s + 1 + delay) % slots`` of `incoming`, (slots * num_targets,) int64.
        """
        event = self.deliver(new_spikes, incoming, self.steps_from(first_step, steps), True)
        self.turn_over()
        return event

    def steps_from(self, first: int, count: int) -> range:
        if not 1 <= count <= self.slots:
            raise InputError(f"got {count} steps at once; expected 1 to {self.slots}, the slots")
        return range(first, first + count)

    @property
    def marks(self) -> tuple[cla.Array, int]:
        """Two indices in the spike list on the device, and which of them, 0 or 1, is in use.

        The one in use is the index of the first spike that has not been delivered.
        """
        return self._marks, self._turn

    def turn_over(self) -> None:
        """Mark all spikes in the list as delivered, in the other mark; call it after `deliver`."""
        self._turn = 1 - self._turn

    def deliver(
        self, new_spikes: NewSpikes, incoming: cla.Array, steps: range, ends: bool
    ) -> cl.Event:
        """Deliver the new spikes of some `steps` to the ring buffer `incoming`.

        In the last call before `turn_over` `ends` must be true: the kernel then moves the mark.
        """
        lists = *(a.data for a in new_spikes), self.capacity, self._marks.data, self._turn
        return self._launcher(lists, incoming, steps, steps[-1] if ends else -1)

    def reset(self, spike_count: cla.Array) -> None:
        for array in (spike_count, self._marks):
            cl.enqueue_copy(self.queue, array.data, self._zeros.data, byte_count=array.nbytes)

    def check(self) -> None:
        """Wait; raise SpikeOverflowError, with the step of the overflow, if the list overflowed."""
        step = int(self._marks.get(self.queue)[2]) - 1
        if step >= 0:
            raise SpikeOverflowError(
                f"by step {step} more spikes than the list has room for, {self.capacity}; "
                "expected a larger capacity, or to be emptied more often",
                step,
            )


class _Launcher:
    """The kernels of one algorithm, with their tables and sizes; a call launches them."""

    def __init__(
        self, queue: cl.CommandQueue, tables: Tables, spec: DeliverSpec, slots: int
    ) -> None:
        self.queue, self.tables, self.spec, self.slots = queue, tables, spec, slots
        c, context = tables.connections, queue.context
        per_unit = 2 if devices.is_cpu(queue.device) else 16
        self._groups = devices.limits(queue.device).compute_units * per_unit
        if spec.pulled:
            self._flag = program.kernel_of(context, spec, "flag")
            self._clear = program.kernel_of(context, spec, "clear")
            self._fired = to_device(queue, np.zeros(c.num_sources), np.int32)
            self._arguments = [a.data for a in tables.pulled]
        else:
            longest = int(np.max(np.diff(c.row), initial=1))
            across = max(1, min(self._groups, -(-longest // spec.work_group)))
            self._grid = across, max(1, self._groups // across)
            self._arguments = [tables.row.data, tables.offset.data]
        name = "pull" if spec.pulled else "deliver"
        self._deliver_kernel = program.kernel_of(context, spec, name)

    def __call__(
        self, lists: Sequence[object], incoming: cla.Array, steps: range, last_step: int = -1
    ) -> cl.Event:
        """Deliver some steps' spikes; `lists`, spikes and marks, are the first arguments."""
        spec, tables = self.spec, self.tables
        numbers, sums = (tables.num_targets, self.slots), (tables.weight.data, incoming.data)
        if spec.pulled:
            return self._pull(lists, steps, last_step, numbers, sums)
        across, along = self._grid
        sizes = (across * spec.work_group, along), (spec.work_group, 1)
        more = steps[0], len(steps), last_step, *numbers, *self._arguments, *sums
        return self._deliver_kernel(self.queue, *sizes, *lists, *more)

    def _pull(
        self,
        lists: Sequence[object],
        steps: range,
        last_step: int,
        numbers: tuple[int, int],
        sums: tuple[cl.Buffer, cl.Buffer],
    ) -> cl.Event:
        queue, group, fired = self.queue, (self.spec.work_group,), self._fired.data
        items = (self._groups * group[0],)
        targets = (-(-numbers[0] // group[0]) * group[0],)
        for begin in range(0, len(steps), FLAG_BITS):
            part = steps[begin : begin + FLAG_BITS]
            last = last_step if part[-1] == steps[-1] else -1
            more = *lists, part[0], len(part), last, fired
            self._flag(queue, items, group, *more)
            arguments = part[0], *numbers, fired, *self._arguments, *sums
            self._deliver_kernel(queue, targets, group, *arguments)
            sources = self.tables.connections.num_sources
            event = self._clear(queue, items, group, sources, fired)
        return event
