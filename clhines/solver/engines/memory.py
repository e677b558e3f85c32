"""Device memory: lists of buffers, which are first counted and then allocated.

Both sides use the same list of `Buffer`: `Room` and `Solver.memory` add up its bytes, and `Buffers`
allocates its memory. So nothing is allocated that was not counted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.errors import DeviceMemoryError
from clhines.solver.plan.plan import Plan

_INT = np.dtype(np.int32)
OPERANDS = {3: ("d", "u", "b"), 4: ("d", "u", "l", "b")}  # symmetric, unsymmetric
_Method = TypeVar("_Method", bound=Callable[..., Any])


def size_text(count: int) -> str:
    if count < 1 << 14:
        return f"{count} bytes"
    return f"{count / 2**20:.1f} MiB" if count >= 1 << 20 else f"{count / 2**10:.1f} KiB"


@dataclass(frozen=True)
class Buffer:
    name: str
    size: int
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize


class Buffers:
    """The device buffers of the list `listed`; each is allocated when it is first used."""

    def __init__(self, listed: Sequence[Buffer], queue: cl.CommandQueue) -> None:
        self.listed, self.queue = {one.name: one for one in listed}, queue
        self._arrays: dict[str, cla.Array] = {}

    def __getitem__(self, name: str) -> cla.Array:
        if name not in self._arrays:
            one = self.listed[name]
            self._arrays[name] = cla.Array(self.queue, one.size, one.dtype)
        return self._arrays[name]

    def put(self, name: str, values: np.ndarray) -> cla.Array:
        whole = self[name]
        if values.size:
            cl.enqueue_copy(self.queue, whole.base_data, np.ascontiguousarray(values))
        return whole

    def view(self, name: str, shape: tuple[int, ...]) -> cla.Array:
        whole = self[name]
        return cla.Array(self.queue, shape, whole.dtype, data=whole.base_data)


class KeptBuffers:
    """Buffers that later calls use again, because releasing one makes some drivers wait."""

    def __init__(self, queue: cl.CommandQueue) -> None:
        self._queue = queue
        self._kept: Buffers | None = None

    def holds(self, listed: list[Buffer]) -> bool:
        kept = {} if self._kept is None else self._kept.listed
        return all(b.name in kept and b.size <= kept[b.name].size for b in listed)

    def of(self, listed: list[Buffer]) -> Buffers:
        if self._kept is None or not self.holds(listed):
            self._kept = None  # release these before new ones are allocated
            self._kept = Buffers(listed, self._queue)
        return self._kept

    def drop(self) -> None:
        self._kept = None


def total(listed: Iterable[Buffer]) -> int:
    return sum(one.nbytes for one in listed)


def table_buffers(plan: Plan, natural: bool) -> list[Buffer]:
    """List buffers for a plan's tables and status; `natural` adds tables for natural order."""
    listed = [
        Buffer("gather", plan.packed_size, _INT),
        Buffer("status", plan.forest.num_cells, _INT),
    ]
    for k, part in enumerate(plan.parts):
        listed += [Buffer(f"{k}/{name}", t.size, t.dtype) for name, t in part.tables.items()]
        sizes = part.natural_sizes(plan.forest) if natural else {}
        listed += [Buffer(f"{k}/{name}", size, _INT) for name, size in sizes.items()]
    return listed


def scratch_buffers(plan: Plan, dtype: np.dtype, operands: int) -> list[Buffer]:
    names = ["x", *OPERANDS[operands]]
    factor = [Buffer("factor", plan.packed_size, dtype)] if plan.needs_factor else []
    return factor + [
        Buffer(f"scratch {k} {name}", size, dtype)
        for k, size in enumerate(plan.scratch)
        for name in names
    ]


def operand_buffers(size: int, dtype: np.dtype, operands: int, rows: int) -> list[Buffer]:
    """List buffers for d, u, (l), b (3 or 4 `operands`) and x; b and x have `rows` rows."""
    each = {name: size * (rows if name in "bx" else 1) for name in (*OPERANDS[operands], "x")}
    return [Buffer(name, count, dtype) for name, count in each.items()]


