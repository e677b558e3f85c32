"""The engine of a batch larger than the memory of its device, which is solved in slices."""

from __future__ import annotations

import queue as channels
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from tqdm import tqdm

from clhines.core.errors import DeviceMemoryError
from clhines.solver.device import copies
from clhines.solver.engines.engine import DeviceOrder, SolveEngine, nothing_solved
from clhines.solver.engines.hosted import FinishOnError, Transfer
from clhines.solver.engines.loaded import Resident, only_event
from clhines.solver.engines.memory import (
    STAGES,
    Buffer,
    Buffers,
    Memory,
    Room,
    pipeline_bytes,
    shared_buffers,
    size_text,
    slot_buffers,
)
from clhines.solver.engines.pivots import BadPivots
from clhines.solver.engines.whole import Whole, memory_of
from clhines.solver.forest import Forest
from clhines.solver.plan.plan import Plan

_POLL = 0.1  # s, between two looks whether another stage has failed
_T = TypeVar("_T")


@dataclass(eq=False)
class _SliceRoom:
    """Room for a slice on the device, in natural order."""

    buffers: Buffers
    resident: Resident | None = None  # of its slice: at most one a slot is on the device
    solved: channels.SimpleQueue[cl.Event] = field(default_factory=channels.SimpleQueue)
    drained: channels.SimpleQueue[None] = field(default_factory=channels.SimpleQueue)


@dataclass(eq=False)
class _SliceRows:
    """Some rows of a slice, on their way."""

    number: int
    rows: slice
    slot: _SliceRoom
    last: bool  # of the slice's rows
    sent: Callable[[], list[cl.Event]]  # waits until all that it needs is on its way
    events: list[cl.Event] = field(default_factory=list)

    @property
    def resident(self) -> Resident:
        assert self.slot.resident is not None
        return self.slot.resident


class _StoppedError(Exception):
    """Another stage has failed."""


class SlicedEngine(SolveEngine):
    """Engine: slices of whole cells, through a pipeline unless they are too large for several."""

    def __init__(
        self,
        forest: Forest,
        plans: list[Plan],
        bounds: np.ndarray,
        queue: cl.CommandQueue,
        dtype: np.dtype,
        room: Room,
    ) -> None:
        self.forest, self.plans, self.bounds = forest, plans, bounds
        self.plan, self.queue, self.dtype, self.room = plans[0], queue, dtype, room
        self.num_slices, self.transfer = len(plans), Transfer(queue, dtype)
        self.pipeline: Pipeline | None = None
        self.kernel_events: list[cl.Event] = []
        self._bad: BadPivots | None = None

    @property
    def several_fit(self) -> bool:
        """Whether the slices are small enough for a pipeline of them."""
        return all(self.room.fits(plan, STAGES) for plan in self.plans)

    @property
    def rows_at_once(self) -> int:
        return min(self.room.rows_at_once(plan, STAGES) for plan in self.plans)

    @property
    def memory(self) -> list[Memory]:
        if not self.several_fit:
            return [memory_of(self.plans, self.room, self.transfer)]
        pinned = copies.pinned_bytes() if copies.helps(self.queue.device) else 0
        device_bytes = pipeline_bytes(self.plans, self.dtype, 4, self.rows_at_once)
        return [Memory(device_bytes, 2 * pinned, self.num_slices)]

    def device_order(self, what: str) -> DeviceOrder:
        raise DeviceMemoryError(
            f"{what} needs the whole batch on the device: "
            f"{size_text(sum(map(self.room.needed, self.plans)))}, where "
            f"{size_text(self.room.memory)} may be taken; use solve() with NumPy arrays, which "
            f"works in {self.num_slices} slices"
        )

    def bad_pivots(self) -> BadPivots:
        if self._bad is None:
            raise nothing_solved()
        return self._bad

    def solve_host(self, arrays: dict[str, np.ndarray], target: np.ndarray) -> None:
        with FinishOnError(self.queue):
            if not self.several_fit:
                self._bad = self._one_by_one(arrays, target)
                return
            if self.pipeline is None:
                arguments = self.forest, self.plans, self.bounds, self.queue, self.dtype
                self.pipeline = Pipeline(*arguments, self.rows_at_once)
            self._bad = self.pipeline.solve(arrays, target)

    def _one_by_one(self, arrays: dict[str, np.ndarray], target: np.ndarray) -> BadPivots:
        pivots = []
        for k, plan in enumerate(tqdm(self.plans, "slices", disable=None, leave=False)):
            cells = self.bounds[k : k + 2]
            nodes = slice(*self.forest.cell_offsets[cells].tolist())
            one = Whole(plan, self.queue, self.dtype, self.room, self.transfer)
            system = {name: a[..., nodes] for name, a in arrays.items()}
            one.solve_host(system, target[..., nodes])
            pivots.append(one.bad_pivots().moved(int(cells[0]), nodes.start))
            del one  # with its buffers, before the next one takes others
        return BadPivots.joined(pivots)


