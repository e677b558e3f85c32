"""Launches of epochs on GPUs: a kernel for each plan's cells, and the kernel `publish`."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.simulator.device import launches
from clhines.simulator.device.reads import copy_onto, part_of
from clhines.simulator.gpu.lists import NodeLists
from clhines.simulator.gpu.plan import EpochPlan
from clhines.simulator.gpu.spec import EpochSpec
from clhines.simulator.state.changes import Storage
from clhines.solver.device import program

_MOST_JOINED = 1 << 18  # ints in all tables of a plan: of larger ones, no launch is short
_TURN = threading.Lock()
_LAST: dict[cl.Device, tuple[cl.CommandQueue, cl.Event]] = {}  # last launch with meeting groups


@dataclass(eq=False)
class PlanLaunch:
    """The kernel that advances one plan's cells (cells of similar size), and its arguments.

    `given` has the arguments that only this plan's kernel gets, such as its tables.
    """

    plan: EpochPlan
    given: dict[str, Any]
    spec: EpochSpec
    kernel: launches.BoundKernel | None = None

    @property
    def lists(self) -> NodeLists | None:
        return self.plan.lists

    def given_to(self, k: int, name: str) -> str:
        """Return the kernel's expression for parameter `name` of mechanism `k`.

        It is empty if the kernel reads the parameter from the arena ``mem``.
        """
        if self.plan.lists is None:
            return ""
        for role, argument, expression in self.spec.lists[k].given:
            if argument == name and role == "parameter":
                return expression
        return ""

    def storage(self, k: int, name: str) -> Storage:
        assert self.lists is not None
        offset, places = self.lists.numbers.places_of(k, name)
        return Storage(self.given["node_values"], offset, (k, id(self)), lambda: places)

    def bind(self, queue: cl.CommandQueue, arguments: dict[str, Any]) -> launches.BoundKernel:
        """Build the kernel for the present records; return it with all arguments set."""
        spec, arguments = self.spec, {**arguments, **self.given}
        spec = replace(spec, whole=bool(arguments["whole"]))
        if spec.in_steps:
            spec = replace(spec, samples=bool(arguments["num_mem"]))
        names = [p.name for p in spec.parameters("advance") if p.type == spec.table]
        tables = {name: arguments[name] for name in names}
        if sum(table.size for table in tables.values()) <= _MOST_JOINED:
            spec = replace(spec, joined=tuple(names))
            arguments |= _joined(tables, queue)
        self._launch = struct.Struct(f"{len(spec.of_launch)}i")
        arguments["launch"] = self._launch.pack(*[0] * len(spec.of_launch))
        built = program.build(queue.context, spec)
        changes = "launch", *("numbers",) * spec.by_node
        self.kernel = launches.bind(built, spec, "advance", arguments, changes)
        self._work_group = self.plan.spec.work_group
        self._items, self._meets = self.plan.groups * self._work_group, self.spec.meets
        return self.kernel

    def change(self, kernel: launches.BoundKernel, *steps: int, begins: bool) -> None:
        if self.spec.ends_later:
            steps = *steps, begins, not begins
        elif self.spec.by_node:
            steps = *steps, begins
        numbers = (self.given["numbers"],) if self.spec.by_node else ()
        kernel.change(self._launch.pack(*steps), *numbers)

    def launch(self, queue: cl.CommandQueue, waits: list[cl.Event] | None = None) -> cl.Event:
        assert self.kernel is not None
        if self._meets:
            return _launch_in_turn(self.kernel, queue, self._items, self._work_group)
        return self.kernel.launch(queue, self._items, self._work_group, waits)


class CellLaunches:
    """Launch all plans' kernels: the first `leading` ones in turn, then the others together.

    `each` has a launch for each plan. `regions` is a struct with the arena regions' offsets.
    """

    regions: Any

    def __init__(self, queue: cl.CommandQueue, each: list[PlanLaunch], leading: int) -> None:
        self.queue, self.each = queue, each
        self.leading, self._following = each[:leading], each[leading:]
        self._publisher: launches.BoundKernel | None = None

    @property
    def at_sites(self) -> list[PlanLaunch]:
        return [launch for launch in self.each if launch.lists is None]

    @property
    def with_lists(self) -> list[tuple[PlanLaunch, NodeLists]]:
        return [(launch, launch.lists) for launch in self.each if launch.lists is not None]

    @cached_property
    def _beside(self) -> launches.SideBySide | None:
        if any(launch.spec.meets for launch in self.each):
            return None  # work-groups that wait for each other need the device alone
        return launches.SideBySide(self.queue, len(self._following))

    def set_regions(self, names: Sequence[str], at: np.ndarray) -> None:
        self.regions = _struct_of(names, at.tolist())

    def bind(self, arguments: dict[str, Any], num_sources: int) -> None:
        """Set all kernels' arguments by name; each kernel is built at its first launch.

        `num_sources` is the number of event sources, for the kernel `publish`.
        """
        self._arguments = {**arguments, "regions": self.regions}
        self.num_sources, self._publisher = num_sources, None
        for launch in self.each:
            launch.kernel = None

    def advance(self, first: int, count: int, begin: int, row: int, begins: bool) -> None:
        """Enqueue `count` steps from step `first` on, in one launch of each plan's kernel.

        `begin` is the step whose time is first in the device's array of times; `row` is the record
        row of step `first`. `begins`: the steps begin an epoch.
        """
        for launch in self.each:
            kernel = launch.kernel or launch.bind(self.queue, self._arguments)
            launch.change(kernel, first, count, begin, row, begins=begins)
        for launch in self.leading:
            launch.launch(self.queue)
        if count > 1 and self._following and self._beside is not None:
            self._beside.launch([launch.launch for launch in self._following])
            return
        for launch in self._following:
            launch.launch(self.queue)

    def publish(self) -> None:
        """Make all events that were sent so far visible to their targets."""
        if self._publisher is None:
            spec = self.each[0].spec
            built = program.build(self.queue.context, spec)
            arguments = {**self._arguments, "num_sources": np.int32(self.num_sources)}
            self._publisher = launches.bind(built, spec, "publish", arguments)
        self._publisher.launch_columns(self.queue, self.num_sources, 1)


def _struct_of(names: Iterable[str], values: Iterable[int]) -> np.void:
    """Return a kernel's argument: a struct with these ints."""
    one: Any = np.array(tuple(values), [(name, np.int32) for name in names])
    struct_of: np.void = one[()]
    return struct_of


def _joined(tables: dict[str, cla.Array], queue: cl.CommandQueue) -> dict[str, Any]:
    """Copy tables into one array; return it, and where each table begins, as arguments."""
    ends = np.cumsum([table.size for table in tables.values()]).tolist()
    joined, begins = cla.empty(queue, ends[-1], np.int32), [0, *ends[:-1]]
    for table, begin, end in zip(tables.values(), begins, ends, strict=True):
        copy_onto(part_of(joined, begin, end), table, queue)
    return {"tables": joined, "begins": _struct_of(tables, begins)}


def _launch_in_turn(
    kernel: launches.BoundKernel, queue: cl.CommandQueue, items: int, group: int
) -> cl.Event:
    """Enqueue a kernel whose work-groups wait for each other, so that all must be resident.

    `items` is its work-item count, `group` the work-group size. The kernel starts after the last
    such kernel has ended, even one on another queue.
    """
    with _TURN:
        before, event = _LAST.get(queue.device, (queue, None))
        elsewhere = before != queue and before.context == queue.context
        if elsewhere:
            before.flush()
        waits = elsewhere and event and event.command_execution_status > 0  # it has not ended
        done = kernel.launch(queue, items, group, [event] if waits else None)
        _LAST[queue.device] = queue, done
    return done