def value_buffers(
    plan: Plan, dtype: np.dtype, operands: int, rows: int, natural: bool
) -> list[Buffer]:
    """List buffers for a solve from NumPy to NumPy: 3 or 4 operands, and x, of `rows` rows."""
    n = plan.forest.num_nodes
    listed = operand_buffers(n if natural else plan.packed_size, dtype, operands, rows)
    return listed + ([] if natural else [Buffer("natural", n * rows, dtype)])


def factor_buffers(plan: Plan, dtype: np.dtype, operands: int, rows: int) -> list[Buffer]:
    """List buffers for a matrix that is eliminated once, and for later solves with it."""
    listed = value_buffers(plan, dtype, operands, rows, False)
    listed.append(Buffer("factored", plan.forest.num_cells, _INT))
    able = any(part.keeps_factors for part in plan.parts)
    return listed + ([Buffer("pivots", plan.packed_size, dtype)] if able else [])


def natural_factor_buffers(plan: Plan, dtype: np.dtype, operands: int) -> list[Buffer]:
    """List buffers for a matrix that stays on the device in natural order, and for its status."""
    names = [name for name in OPERANDS[operands] if name != "b"]
    status = Buffer("status", plan.forest.num_cells, _INT)
    return [*(Buffer(name, plan.forest.num_nodes, dtype) for name in names), status]


def solve_buffers(plan: Plan, dtype: np.dtype, operands: int = 4, rows: int = 1) -> list[Buffer]:
    natural = plan.takes_natural
    listed = table_buffers(plan, natural) + scratch_buffers(plan, dtype, operands)
    return listed + value_buffers(plan, dtype, operands, rows, natural)


def most_buffers(plan: Plan, dtype: np.dtype, rows: int) -> list[Buffer]:
    listed = table_buffers(plan, False) + scratch_buffers(plan, dtype, 4)
    listed += factor_buffers(plan, dtype, 4, rows)
    return max(listed, solve_buffers(plan, dtype, 4, rows), key=total)


@dataclass(frozen=True)
class Room:
    device: str  # its name, for messages
    memory: int  # bytes in all
    largest: int  # bytes in one array
    dtype: np.dtype

    def needed(self, plan: Plan) -> int:
        """Return the bytes that solves and factors need with one right-hand side."""
        return total(most_buffers(plan, self.dtype, 1))

    def fits(self, plan: Plan) -> bool:
        one = plan.packed_size * self.dtype.itemsize
        return one <= self.largest and self.needed(plan) <= self.memory

    def rows_at_once(self, plan: Plan) -> int:
        """Return how many right-hand sides fit into one launch, at least 1."""
        most = max(part.max_rhs for part in plan.parts)
        one = plan.packed_size * self.dtype.itemsize
        needed = total(most_buffers(plan, self.dtype, most))
        return most if needed <= self.memory and one * most <= self.largest else 1

    def check(self, plan: Plan) -> None:
        """Raise `DeviceMemoryError` for a plan that does not fit."""
        if self.fits(plan):
            return
        array = size_text(plan.packed_size * self.dtype.itemsize)
        raise DeviceMemoryError(
            f"{plan.forest.num_cells} cells with {plan.forest.num_nodes} nodes need "
            f"{size_text(self.needed(plan))}, in arrays of {array}; {self.device} offers "
            f"{size_text(self.memory)}, in arrays of at most {size_text(self.largest)}: solve "
            "fewer cells at once (Forest.subset)"
        )


@dataclass(frozen=True)
class Memory:
    """Peak memory of the solves of a batch, in bytes."""

    device: int  # device bytes: values in both orders, factors, tables
    pinned: int  # bytes in pinned host memory, through which values are copied

    def __str__(self) -> str:
        text = f"{size_text(self.device)} on the device"
        return text + (f", {size_text(self.pinned)} of pinned host memory" if self.pinned else "")


def memory_errors(method: _Method) -> _Method:
    """Turn OpenCL's out-of-memory errors of a method into `DeviceMemoryError`."""

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except cl.MemoryError as error:
            raise no_memory(self.queue, self.memory) from error

    return cast("_Method", wrapped)


def no_memory(queue: cl.CommandQueue, memory: Memory) -> DeviceMemoryError:
    device = queue.device
    return DeviceMemoryError(
        f"{device.name.strip()} has no memory left: the batch needs {size_text(memory.device)} of "
        f"its {size_text(device.global_mem_size)}; solve fewer cells at once (Forest.subset)"
    )