class Pipeline:
    """Solves slices from NumPy to NumPy: one is copied in, one solved, one copied out.

    Each stage has a queue and a thread of its own; the slices take turns in three slots of device
    memory. `compute` False leaves out the solves, to time the copies alone.
    """

    def __init__(
        self,
        forest: Forest,
        plans: Sequence[Plan],
        bounds: np.ndarray,
        queue: cl.CommandQueue,
        dtype: np.dtype,
        rows_at_once: int,
    ) -> None:
        self.forest, self.plans, self.bounds = forest, plans, bounds
        self.queue, self.dtype, self.rows_at_once = queue, dtype, rows_at_once
        self.compute = True
        pinned = copies.helps(queue.device)
        self.in_queue, self.out_queue = (
            cl.CommandQueue(queue.context, queue.device) for _ in range(2)
        )
        staging: type[copies.PinnedCopies | copies.DirectCopies] = (
            copies.PinnedCopies if pinned else copies.DirectCopies
        )
        self.sending, self.fetching = staging(self.in_queue), staging(self.out_queue)
        self._resident: Resident | None = None

    @property
    def pinned_bytes(self) -> int:
        return int(self.sending.pinned_bytes + self.fetching.pinned_bytes)

    def solve(self, arrays: dict[str, np.ndarray], target: np.ndarray) -> BadPivots:
        rows = {name: np.atleast_2d(a) for name, a in arrays.items()}
        try:
            pivots = _Stages(self, rows, np.atleast_2d(target)).all_stages()
        finally:
            if self._resident is not None:
                self._resident.take_factor(None)  # which was the run's
        return BadPivots.joined(pivots)

    def nodes(self, k: int) -> slice:
        return slice(*self.forest.cell_offsets[self.bounds[k : k + 2]].tolist())

    def resident_of(self, k: int, num_operands: int) -> Resident:
        """Tables and kernels of a slice, copied to the device while others are solved."""
        plan = self.plans[k]
        if self._resident is None or self._resident.plan is not plan:
            self._resident = None  # before the next takes as much, unless a slot still needs it
            resident = Resident(plan, self.in_queue, self.dtype)
            resident.prepare(num_operands)
            self.in_queue.finish()
            resident.move_to(self.queue)
            self._resident = resident
        return self._resident


