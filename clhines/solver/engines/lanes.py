"""The engine for chains on a CPU: a chain per lane of a vector, and reusable eliminated matrices.

The kernels of ``lanes.mako`` use natural order; their tables have a few numbers per chain instead
of one per row. They solve with factors, and solve a few long chains, for which no plan is made
before it is needed. The usual engine, `make_usual`, does everything else.

Factors are the eliminated matrix. For small batches b and x are copied to memory that kernels and
host share (fine-grained SVM). So the kernel's arguments never change, and one work-item solves: a
single thread of the device has to wake up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.solver.device import copies, devices, program
from clhines.solver.device.arrays import set_soon, to_device, values_of, within_reach
from clhines.solver.engines.engine import DeviceOrder, EliminatedMatrix, SolveEngine, nothing_solved
from clhines.solver.engines.hosted import finish_on_error
from clhines.solver.engines.loaded import Step
from clhines.solver.engines.memory import Buffer, KeptBuffers, Memory, total
from clhines.solver.engines.pivots import NO_PIVOTS, BadPivots
from clhines.solver.forest import Forest
from clhines.solver.plan.by_cell.lanes import ChainBlocks, LanesSpec, lanes_spec
from clhines.solver.plan.kernel_spec import STATUS
from clhines.solver.plan.plan import Limits, Plan, real_name
from clhines.solver.plan.templates import render

_ITEMS = 4  # work-items per core
_ITEM_VALUES = 1 << 16  # least values per work-item: to wake a thread takes as long
_SMALL_VALUES = 1 << 16  # most values in b that are copied to shared memory
_MOST_RHS = 4  # most right-hand sides for a chain without lanes; `ManySolve` has more in lanes


class ChainKernels:
    """The kernels for chains in `blocks`, with the tables and buffers that all calls share."""

    def __init__(
        self,
        forest: Forest,
        blocks: ChainBlocks,
        limits: Limits,
        dtype: np.dtype,
        queue: cl.CommandQueue,
    ) -> None:
        self.forest, self.blocks, self.dtype, self.queue = forest, blocks, dtype, queue
        self._limits = limits
        tables = {
            "block_first": blocks.first,
            "lane_first": forest.cell_offsets[blocks.chain],
            "lane_chain": blocks.chain,
        }
        if blocks.ragged:
            tables["lane_rows"] = forest.sizes[blocks.chain]
        self._tables = {k: to_device(queue, a, np.int32).base_data for k, a in tables.items()}
        self.not_finite = within_reach(queue, (1,), np.dtype(np.int32))
        self._room = KeptBuffers(queue)
        self._copied = {name: KeptBuffers(queue) for name in ("d", "u", "l", "b", "x")}
        self._kernels: dict[tuple[str, bool], program.NamedKernel] = {}

    def spec(self, symmetric: bool) -> LanesSpec:
        return lanes_spec(real_name(self.dtype), self._limits, self.blocks, symmetric)

    def matrix_buffers(self, symmetric: bool) -> list[Buffer]:
        names = ("inverse", "low") if symmetric else ("inverse", "low", "up")
        return [Buffer(name, self.blocks.size, self.dtype) for name in names]

    def new_status(self) -> cla.Array:
        cells = (self.forest.num_cells,)
        return within_reach(self.queue, cells, np.dtype(np.int32), zeros=False)

    def take_finite(self) -> bool:
        finite = not values_of(self.not_finite, self.queue)[0]
        if not finite:
            set_soon(self.not_finite, 0, np.zeros(1, np.int32), self.queue)
            self.queue.finish()
        return finite

    # -- host arrays -------------------------------------------------------------------------------

    def on_device(self, name: str, a: np.ndarray, brings: bool = True) -> cl.Buffer:
        """Return a device buffer for a host array: its own memory, or a buffer that calls reuse.

        The buffer gets the array's values only if `brings`.
        """
        if copies.lends(self.queue.device, a):
            return copies.lend(self.queue, a, not brings)
        kept = self._copied[name].of([Buffer(name, a.size, self.dtype)])[name].base_data
        if brings:
            cl.enqueue_copy(self.queue, kept, a)
        return kept

    def give_back(self, buffer: cl.Buffer, a: np.ndarray) -> None:
        """Wait until host array `a` has the values in `buffer`, which may share its memory."""
        if copies.lends(self.queue.device, a):
            copies.returned(self.queue, buffer, a)
        else:
            cl.enqueue_copy(self.queue, a, buffer)

    # -- launches ----------------------------------------------------------------------------------

    def kernel(self, name: str, symmetric: bool) -> program.NamedKernel:
        """Return a new kernel; the arguments that all calls share are set."""
        return program.NamedKernel(
            self.queue.context,
            self.spec(symmetric),
            name,
            {
                **self._tables,
                "num_blocks": self.blocks.num_blocks,
                "size": self.forest.num_nodes,
                "room": self.blocks.room,
                "not_finite": self.not_finite.base_data,
            },
        )

    def launch(
        self, name: str, symmetric: bool, arguments: Mapping[str, object], items: int
    ) -> cl.Event:
        kernel = self._kernels.get((name, symmetric))
        if kernel is None:
            kernel = self._kernels[name, symmetric] = self.kernel(name, symmetric)
        return kernel.launch(self.queue, arguments, (items,), (1,))

    def items(self, rows: int) -> int:
        """Return the work-item count for `rows` right-hand sides."""
        tasks, values = self.blocks.num_blocks * rows, self.blocks.size * rows
        most = min(_ITEMS * self._limits.compute_units, tasks)
        return max(1, min(most, values // _ITEM_VALUES))

    def values(self, items: int) -> cl.Buffer:
        """Return scratch memory with one block of chains per work-item."""
        size = items * self.blocks.room * self.blocks.lanes
        return self._room.of([Buffer("values", size, self.dtype)])["values"].base_data


class LanesEngine(SolveEngine):
    """Solve batches of chains on a CPU by `kernels`, in vectors with a chain per lane.

    Another engine, which `make_usual` makes, does all other work. If `is_lazy`, that engine is made
    when it is needed; otherwise it does the solves, too, and only factors use the kernels.
    """

    may_lose = False
    method = "auto"

    def __init__(
        self, kernels: ChainKernels, make_usual: Callable[[], SolveEngine], is_lazy: bool = True
    ) -> None:
        self.kernels, self._make_usual, self._is_lazy = kernels, make_usual, is_lazy
        self.queue = kernels.queue
        self.kernel_events: list[cl.Event] = []
        self._bad: Callable[[], BadPivots] | None = None  # returns the last solve's bad pivots
        self._kept = KeptBuffers(self.queue)
        if not is_lazy:
            _ = self.usual

    # -- calls that go to the usual engine ---------------------------------------------------------

    @cached_property
    def usual(self) -> SolveEngine:
        return self._make_usual()

    @cached_property
    def plan(self) -> Plan:  # type: ignore[override]
        return self.usual.plan

    def device_order(self) -> DeviceOrder:
        self._bad = self.usual.bad_pivots
        return self.usual.device_order()

    def solve_device(self, arrays: dict[str, cla.Array], target: cla.Array) -> None:
        self._bad = self.usual.bad_pivots
        self.usual.solve_device(arrays, target)
        self.kernel_events = self.usual.kernel_events

    @property
    def finds_finite(self) -> bool:
        return self._is_lazy or self.usual.finds_finite

    # -- engine properties -------------------------------------------------------------------------

    @property
    def memory(self) -> Memory:
        own = Memory(total(self.kernels.matrix_buffers(False)), 0)
        usual = [self.usual.memory] if "usual" in vars(self) else []
        return max([own, *usual], key=lambda one: one.device)

    @property
    def source(self) -> str:
        return render(self.kernels.spec(True)) if self._is_lazy else self.usual.source

    def describe(self) -> str:
        if not self._is_lazy:
            return self.usual.describe()
        return f"chain by chain, {devices.label(self.queue.device)})"

    def empty_like(self, b: np.ndarray) -> np.ndarray:
        return np.empty_like(b) if self._is_lazy else self.usual.empty_like(b)

    def bad_pivots(self) -> BadPivots:
        if self._bad is None:
            raise nothing_solved()
        return self._bad()

    # -- solves and factors ------------------------------------------------------------------------

    def solves_rows(self, b: np.ndarray) -> bool:
        return b.ndim == 1 or self.kernels.blocks.lanes > 1 or len(b) <= _MOST_RHS

    def solve_host(self, arrays: dict[str, np.ndarray], target: np.ndarray) -> None:
        if not self._is_lazy or not self.solves_rows(arrays["b"]):
            self._bad = self.usual.bad_pivots
            self.usual.solve_host(arrays, target)
            self.found_finite, self.kernel_events = self.usual.found_finite, []
            return
        matrix = {name: a for name, a in arrays.items() if name != "b"}
        with finish_on_error(self.queue):
            buffers = self._kept.of(self.kernels.matrix_buffers("l" not in matrix))
            memory = {name: buffers[name].base_data for name in buffers.listed}
            made = self._eliminate(matrix, memory, self._status)
            eliminated = self.kernel_events
            made.solve_host(arrays["b"], target)
            self.kernel_events = [*eliminated, *self.kernel_events]
        pivots = made.bad_pivots()
        self._bad = lambda: pivots

    def factor(self, arrays: dict[str, Any]) -> EliminatedMatrix:
        if any(isinstance(a, cla.Array) for a in arrays.values()):
            return self.usual.factor(arrays)
        matrix = {name: a.copy() for name, a in arrays.items()}
        with finish_on_error(self.queue):
            symmetric = "l" not in matrix or np.array_equal(matrix["l"], matrix["u"])
            access, context = cl.mem_flags.READ_WRITE, self.queue.context
            listed = self.kernels.matrix_buffers(symmetric)
            buffers = {one.name: cl.Buffer(context, access, one.nbytes) for one in listed}
            return self._eliminate(matrix, buffers, self.kernels.new_status())

    def _eliminate(
        self, matrix: dict[str, np.ndarray], buffers: Mapping[str, cl.Buffer], status: cla.Array
    ) -> EliminatedLanes:
        kernels = self.kernels
        values = {name: kernels.on_device(name, a) for name, a in matrix.items()}
        arguments = {**values, **buffers, "status": status.base_data}
        symmetric = "up" not in buffers
        self.kernel_events = [kernels.launch("eliminate", symmetric, arguments, kernels.items(1))]
        return EliminatedLanes(self, matrix, buffers, status)

    @cached_property
    def _status(self) -> cla.Array:
        return self.kernels.new_status()


class EliminatedLanes:
    """Chains that `LanesEngine` has eliminated; the host has the original matrix in `matrix`."""

    def __init__(
        self,
        engine: LanesEngine,
        matrix: dict[str, np.ndarray],
        buffers: Mapping[str, cl.Buffer],
        status: cla.Array,
    ) -> None:
        self._engine, self._matrix, self._buffers = engine, matrix, buffers
        self._symmetric, self._status = "up" not in buffers, status
        self._small: _SmallSolve | None = None  # made by the second solve: often there is one
        self._solved_before = False
        copies.finish_before(self, engine.queue)

    def bad_pivots(self) -> BadPivots:
        kernels = self._engine.kernels
        status = values_of(self._status, kernels.queue)
        cells = np.flatnonzero(status)
        if not len(cells):
            return NO_PIVOTS
        rows = STATUS.unpack("key", status[cells]) - 1
        nodes = kernels.forest.cell_offsets[cells] + rows
        return BadPivots(cells, nodes, STATUS.unpack("bad", status[cells]) > 0)

    def matrix_on_host(self) -> dict[str, np.ndarray]:
        return self._matrix

    def transposed(self) -> EliminatedLanes:
        matrix, buffers = dict(self._matrix), dict(self._buffers)
        if "l" in matrix:
            matrix["u"], matrix["l"] = matrix["l"], matrix["u"]
        if not self._symmetric:
            buffers["up"], buffers["low"] = buffers["low"], buffers["up"]
        return EliminatedLanes(self._engine, matrix, buffers, self._status)

    # -- host arrays -------------------------------------------------------------------------------

    def solve_host(self, b: np.ndarray, target: np.ndarray) -> None:
        engine, rows = self._engine, len(b) if b.ndim > 1 else 1
        if not engine.solves_rows(b):
            self._usual.solve_host(b, target)
            engine.found_finite = engine.usual.found_finite
            return
        kernels, b = engine.kernels, np.ascontiguousarray(b)
        out = target if target.flags.c_contiguous else np.empty(target.shape, target.dtype)
        with finish_on_error(engine.queue):
            x = kernels.on_device("x", out, False)
            in_place = np.may_share_memory(b, out) and copies.lends(engine.queue.device, out)
            self._launch(x if in_place else kernels.on_device("b", b), x, rows)
            kernels.give_back(x, out)
        if out is not target:
            target[...] = out
        engine.found_finite = kernels.take_finite()
        small = rows == 1 and b.size <= _SMALL_VALUES and copies.fine_grained(engine.queue.device)
        if small and self._solved_before and self._small is None:
            self._small = _SmallSolve(kernels, self._symmetric, self._buffers)
        self._solved_before = True

    def _launch(self, b: cl.Buffer, x: cl.Buffer, rows: int) -> None:
        kernels, items = self._engine.kernels, self._engine.kernels.items(rows)
        arguments: dict[str, object] = {**self._buffers, "num_rhs": rows, "all_b": b, "all_x": x}
        if kernels.blocks.lanes > 1:
            arguments["values"] = kernels.values(items)
        event = kernels.launch("substitute", self._symmetric, arguments, items)
        self._engine.kernel_events = [event]

    def quick(self, b: object, out: object, shape: tuple[int, ...]) -> np.ndarray | None:
        return None if self._small is None else self._small.solve(b, out, shape)

    # -- calls that go to the usual engine ---------------------------------------------------------

    @cached_property
    def _usual(self) -> EliminatedMatrix:
        return self._engine.usual.factor(dict(self._matrix))

    def solve_device(self, b: cla.Array, target: cla.Array) -> None:
        self._usual.solve_device(b, target)

    def prepare(self, b: cla.Array, out: cla.Array) -> list[Step]:
        return self._usual.prepare(b, out)

    def enqueue(self, steps: list[Step], out: cla.Array, waits: list[cl.Event]) -> cl.Event:
        return self._usual.enqueue(steps, out, waits)


class _SmallSolve:
    def __init__(
        self, kernels: ChainKernels, symmetric: bool, buffers: Mapping[str, cl.Buffer]
    ) -> None:
        self._queue, self._dtype = kernels.queue, kernels.dtype
        self._finite = copies.shared(self._queue, (1,), np.dtype(np.int32))
        size = (kernels.forest.num_nodes,)
        self._b, self._x = (copies.shared(self._queue, size, self._dtype) for _ in range(2))
        values = kernels.blocks.room * kernels.blocks.lanes
        self._values = copies.shared(self._queue, (values,), self._dtype)
        self._views: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = {}
        kernel = kernels.kernel("substitute", symmetric)
        arrays = {
            "all_b": self._b, "all_x": self._x, "values": self._values, "not_finite": self._finite
        }  # fmt: skip
        shared = {name: cl.SVM(a) for name, a in arrays.items()}
        kernel.bind({**buffers, **shared, "num_rhs": 1})
        self._kernel = kernel.built

    def solve(self, b: object, out: object, shape: tuple[int, ...]) -> np.ndarray | None:
        """Return x for `b`; None if a type, shape or layout does not fit, or x is not finite."""
        if type(b) is not np.ndarray or b.dtype is not self._dtype or b.shape != shape:
            return None
        if out is None:
            out = np.empty(shape, self._dtype)
        elif (
            type(out) is not np.ndarray
            or out.dtype is not self._dtype
            or out.shape != shape
            or not out.flags.carray
        ):
            return None
        views = self._views.get(shape)
        if views is None:
            views = self._views[shape] = self._b.reshape(shape), self._x.reshape(shape)
        np.copyto(views[0], b)
        cl.enqueue_nd_range_kernel(self._queue, self._kernel, (1,), (1,)).wait()
        if self._finite.item(0):
            self._finite[0] = 0
            return None
        np.copyto(out, views[1])
        return out
