"""Slices: a batch larger than the memory, planned in parts and solved in a pipeline of queues."""

from __future__ import annotations

import queue as channels
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from tqdm import tqdm

from clhines import staging
from clhines.forest import Forest
from clhines.parts import Plan
from clhines.resident import Resident, make_resident

STAGES = 3  # slices on the device: one comes in, one is solved, one goes out
_PERIODS = 64  # places where a pattern of shapes may begin again that are looked at
_POLL = 0.1  # s, between two looks whether another stage has failed


# ------------------------------------------------------------------------------------- planning


def plan_slices(
    forest: Forest, count: int, plan: Callable[[Forest], Plan], fits: Callable[[int, Plan], bool]
) -> tuple[list[Plan], np.ndarray]:
    """Plan a batch in slices of whole cells, about `count` or more where these do not fit.

    Where the shapes of the cells repeat, slices are cut so that they have one plan.

    Parameters
    ----------
    fits : callable
        ``fits(cell, plan)``: whether a slice that begins with that cell fits; raises where it is
        one cell, which cannot be made smaller.

    Returns
    -------
    plans : list of Plan
    bounds : (len(plans) + 1,) int64
        First cell of each slice, and the end.
    """
    made: dict[tuple[int, int], Plan] = {}
    period = _period(forest.shape_of_cell)

    def plan_of(lo: int, hi: int) -> Plan:
        key = lo % period, hi - lo
        if key not in made:
            whole = hi - lo == forest.num_cells
            made[key] = plan(forest if whole else forest.take(np.arange(lo, hi)))
        return made[key]

    edges = _even_cuts(forest, count)
    per_slice = forest.num_cells // count // period * period
    while per_slice:
        if fits(0, plan_of(0, per_slice)):
            edges = np.append(np.arange(0, forest.num_cells, per_slice), forest.num_cells)
            break
        per_slice = per_slice * 4 // 5 // period * period
    waiting = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))[::-1]
    plans, bounds = [], [0]
    while waiting:
        lo, hi = waiting.pop()
        if fits(lo, plan_of(lo, hi)):
            plans.append(plan_of(lo, hi))
            bounds.append(hi)
            continue
        # padding and tables take more than the estimate: halve this slice
        middle = forest.cell_offsets[[lo, hi]].mean()
        half = int(np.searchsorted(forest.cell_offsets, middle))
        half = min(max(half, lo + 1), hi - 1)
        waiting += [(half, hi), (lo, half)]
    return plans, np.array(bounds)


def _even_cuts(forest: Forest, count: int) -> np.ndarray:
    """First cells of at most `count` slices with about as many nodes each, and the end."""
    targets = forest.num_nodes * np.arange(1, count) / count
    cuts = np.searchsorted(forest.cell_offsets, targets)
    return np.unique(np.concatenate(([0], cuts, [forest.num_cells])))


def _period(shapes: np.ndarray) -> int:
    """After how many cells the shapes begin again; their number where they do not."""
    count = len(shapes)
    for k in (np.flatnonzero(shapes[1:] == shapes[0])[:_PERIODS] + 1).tolist():
        begin = min(k, count - k)
        if np.array_equal(shapes[k : k + begin], shapes[:begin]) and np.array_equal(
            shapes[k:], shapes[:-k]
        ):
            return k
    return count


# ------------------------------------------------------------------------------------- pipeline


@dataclass(frozen=True)
class Memory:
    """What the solves of a batch take on one device, at most.

    Attributes
    ----------
    device : int
        Bytes of device memory: values in both orders, factors, tables.
    pinned : int
        Bytes of pinned host memory, through which values are copied.
    slices : int
        In which the batch is solved.
    """

    device: int
    pinned: int
    slices: int

    def __str__(self) -> str:
        text = f"{self.device / 2**20:.1f} MiB on the device"
        text += f", {self.pinned / 2**20:.1f} MiB of pinned host memory" if self.pinned else ""
        return text + (f", in {self.slices} slices" if self.slices > 1 else "")


def bytes_needed(plans: Sequence[Plan], itemsize: int, rows: int) -> int:
    """Device memory that a `Pipeline` takes at most: unsymmetric, so many rows at once."""
    most = max(plan.forest.num_nodes for plan in plans)
    cells = max(plan.forest.num_cells for plan in plans)
    packed = max(plan.packed_size for plan in plans)
    natural = all(part.takes_natural for plan in plans for part in plan.parts)
    slots = min(STAGES, len(plans))
    arrays = 3 + 2 * rows  # d, u, l; b, x
    values = slots * arrays * most + (0 if natural else arrays * packed)
    values += packed if any(plan.needs_factor for plan in plans) else 0
    tables = 0
    for plan in plans:
        scratch = sum(plan.scratch) * itemsize * 5
        here = plan.bytes_needed(itemsize, 0) + scratch + 4 * plan.forest.num_cells
        if natural:
            shapes = plan.forest.trees
            here += 4 * (len(shapes.parent) * 2 + 4 * plan.forest.num_cells)
        tables = max(tables, here)
    different = min(2, len({id(plan) for plan in plans}))  # that in use, and the next
    return values * itemsize + slots * 4 * cells + different * tables