class _Stages:
    """One solve of a `Pipeline`: its device memory, and the queues between its stages."""

    def __init__(
        self, pipeline: Pipeline, arrays: dict[str, np.ndarray], target: np.ndarray
    ) -> None:
        self.pipeline, self.arrays, self.target = pipeline, arrays, target
        self.queue, self.dtype, self.plans = pipeline.queue, pipeline.dtype, pipeline.plans
        self.step = min(pipeline.rows_at_once, len(target))
        self.num_jobs = -(-len(target) // self.step) * len(self.plans)
        self.stop = threading.Event()
        self.free: channels.SimpleQueue[_SliceRoom] = channels.SimpleQueue()
        self.ready: channels.SimpleQueue[_SliceRows] = channels.SimpleQueue()
        self.done: channels.SimpleQueue[_SliceRows] = channels.SimpleQueue()
        for _ in range(min(STAGES, len(self.plans))):
            self.free.put(_SliceRoom(self._allocate(slot_buffers)))
        self.packed = self._allocate(shared_buffers)
        self.factor = self.packed["factor"] if "factor" in self.packed.listed else None
        self.queue.finish()

    def _allocate(self, list_of: Callable[..., list[Buffer]]) -> Buffers:
        buffers = Buffers(list_of(self.plans, self.dtype, len(self.arrays), self.step), self.queue)
        for name in buffers.listed:
            _ = buffers[name]
        return buffers

    def all_stages(self) -> list[BadPivots]:
        pivots: list[BadPivots] = []
        errors: list[BaseException | None] = []
        with (
            tqdm(total=len(self.plans), desc="slices", disable=None, leave=False) as bar,
            ThreadPoolExecutor(2, "clhines-slices") as pool,
        ):
            others = [pool.submit(self._guarded, self._bring)]
            others += [pool.submit(self._guarded, partial(self._take, pivots, bar))]
            try:
                self._guarded(self._solve)
            except BaseException as error:
                errors.append(error)
            errors += [stage.exception() for stage in others]
        self.pipeline.sending.drain()
        for queue in (self.pipeline.in_queue, self.queue, self.pipeline.out_queue):
            try:
                queue.finish()
            except cl.Error as error:  # usually the error that a stage has raised already
                errors.append(error)
        real = [e for e in errors if e is not None and not isinstance(e, _StoppedError)]
        try:
            if real:
                raise real[0]
            return pivots
        finally:  # an error holds this frame, which would hold the error, and device memory
            del errors, others, real

    def _guarded(self, stage: Callable[[], None]) -> None:
        try:
            stage()
        except BaseException:
            self.stop.set()
            raise

    def _get(self, channel: channels.SimpleQueue[_T]) -> _T:
        while True:
            try:
                return channel.get(timeout=_POLL)
            except channels.Empty:
                if self.stop.is_set():
                    raise _StoppedError from None

    # -- stages --------------------------------------------------------------------------------

    def _bring(self) -> None:
        pipeline, b = self.pipeline, self.arrays["b"]
        for k in range(len(self.plans)):
            slot, nodes = self._get(self.free), pipeline.nodes(k)
            slot.resident = None  # that of the slice before, which is done
            slot.resident = pipeline.resident_of(k, len(self.arrays))
            targets = [
                ([a[0, nodes]], slot.buffers[name].base_data)
                for name, a in self.arrays.items()
                if name != "b"
            ]
            for first in range(0, len(b), self.step):
                rows = slice(first, min(first + self.step, len(b)))
                before = [self._get(slot.solved)] if first else None  # with the rows before these
                some = [row[nodes] for row in b[rows]], slot.buffers["b"].base_data
                sent = pipeline.sending.start([*targets, some], before)
                self.ready.put(_SliceRows(k, rows, slot, rows.stop == len(b), sent))
                targets = []  # stays where it is

    def _solve(self) -> None:
        for _ in range(self.num_jobs):
            job = self._get(self.ready)
            job.events = job.sent()
            if job.rows.start:
                self._get(job.slot.drained)  # of the rows before these
            if self.pipeline.compute:
                event = self._launch(job)
            else:
                event = cl.enqueue_marker(self.queue, wait_for=job.events)
            job.events = [event, self._status_copied(job)]
            self.queue.flush()
            if not job.last:
                job.slot.solved.put(event)
            self.done.put(job)

    def _status_copied(self, job: _SliceRows) -> cl.Event:
        """Enqueue a copy of the status to the slot; a stage that waits must hold no array."""
        status, room = job.resident.status, job.slot.buffers["status"].base_data
        return cl.enqueue_copy(self.queue, room, status.base_data, byte_count=status.nbytes)

    def _launch(self, job: _SliceRows) -> cl.Event:
        resident, plan = job.resident, job.resident.plan
        resident.take_factor(self.factor)
        arrays = self._views(job, job.slot.buffers, plan.forest.num_nodes)
        x = arrays.pop("x")
        if resident.takes_natural:
            return resident.solve(list(arrays.values()), x, job.events, natural=True)[-1]
        packed = self._views(job, self.packed, plan.packed_size)
        for a in arrays.values():
            a.events[:] = job.events
        for name, a in arrays.items():
            resident.permute(a, packed[name], True)
        out = packed.pop("x")
        run = resident.solve(list(packed.values()), out, [])
        only_event(out, run[-1])
        return resident.permute(out, x, False).events[-1]

    def _views(self, job: _SliceRows, buffers: Buffers, size: int) -> dict[str, cla.Array]:
        """Arrays of a job in device memory that may be larger."""
        rows = (job.rows.stop - job.rows.start,) if len(self.target) > 1 else ()
        names = [*self.arrays, "x"]
        return {k: buffers.view(k, (*rows, size) if k in "bx" else (size,)) for k in names}

    def _take(self, pivots: list[BadPivots], bar: tqdm) -> None:
        pipeline = self.pipeline
        for _ in range(self.num_jobs):
            job = self._get(self.done)
            nodes = pipeline.nodes(job.number)
            rows = [row[nodes] for row in self.target[job.rows]]
            pipeline.fetching.fetch(job.slot.buffers["x"].base_data, rows, job.events)
            if not job.last:
                job.slot.drained.put(None)
                continue
            status = np.empty(job.resident.plan.forest.num_cells, np.int32)
            cl.enqueue_copy(pipeline.out_queue, status, job.slot.buffers["status"].base_data)
            bad = job.resident.bad_of(status)
            self.free.put(job.slot)
            pivots.append(bad.moved(int(pipeline.bounds[job.number]), nodes.start))
            bar.update()
