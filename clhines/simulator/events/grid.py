"""Deliver spikes to targets in whole steps, on a device.

Brette and Goodman (2012, section 4 and appendix A) describe the algorithms. They work in parallel
on

    vpo    the targets of the cells that spiked
    vsn    synapses, then targets, with sums in local memory
    vssn   the same, with several spikes per work-group
    pull   all targets; each tests one bit per source and step (section 2.3)

Weights are integers in units of a power of two. So sums do not depend on their order, and all
algorithms give the same bits in every run.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from numpy.typing import ArrayLike

from clhines.core.checks import shown
from clhines.core.errors import DeviceError, InputError, SpikeOverflowError
from clhines.simulator.common.arrays import each, once
from clhines.simulator.model.connections import GridConnections
from clhines.solver.device import devices, program
from clhines.solver.device.arrays import to_device
from clhines.solver.device.devices import has_atomics
from clhines.solver.device.timing import seconds_in_turns
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
        self._chunks: dict[int, np.ndarray] = {}

    @cached_property
    def offset(self) -> cla.Array:
        """Each connection's sum as an index in the ring buffer, relative to the current slot."""
        c = self.connections
        offset = each(lambda delay: delay * np.int32(self.num_targets), c.delay) + c.target
        return to_device(self.queue, c.by_rows(offset), np.int32)

    @cached_property
    def target(self) -> cla.Array:
        return to_device(self.queue, self.connections.by_rows(self.connections.target), np.int32)

    @cached_property
    def delays(self) -> cla.Array:
        return to_device(self.queue, self.connections.delays, np.int32)

    def chunks(self, columns: int) -> np.ndarray:
        if columns not in self._chunks:
            self._chunks[columns] = self.connections.chunks(columns)
        return self._chunks[columns]

    def forget(self) -> None:
        """Drop all arrays but weights and rows; launchers keep the arrays that they use."""
        for name in ("offset", "target", "delays", "pulled"):
            self.__dict__.pop(name, None)
        self._chunks.clear()

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


def random_list(sources: int, steps: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    pick = np.random.default_rng(0).choice(sources * steps, count, replace=False)
    return pick % max(1, sources), pick // max(1, sources)


FLAG_BITS = 32  # ``pull``'s steps per launch


@dataclass(frozen=True)
class DeliverSpec(TemplateSpec):
    """Spec of kernels that deliver spikes; only ``vsn`` and ``vssn`` use `columns`, `lanes`."""

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
            "const int *restrict delays if staged, const int *restrict target if staged",
            "const int *restrict offset if placed",
            "const long *restrict weight, volatile long *incoming",
        ),
    }
    algorithm: str
    work_group: int
    columns: int = 0  # a work-group's targets
    lanes: int = 0  # work-items per spike, a power of two like `work_group`
    exclusive: bool = False  # whether there is one delay: no two work-groups add to the same sum

    @property
    def pulled(self) -> bool:
        return self.algorithm == "pull"

    @property
    def staged(self) -> bool:
        return self.algorithm in ("vsn", "vssn")

    @property
    def placed(self) -> bool:
        return not self.staged


_log = logging.getLogger(__name__)

ALGORITHMS = ("vpo", "vsn", "vssn", "pull")
_SMALL = 1 << 14  # with fewer connections a measurement costs more than it can save
_LARGE = 1 << 22  # with more connections the other algorithms' tables cost more than they save
_TABLE_SHARE = 4  # most entries in chunk tables, per connection