@dataclass(eq=False)
class _Slot:
    """Room for a slice on the device, in natural order."""

    buffers: dict[str, cla.Array]
    status: cla.Array
    solved: channels.SimpleQueue = field(default_factory=channels.SimpleQueue)
    drained: channels.SimpleQueue = field(default_factory=channels.SimpleQueue)


@dataclass(eq=False)
class _Job:
    """Some rows of a slice, on their way."""

    number: int
    rows: slice
    slot: _Slot
    resident: Resident
    last: bool  # of the slice's rows
    events: list[cl.Event]


class _StoppedError(Exception):
    """Another stage has failed."""


class Pipeline:
    """Solves slices from NumPy to NumPy: one is copied in, one solved, one copied out.

    Each stage has a queue and a thread of its own; three slices take turns in three slots of device
    memory, so that no memory is taken or given back on the way.

    Parameters
    ----------
    forest : Forest
    plans, bounds
        Of `plan_slices`.
    queue : pyopencl.CommandQueue
        Solves; copies have their own.
    dtype : float64 or float32
    rows_at_once : int
        Right-hand sides of a slice that are on the device at once.
    compute : bool
        False leaves out the solves, to time the copies alone.
    pinned : bool, optional
        Copy through pinned memory; default: where that helps.
    """

    def __init__(
        self,
        forest: Forest,
        plans: Sequence[Plan],
        bounds: np.ndarray,
        queue: cl.CommandQueue,
        dtype: np.dtype,
        rows_at_once: int,
        pinned: bool | None = None,
    ) -> None:
        self.forest, self.plans, self.bounds = forest, plans, bounds
        self.queue, self.dtype, self.step = queue, dtype, rows_at_once
        self.compute = True
        pinned = staging.helps(queue.device) if pinned is None else pinned
        self._queues = [cl.CommandQueue(queue.context, queue.device) for _ in range(2)]
        self._in, self._out = (staging.make_staging(q, pinned) for q in self._queues)
        self._resident: tuple[Plan, Resident] | None = None

    @property
    def pinned_bytes(self) -> int:
        """Pinned host memory that it has taken."""
        return int(self._in.pinned_bytes + self._out.pinned_bytes)

    def solve(
        self, arrays: dict[str, np.ndarray], target: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Solve; returns the cells with bad pivots and these nodes, in the numbers of the batch.

        Parameters
        ----------
        arrays : dict of d, u, (l), b to (n,) arrays; b may be (k, n)
        target : like b
        """
        self.arrays = {name: np.atleast_2d(a) for name, a in arrays.items()}
        self.target = np.atleast_2d(target)
        self._open()
        found: list[tuple[np.ndarray, np.ndarray]] = []
        with (
            tqdm(total=len(self.plans), desc="slices", disable=None, leave=False) as bar,
            ThreadPoolExecutor(2, "clhines-slices") as pool,
        ):
            stages = [pool.submit(self._guarded, self._bring)]
            stages += [pool.submit(self._guarded, self._take, found, bar)]
            error = None
            try:
                self._guarded(self._solve)
            except BaseException as caught:
                error = caught
            errors = [error, *(stage.exception() for stage in stages)]
        for q in (*self._queues, self.queue):
            try:
                q.finish()
            except cl.Error as late:  # mostly what a stage has met already
                errors.append(late)
        self._close()
        real = [e for e in errors if e is not None and not isinstance(e, _StoppedError)]
        if real:
            raise real[0]
        cells, nodes = zip(*found, strict=True)
        return np.concatenate(cells), np.concatenate(nodes)

    def _open(self) -> None:
        """Take device memory for all slices."""
        names = [*self.arrays, "x"]
        most = max(plan.forest.num_nodes for plan in self.plans)
        cells = max(plan.forest.num_cells for plan in self.plans)
        self.step = min(self.step, len(self.arrays["b"]))
        rows = {name: self.step if name in "bx" else 1 for name in names}
        self._slots = [
            _Slot(
                {n: cla.empty(self.queue, rows[n] * most, self.dtype) for n in names},
                cla.empty(self.queue, cells, np.int32),
            )
            for _ in range(min(STAGES, len(self.plans)))
        ]
        natural = all(part.takes_natural for plan in self.plans for part in plan.parts)
        packed = max(plan.packed_size for plan in self.plans)
        names = [] if natural else names
        self._packed = {n: cla.empty(self.queue, rows[n] * packed, self.dtype) for n in names}
        needs = any(plan.needs_factor for plan in self.plans)
        self._factor = cla.empty(self.queue, packed, self.dtype) if needs else None
        self._free: channels.SimpleQueue = channels.SimpleQueue()
        self._ready: channels.SimpleQueue = channels.SimpleQueue()
        self._done: channels.SimpleQueue = channels.SimpleQueue()
        for slot in self._slots:
            self._free.put(slot)
        self._stop = threading.Event()
        self.queue.finish()

    def _close(self) -> None:
        del self._slots, self._packed, self._factor, self.arrays, self.target

    def _guarded(self, stage: Callable[..., None], *arguments: Any) -> None:
        try:
            stage(*arguments)
        except BaseException:
            self._stop.set()
            raise

    def _get(self, channel: channels.SimpleQueue) -> Any:
        while True:
            try:
                return channel.get(timeout=_POLL)
            except channels.Empty:
                if self._stop.is_set():
                    raise _StoppedError from None

    def _nodes(self, k: int) -> slice:
        return slice(*self.forest.cell_offsets[self.bounds[k : k + 2]].tolist())

    # -- stages --------------------------------------------------------------------------------

    def _bring(self) -> None:
        """Copy slice after slice to the device."""
        b = self.arrays["b"]
        for k in range(len(self.plans)):
            resident, nodes = self._resident_of(k), self._nodes(k)
            slot = self._get(self._free)
            events = []
            for name, a in self.arrays.items():
                if name != "b":
                    events += self._in.send([a[0, nodes]], slot.buffers[name].base_data)
            for first in range(0, len(b), self.step):
                rows = slice(first, min(first + self.step, len(b)))
                before = [self._get(slot.solved)] if first else None  # with the rows before these
                some = [row[nodes] for row in b[rows]]
                events = events + self._in.send(some, slot.buffers["b"].base_data, before)
                self._queues[0].flush()
                last = rows.stop == len(b)
                self._ready.put(_Job(k, rows, slot, resident, last, events))
                events = []

    def _resident_of(self, k: int) -> Resident:
        """Tables and kernels of a slice, put on the device while others are solved."""
        plan = self.plans[k]
        if self._resident is None or self._resident[0] is not plan:
            resident = make_resident(plan, self._queues[0], self.dtype)
            resident.prepare(len(self.arrays))
            self._queues[0].finish()
            resident.move_to(self.queue)
            self._resident = plan, resident
        return self._resident[1]

    def _solve(self) -> None:
        """Enqueue the solves of all slices."""
        count = -(-len(self.arrays["b"]) // self.step) * len(self.plans)
        for _ in range(count):
            job = self._get(self._ready)
            if job.rows.start:
                self._get(job.slot.drained)  # of the rows before these
            event = self._launch(job) if self.compute else self._no_launch(job)
            status, most = job.resident.status, job.slot.status
            copied = cl.enqueue_copy(
                self.queue, most.base_data, status.base_data, byte_count=status.nbytes
            )
            self.queue.flush()
            job.events = [event, copied]
            if not job.last:
                job.slot.solved.put(event)
            self._done.put(job)

    def _launch(self, job: _Job) -> cl.Event:
        """Enqueue the solve of a slice that is on the device; returns the last event."""
        resident, plan = job.resident, job.resident.plan
        count, several = job.rows.stop - job.rows.start, self.arrays["b"].shape[0] > 1
        resident.take_factor(self._factor)

        def view(name: str, room: cla.Array, size: int) -> cla.Array:
            shape = (count, size) if several and name in "bx" else (size,)
            return cla.Array(self.queue, shape, self.dtype, data=room.base_data)

        size = plan.forest.num_nodes
        given = {name: view(name, room, size) for name, room in job.slot.buffers.items()}
        x = given.pop("x")
        if resident.takes_natural:
            return resident.solve(list(given.values()), x, job.events, natural=True)[-1]
        for a in given.values():
            a.events[:] = job.events
        packed = {n: view(n, room, plan.packed_size) for n, room in self._packed.items()}
        for name, a in given.items():
            turned = given.get("l" if name == "u" else "u", a) if name in ("u", "l") else None
            resident.permute(a, packed[name], True, turned)
        out = packed.pop("x")
        run = resident.solve(list(packed.values()), out, [])
        out.events[:] = [run[-1]]
        return resident.permute(out, x, False).events[-1]

    def _no_launch(self, job: _Job) -> cl.Event:
        return cl.enqueue_marker(self.queue, wait_for=job.events)

    def _take(self, found: list[tuple[np.ndarray, np.ndarray]], bar: Any) -> None:
        """Copy slice after slice back."""
        count = -(-len(self.target) // self.step) * len(self.plans)
        for _ in range(count):
            job = self._get(self._done)
            nodes = self._nodes(job.number)
            rows = [row[nodes] for row in self.target[job.rows]]
            self._out.fetch(job.slot.buffers["x"].base_data, rows, job.events)
            if not job.last:
                job.slot.drained.put(None)
                continue
            status = np.empty(job.resident.plan.forest.num_cells, np.int32)
            cl.enqueue_copy(self._queues[1], status, job.slot.status.base_data)
            self._free.put(job.slot)
            cells, bad = job.resident.bad_of(status)
            found.append((cells + self.bounds[job.number], bad + nodes.start))
            bar.update()
