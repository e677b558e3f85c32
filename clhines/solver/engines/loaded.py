"""A plan on a queue: its tables and kernels, scratch and status, and its launches."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.solver.device import devices, program
from clhines.solver.device.arrays import set_zero, writable
from clhines.solver.engines.memory import OPERANDS, Buffers, scratch_buffers, table_buffers
from clhines.solver.engines.pivots import NO_PIVOTS, BadPivots
from clhines.solver.plan.kernel_spec import NOT_FINITE, STATUS, TemplateSpec
from clhines.solver.plan.plan import Part, Plan

_FAR = ("far_low", "far_mid", "far_up", "far_right")  # scratch names in ``reduction.mako``


@dataclass(frozen=True)
class PermuteSpec(TemplateSpec):
    """Spec of ``permute.mako``, whose kernels convert between natural and device order."""

    template: ClassVar[str] = "solver/around/permute"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "pack": (
            "int num_packed, int num_nodes, const int *restrict gather",
            "const real *restrict natural, real *restrict packed",
        ),
        "pack_three": (
            "int num_packed, int num_nodes, const int *restrict gather",
            "const real *restrict d, const real *restrict u, const real *restrict b",
            "real *restrict packed_d, real *restrict packed_u, real *restrict packed_b",
        ),
        "unpack": (
            "int num_packed, int num_nodes, const int *restrict gather",
            "const real *restrict packed, real *restrict natural",
        ),
    }
    real: str


@dataclass
class _Bound:
    """A kernel with its index tables; several launches use it, each with other arguments.

    `arguments_of` is the key of the `Step` whose arguments the kernel has now.
    """

    kernel: program.Kernel
    values: int
    tables: list[cl.Buffer]
    takes: list[str]
    arguments_of: object = None


class Slot:
    """Argument of a prepared launch in place of an array with this `shape`.

    It has the array's `memory`, or only a `name`: then each call passes a buffer of this name.
    """

    def __init__(self, shape: tuple[int, ...], memory: object = None, name: str = "") -> None:
        self.shape, self.ndim, self.name = shape, len(shape), name
        self.base_data = self if memory is None else memory


class Step(NamedTuple):
    """A prepared launch: a kernel, its arguments and its size.

    `run` sets the arguments again only if another step has used the kernel since.
    """

    bound: _Bound
    arguments: tuple[int | cl.Buffer | cl.SVM | Slot, ...]
    items: tuple[int]
    work_group: tuple[int]
    key: object  # identifies the step

    def run(self, queue: cl.CommandQueue, wait_for: list[cl.Event] | None) -> cl.Event:
        bound = self.bound
        if bound.arguments_of is not self.key:
            bound.arguments_of = None  # the next line may raise after it has set some arguments
            bound.kernel.set_args(*self.arguments)
            bound.arguments_of = self.key
        event = cl.enqueue_nd_range_kernel(
            queue, bound.kernel, self.items, self.work_group, wait_for=wait_for
        )
        if bound.kernel.fresh:
            bound.kernel.launched(event)
        return event

    def run_with(self, queue: cl.CommandQueue, buffers: Mapping[str, cl.Buffer]) -> cl.Event:
        """Enqueue the launch; `buffers`, by name, replace the `Slot`s that have no memory."""
        bound = self.bound
        bound.arguments_of = None
        bound.kernel.set_args(
            *(buffers[a.name] if isinstance(a, Slot) else a for a in self.arguments)
        )
        return cl.enqueue_nd_range_kernel(queue, bound.kernel, self.items, self.work_group)


class Launch:
    """One part of a plan, `number`, on a queue: its index tables, and its kernels."""

    def __init__(self, part: Part, plan: Plan, number: int, buffers: Buffers) -> None:
        self.part, self.plan, self._number, self._buffers = part, plan, number, buffers
        self.queue = buffers.queue
        self.tables = self._put(part.tables)
        self._kernels: dict[tuple[bool, int, str, bool], _Bound] = {}
        self.expands: Launch | None = None  # the launch that expands what this one reduces

    @functools.cached_property
    def natural_tables(self) -> dict[str, cla.Array]:
        """Additional tables of the kernel for natural order, made when first used."""
        more = self.part.natural_tables(self.plan.forest, self.plan.gather)
        if self.expands is not None:
            index = self.expands.natural_tables["natural_index"]
            return {"gather": self._buffers["gather"], "natural_index": index, **self._put(more)}
        return {"gather": self._buffers["gather"], **self._put(more)}

    def _put(self, tables: dict[str, np.ndarray]) -> dict[str, cla.Array]:
        return {k: self._buffers.put(f"{self._number}/{k}", t) for k, t in tables.items()}

    def kernel(
        self, symmetric: bool, rhs: int, factor: str = "", natural: bool = False
    ) -> cl.Kernel:
        return self._bound(symmetric, rhs, factor, natural).kernel

    def _bound(self, symmetric: bool, rhs: int, factor: str, natural: bool) -> _Bound:
        key = symmetric, rhs, factor, natural
        if key not in self._kernels:
            spec = self.part.solve_spec(symmetric, rhs, factor, natural)
            tables = self.tables | (self.natural_tables if natural else {})
            self._kernels[key] = _Bound(
                program.kernel_of(self.queue.context, spec, "solve"),
                self.plan.forest.num_nodes if natural else self.plan.packed_size,
                [tables[name].data for name in spec.roles()],
                spec.arrays(),
            )
        return self._kernels[key]

    def steps(
        self,
        arrays: dict[str, cla.Array | Slot],
        symmetric: bool,
        rows: range,
        factor: str = "",
        natural: bool = False,
    ) -> list[Step]:
        """Prepare launches for the right-hand sides `rows`; `arrays` has the arguments by name.

        `factor` is "make" to store inverse pivots, "use" to read them, or "". `natural`: arrays are
        in natural order.
        """
        natural = natural and not self.part.source  # reduced systems are always in device order
        bound = self._bound(symmetric, len(rows), factor, natural)
        buffers = [arrays[name].base_data for name in bound.takes]
        size = self.part.spec.work_group
        return [
            Step(
                bound,
                (argument, bound.values, rows.start, *bound.tables, *buffers),
                (groups * size,),
                (size,),
                object(),
            )
            for argument, groups in self.part.launches
        ]


class Resident:
    """A plan on a queue's device: its launches, and buffers for tables, scratch and status."""

    def __init__(self, plan: Plan, queue: cl.CommandQueue, dtype: np.dtype) -> None:
        self.plan, self.queue, self.dtype = plan, queue, dtype
        listed = table_buffers(plan, plan.takes_natural) + scratch_buffers(plan, dtype, 4)
        self.buffers = Buffers(listed, queue)
        self.gather = self.buffers.put("gather", plan.gather)
        self.launches = [Launch(part, plan, k, self.buffers) for k, part in enumerate(plan.parts)]
        for launch in self.launches:
            if launch.part.phase == "reduce" and not launch.part.source:
                launch.expands = next(
                    x for x in self.launches if x.part.phase == "expand" and not x.part.source
                )
        self.takes_natural = plan.takes_natural
        self.status = self.buffers.put("status", np.zeros(plan.forest.num_cells, np.int32))
        self._filled: set[str] = set()
        spec = PermuteSpec(plan.parts[0].spec.real)
        self._pack, self._pack_three, self._unpack = (
            program.kernel_of(queue.context, spec, name) for name in spec.kernels
        )
        self._groups = devices.wide_groups(queue.device, plan.packed_size)

    @property
    def factor(self) -> cla.Array | None:
        """Scratch for factors, allocated when first used; None if no part needs it."""
        return self.buffers["factor"] if self.plan.needs_factor else None

    def solve(
        self,
        operands: Sequence[cla.Array],
        x: cla.Array,
        wait_for: list[cl.Event],
        overwrite: bool = False,
        factored: cla.Array | None = None,
        natural: bool = False,
    ) -> list[cl.Event]:
        return self.run(self.steps(operands, x, overwrite, factored, natural), wait_for)

    def run(self, steps: Sequence[Step], wait_for: list[cl.Event]) -> list[cl.Event]:
        queue = self.queue
        events = [steps[0].run(queue, wait_for or None)]
        if len(steps) > 1:
            events += [step.run(queue, None) for step in steps[1:]]
        return events

    def steps(
        self,
        operands: Sequence[cla.Array | Slot],
        x: cla.Array | Slot,
        overwrite: bool = False,
        factored: cla.Array | None = None,
        natural: bool = False,
        status: cla.Array | Slot | None = None,
    ) -> list[Step]:
        """Prepare the launches of a solve with the `operands` d, u, (l), b and the solution `x`.

        Arrays are in device order, or in natural order if `natural`. With `overwrite` factors may
        overwrite d. If `factored` is an array, the first operand has factors, and `factored` is the
        status that `make_factors` returned. `status` replaces the usual array.
        """
        if status is None:
            status = self.status if factored is None else factored
        count = operands[-1].shape[0] if operands[-1].ndim == 2 else 1
        parts = [launch.part for launch in self.launches]
        once = all(count <= part.max_rhs and part.spec.factor_may_be_d for part in parts)
        factor = operands[0] if overwrite and once and writable(operands[0]) else self.factor
        step = 1 if self.plan.scratch else max(part.max_rhs for part in parts)
        sets: list[tuple[Sequence[cla.Array | Slot], cla.Array | Slot]]
        sets = [(operands, x), *self._scratch(len(operands))]
        symmetric, names = len(operands) == 3, _names(len(operands) == 3)
        steps: list[Step] = []
        for first in range(0, count, step):
            for launch in self.launches:
                part = launch.part
                (inputs, out), (rest, rest_x) = sets[part.source], sets[part.target]
                arrays = dict(zip(names, inputs)) | {"factor": factor, "x": out, "status": status}
                if part.target:
                    arrays |= _reduced(names, rest, rest_x)
                use = "use" if part.keeps_factors and factored is not None else ""
                rows = range(first, min(first + step, count)) if not part.source else range(1)
                for row in range(rows.start, rows.stop, part.max_rhs):
                    some = range(row, min(row + part.max_rhs, rows.stop))
                    steps += launch.steps(arrays, symmetric, some, use, natural)
        return steps

    def make_factors(
        self, matrix: Sequence[cla.Array], buffers: Buffers
    ) -> tuple[cla.Array, cla.Array]:
        """Enqueue the elimination of `matrix`, d, u, (l); return the factors, and the status.

        Both are among the `buffers`, which `factor_buffers` lists.
        """
        able = [launch for launch in self.launches if launch.part.keeps_factors]
        factors = matrix[0]
        if able:
            factors = buffers["pivots"]
            copying = {"wait_for": matrix[0].events}
            copied = cl.enqueue_copy(self.queue, factors.base_data, matrix[0].base_data, **copying)
            only_event(factors, copied)
        status = buffers["factored"]
        set_zero(status, self.queue)
        events = [e for a in (*matrix, factors, status) for e in a.events]
        arrays = dict(zip(_names(len(matrix) == 2), matrix))
        arrays |= {"inverses": factors, "status": status}
        for launch in able:
            run = self.run(launch.steps(arrays, len(matrix) == 2, range(1), "make"), events)
            only_event(factors, run[-1])
        if len(able) < len(self.plan.parts):  # a solve with zeros finds the other pivots
            b, x = buffers["b"], buffers["x"]
            set_zero(b, self.queue)
            events = [*b.events, *factors.events]
            run = self.solve([factors, *matrix[1:], b], x, events, factored=status)[-1]
            only_event(factors, run)
        return factors, status

    def _scratch(self, num_operands: int) -> list[tuple[Sequence[cla.Array], cla.Array]]:
        """Return the operands and x of each reduced system, allocated at first use."""
        sets: list[tuple[Sequence[cla.Array], cla.Array]] = []
        for k, size in enumerate(self.plan.scratch):
            names = [f"scratch {k} {name}" for name in (*OPERANDS[num_operands], "x")]
            for name in set(names) - self._filled:
                self.buffers.put(name, np.zeros(size, self.dtype))
                self._filled.add(name)
            *operands, x = (self.buffers[name] for name in names)
            sets.append((operands, x))
        return sets

    def permute(self, source: cla.Array, target: cla.Array, packing: bool) -> cla.Array:
        rows = source.shape[0] if source.ndim == 2 else 1
        kernel = self._pack if packing else self._unpack
        events = [*source.events, *target.events]
        event = self._permute(kernel, (source.base_data, target.base_data), rows, events)
        only_event(target, event)
        return target

    def pack_three(self, sources: Sequence[cla.Array], targets: Sequence[cla.Array]) -> None:
        """Convert three arrays of one row to device order; the gather table is read only once."""
        arrays = *sources, *targets
        events = [e for a in arrays for e in a.events]
        event = self._permute(self._pack_three, [a.base_data for a in arrays], None, events)
        for target in targets:
            only_event(target, event)

    def pack_buffers(
        self, sources: Mapping[str, cl.Buffer], targets: Mapping[str, cl.Buffer], rows: int
    ) -> None:
        """Convert buffers to device order, three at once if possible; `b` has `rows` rows."""
        left = list(sources)
        if rows == 1 and len(left) >= len("dub"):
            three = [sources[k] for k in "dub"] + [targets[k] for k in "dub"]
            self._permute(self._pack_three, three, None)
            left = [name for name in left if name not in "dub"]
        for name in left:
            count = rows if name == "b" else 1
            self._permute(self._pack, (sources[name], targets[name]), count)

    def unpack_buffer(self, source: cl.Buffer, target: cl.Buffer, rows: int) -> None:
        self._permute(self._unpack, (source, target), rows)

    def _permute(
        self,
        kernel: cl.Kernel,
        buffers: Sequence[cl.Buffer],
        rows: int | None,
        wait_for: list[cl.Event] | None = None,
    ) -> cl.Event:
        plan, (items, group) = self.plan, self._groups
        size, local = (items, group) if rows is None else ((*items, rows), (*group, 1))
        kernel.set_args(plan.packed_size, plan.forest.num_nodes, self.gather.base_data, *buffers)
        return cl.enqueue_nd_range_kernel(self.queue, kernel, size, local, wait_for=wait_for)

    def first_bad(self, status: cla.Array | None = None) -> BadPivots:
        """Wait; return the cells with bad pivots or lost digits in a status on the device."""
        return self.bad_of((self.status if status is None else status).get(self.queue))

    def bad_of(self, status: np.ndarray) -> BadPivots:
        """Return the cells with bad pivots or lost digits in a status on the host."""
        cells = np.flatnonzero(status & ~NOT_FINITE)
        if not len(cells):
            return NO_PIVOTS
        ranks = STATUS.unpack("key", status[cells]) - 1
        nodes = [
            self.plan.forest.node_index(int(c), int(r)) for c, r in zip(cells, ranks, strict=True)
        ]
        bad = STATUS.unpack("bad", status[cells]) > 0
        return BadPivots(cells, np.array(nodes, np.int64), bad)


def _names(symmetric: bool) -> list[str]:
    return ["d", "u", "b"] if symmetric else ["d", "u", "l", "b"]


def _reduced(
    names: Sequence[str], rest: Sequence[cla.Array | Slot], x: cla.Array | Slot
) -> dict[str, cla.Array | Slot]:
    """Return a reduced system's arrays by kernel argument: operands `rest`, solution `x`."""
    system = {f"rest_{name}": a for name, a in zip(names, rest)}
    return {**system, **dict(zip(_FAR, [*rest[:3], x])), "rest_x": x}


def only_event(a: cla.Array, event: cl.Event) -> None:
    """Replace an array's events by `event`; `Array.add_event` would wait for the old ones."""
    a.events[:] = [event]
