"""Kernels with bound arguments, and concurrent launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.solver.device import devices
from clhines.solver.device.program import Kernel
from clhines.solver.plan.kernel_spec import TemplateSpec

_STRUCT = bytes, np.ndarray  # a struct's value
KernelArgument: TypeAlias = cla.Array | cl.Buffer | np.generic | int | float | bytes


class BoundKernel:
    """A kernel with all its arguments; `change` replaces those at the indices `changing`."""

    def __init__(
        self,
        built: cl.Program,
        name: str,
        arguments: Sequence[KernelArgument],
        changing: Sequence[int] = (),
    ) -> None:
        self._types = [type(a) if isinstance(a, np.generic) else None for a in arguments]
        self._kernel = Kernel(built, name, self._types)
        self._arguments, self._changing = list(arguments), tuple(changing)
        self._cl_arguments: list[object] = list(map(_as_argument, arguments))
        # pyopencl's number formats, if it can set several arguments at once
        self._pack = getattr(self._kernel, "_set_arg_buf_pack_multi", None)
        # a struct is passed by value
        self._put_struct: Any = getattr(self._kernel, "_set_arg_buf", self._kernel.set_arg)
        numbers = enumerate(arguments) if self._pack else ()
        self._formats = {
            k: a.dtype.char.encode()
            for k, a in numbers
            if isinstance(a, np.generic) and a.dtype.kind in "iuf"
        }
        self._bound = False

    def __setitem__(self, index: int, argument: KernelArgument) -> None:
        self._arguments[index] = argument
        self._set(index, argument)

    def change(self, *arguments: KernelArgument) -> None:
        """Set the changing arguments, in the order of `changing`; a Python int is accepted."""
        old = self._arguments
        packed: list[Any] = []
        for k, a in zip(self._changing, arguments, strict=True):
            if a is old[k] or (type(a) is int and a == old[k]):
                continue
            old[k] = a
            if self._bound and k in self._formats:  # set below, together
                packed += k, self._formats[k], a.item() if isinstance(a, np.generic) else a
            else:
                self._set(k, a)
        if packed and self._pack is not None:
            self._pack(tuple(packed))

    def _set(self, k: int, argument: KernelArgument) -> None:
        kind = self._types[k] if isinstance(argument, int) else None
        self._cl_arguments[k] = _as_argument(kind(argument) if kind else argument)
        if self._bound:
            put = self._put_struct if isinstance(argument, _STRUCT) else self._kernel.set_arg
            put(k, self._cl_arguments[k])

    def launch(
        self,
        queue: cl.CommandQueue,
        items: int,
        work_group: int,
        wait_for: Sequence[cl.Event] | None = None,
        rows: int | None = None,
    ) -> cl.Event:
        if not self._bound:
            self._kernel.set_args(*self._cl_arguments)
            self._bound = True
        size = (items,) if rows is None else (items, rows)
        local = (work_group,) if rows is None else (work_group, 1)
        event = cl.enqueue_nd_range_kernel(queue, self._kernel, size, local, wait_for=wait_for)
        if self._kernel.fresh:
            self._kernel.launched(event)
        return event

    def launch_columns(
        self, queue: cl.CommandQueue, width: int, rows: int, most: int = devices.SMALL_GROUP
    ) -> None:
        """Enqueue `rows` rows of `width` work-items, in work-groups of at most `most`."""
        group = min(most, queue.device.max_work_group_size, 1 << (width - 1).bit_length())
        self.launch(queue, -(-width // group) * group, group, rows=rows)


class SideBySide:
    """Run up to `count` launches concurrently: the first on `queue`, the others on own queues."""

    def __init__(self, queue: cl.CommandQueue, count: int) -> None:
        self._queue = queue
        self._others = [cl.CommandQueue(queue.context, queue.device) for _ in range(count - 1)]

    def launch(
        self, launches: Sequence[Callable[[cl.CommandQueue, list[cl.Event] | None], cl.Event]]
    ) -> None:
        """Call each function of `launches` with its queue and the events that it must wait for.

        Later commands on the main queue wait for all launches.
        """
        first, *others = launches
        begin, ends = [], []
        if others:
            begin = [cl.enqueue_marker(self._queue)]
            self._queue.flush()
        first(self._queue, None)
        try:
            for queue, other in zip(self._others, others, strict=True):
                ends.append(other(queue, begin))
                queue.flush()
        finally:  # also after an interrupt
            if ends:
                cl.enqueue_barrier(self._queue, wait_for=ends)


def _as_argument(argument: KernelArgument) -> object:
    return argument.data if isinstance(argument, cla.Array) else argument


def bind(
    built: cl.Program,
    spec: TemplateSpec,
    name: str,
    arguments: Mapping[str, KernelArgument],
    changes: Sequence[str] = (),
) -> BoundKernel:
    """Return a kernel with `arguments` by name; `change` replaces those named in `changes`."""
    names = [p.name for p in spec.parameters(name)]
    changing = [names.index(n) for n in changes]
    return BoundKernel(built, name, [arguments[n] for n in names], changing)