class Delivery:
    """Add the weights of connections whose source has spiked to their targets' sums.

    A step's kernels append spikes in any order to a list on the device: `spike_source` and
    `spike_step`, (capacity,) int32; `spike_count`, (1,) int32. `enqueue` delivers those that are
    new since its last call, and leaves the list for the host to read; `reset` empties it. Neither
    waits for the device. The queue is in order.

    - `slots`: length of the sums' ring buffer, more than the largest delay in steps
    - `algorithm`: one of `ALGORITHMS`, or ``auto``, which uses the fastest on random spikes (see
      `tune`); devices without 64-bit atomics support ``pull`` only
    - `external`, `largest`: arguments of `GridConnections.scale`; `scale` replaces its result
    - `columns`, `work_group`: replace the defaults of `DeliverSpec`
    - `incoming_scale`: a power of two, by which a sum is multiplied to get a weight
    - `seconds`: each candidate's measured time by name
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
        steps: int = 1,
        external: float | np.ndarray = 0.0,
        largest: np.ndarray | None = None,
        columns: int | None = None,
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
        self.atomics = has_atomics(queue.device)
        self.incoming_scale = scale or connections.scale(external, largest)
        self.seconds: dict[str, float] = {}
        weight = self.quantise(connections.weight)
        self.tables = Tables(queue, connections, num_targets, weight)
        self._marks, self._zeros = (to_device(queue, np.zeros(3), np.int32) for _ in range(2))
        self._turn = 0
        if algorithm == "auto":
            self.tune(steps, always=False)
            self.tables.forget()
        else:
            self.use(algorithm, columns, work_group)
        _log.info("spikes are delivered by %s (%s)", self.algorithm, self._why(algorithm))

    def use(
        self, algorithm: str, columns: int | None = None, work_group: int | None = None
    ) -> None:
        """Choose how kernels add weights from now on; all algorithms give the same bits."""
        spec = self._spec(algorithm, columns, work_group)
        self._take(_Launcher(self.queue, self.tables, spec, self.slots))

    def _why(self, algorithm: str) -> str:
        if algorithm != "auto":
            return "as given"
        if self.seconds:
            return ", ".join(f"{name} {s * 1e6:.1f} us" for name, s in self.seconds.items())
        few = "few" if self.connections.count < _SMALL else "very many"
        return f"{few} connections" if self.atomics else "no 64-bit atomics on this device"

    def _take(self, launcher: _Launcher) -> None:
        self._launcher, self.algorithm = launcher, launcher.spec.algorithm

    @property
    def spec(self) -> DeliverSpec:
        return self._launcher.spec

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

    def tune(self, steps: int = 1, expected: int | None = None, always: bool = True) -> None:
        """Use the algorithm that is fastest on random spikes.

        Unless `always`, use ``vpo`` if measuring would cost more than it can save. In a measurement
        a call delivers `expected` spikes (default: a hundredth of the sources) in `steps` steps.
        """
        if not self.atomics:
            self.use("pull")
            return
        if not (always or _SMALL <= self.connections.count <= _LARGE):
            self.use("vpo")
            return
        sources = self.connections.num_sources
        count = max(1, sources // 100) if expected is None else expected
        count = max(0, min(count, self.capacity, sources * steps))
        self.measure([random_list(sources, steps, count)], steps)

    def measure(
        self, lists: Sequence[tuple[np.ndarray, np.ndarray]], steps: int = 1
    ) -> dict[str, float]:
        """Time each delivery kernel on spike lists, use the fastest; return seconds by kernel name.

        `lists` has pairs of arrays: the spikes' sources and steps.
        """
        queue, integers = self.queue, partial(to_device, self.queue, dtype=np.int32)
        launchers = [_Launcher(queue, self.tables, spec, self.slots) for spec in self.candidates()]
        incoming = to_device(queue, np.zeros(self.slots * self.num_targets), np.int64)
        marks, new_spikes = integers(np.zeros(3)).data, []
        for source, step in lists:
            arrays = [integers(a).data for a in (source, step, [len(source)])]
            new_spikes.append((*arrays, max(1, len(source)), marks, 0))

        def all_lists(launch: _Launcher, _: int) -> list[cl.Event]:
            events = list[cl.Event]()
            for spikes in new_spikes:
                launch(spikes, incoming, range(steps))
                events += launch.events
            return events

        ways = [lambda launch=launch: partial(all_lists, launch) for launch in launchers]
        times = seconds_in_turns(queue, ways, budget=0, progress=False)
        self.seconds = {
            _name(c.spec): t / len(new_spikes) for c, t in zip(launchers, times, strict=True)
        }
        self._take(launchers[int(np.argmin(times))])
        return self.seconds

    def candidates(self) -> list[DeliverSpec]:
        """Return the specs among which ``auto`` chooses the fastest.

        Tiles of the targets have 2048 columns on CPUs, 256 or 2048 on GPUs.
        """
        on_cpu = devices.is_cpu(self.queue.device)
        specs = [self._spec("vpo")]
        for columns in (2048,) if on_cpu else (256, 2048):
            if self._room_for(columns) and 16 * columns <= self.queue.device.local_mem_size:
                specs += [self._spec("vsn", columns), self._spec("vssn", columns)]
        return [*dict.fromkeys(specs), self._spec("pull")]

    def _room_for(self, columns: int) -> bool:
        c = self.connections
        entries = c.num_sources * len(c.delays) * -(-self.num_targets // columns)
        return 0 < entries <= max(_SMALL, _TABLE_SHARE * c.count)

    def _spec(
        self, algorithm: str, columns: int | None = None, work_group: int | None = None
    ) -> DeliverSpec:
        if algorithm not in ALGORITHMS:
            raise InputError(
                f"algorithm={shown(algorithm)} is not known; expected auto, {', '.join(ALGORITHMS)}"
            )
        if algorithm != "pull" and not self.atomics:
            raise DeviceError(
                f"{self.queue.device.name.strip()} has no 64-bit atomics, which {shown(algorithm)} "
                "needs; use 'pull'"
            )
        on_cpu = devices.is_cpu(self.queue.device)
        most = 1 << (self.queue.device.max_work_group_size.bit_length() - 1)
        group = work_group or min(16 if on_cpu else 256, most)
        if algorithm in ("vpo", "pull"):
            return DeliverSpec(algorithm, group)
        if group & (group - 1):
            raise InputError(f"work_group is {group}; expected a power of two for {algorithm!r}")
        wide = columns or (2048 if on_cpu else 256)
        if 8 * wide > self.queue.device.local_mem_size:
            raise InputError(
                f"{wide} columns take {8 * wide} bytes of local memory; expected at most "
                f"{self.queue.device.local_mem_size}"
            )
        if not self._room_for(wide):
            raise InputError(
                f"{shown(algorithm)} with {wide} columns: too many chunks of sources, delays and "
                "targets for so few connections, or none; use 'vpo'"
            )
        lanes = group
        if algorithm == "vssn":
            c = self.connections
            filled = np.count_nonzero(np.diff(self.tables.chunks(wide)))
            mean = c.count / max(1, int(filled))
            lanes = min(group, 1 << math.ceil(math.log2(max(1.0, mean))))
        return DeliverSpec(algorithm, group, wide, lanes, len(self.connections.delays) == 1)


def _name(spec: DeliverSpec) -> str:
    return f"{spec.algorithm} {spec.columns}" if spec.columns else spec.algorithm


class _Launcher:
    """The kernels of one algorithm, with their tables and sizes; a call launches them."""

    def __init__(
        self, queue: cl.CommandQueue, tables: Tables, spec: DeliverSpec, slots: int
    ) -> None:
        self.queue, self.tables, self.spec, self.slots = queue, tables, spec, slots
        self.events: list[cl.Event] = []  # the last launch's kernel events
        c, context = tables.connections, queue.context
        per_unit = 2 if devices.is_cpu(queue.device) else 16
        self._groups = devices.limits(queue.device).compute_units * per_unit
        if spec.pulled:
            self._flag = program.kernel_of(context, spec, "flag")
            self._clear = program.kernel_of(context, spec, "clear")
            self._fired = to_device(queue, np.zeros(c.num_sources), np.int32)
            self._arguments = [a.data for a in tables.pulled]
        elif spec.algorithm == "vpo":
            longest = int(np.max(np.diff(c.row), initial=1))
            across = max(1, min(self._groups, -(-longest // spec.work_group)))
            self._grid = across, max(1, self._groups // across), 1
            self._arguments = [tables.row.data, tables.offset.data]
        else:
            columns = spec.columns
            self._grid = -(-c.num_targets // columns), 1, len(c.delays)
            chunks = to_device(queue, tables.chunks(columns), np.int32)
            self._arguments = [chunks.data, tables.delays.data, tables.target.data]
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
        across, along, deep = self._grid
        along = along if spec.algorithm == "vpo" else len(steps)
        sizes = (across * spec.work_group, along, deep), (spec.work_group, 1, 1)
        more = steps[0], len(steps), last_step, *numbers, *self._arguments, *sums
        event = self._deliver_kernel(self.queue, *sizes, *lists, *more)
        self.events = [event]
        return event

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
        self.events = []
        for begin in range(0, len(steps), FLAG_BITS):
            part = steps[begin : begin + FLAG_BITS]
            last = last_step if part[-1] == steps[-1] else -1
            more = *lists, part[0], len(part), last, fired
            self.events.append(self._flag(queue, items, group, *more))
            arguments = part[0], *numbers, fired, *self._arguments, *sums
            self.events.append(self._deliver_kernel(queue, targets, group, *arguments))
            sources = self.tables.connections.num_sources
            self.events.append(self._clear(queue, items, group, sources, fired))
        return self.events[-1]
