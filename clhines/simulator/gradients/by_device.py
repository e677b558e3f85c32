"""Gradients for a network's copies, side by side on a device: steps forward and back.

The forward run keeps all states if memory suffices. Otherwise it keeps the states at which
*stretches* of steps begin, and all states in the last stretch. The derivatives go back through that
stretch, then the stretch before runs again and keeps all its states, and so on to the start. On a
GPU stretches are as long as memory allows:

    forward    keep 0 ....... keep 4 ....... keep 8, 9, ..., 16
    backward                                 16 < 15 < ... < 8
                              4 > ... > 8,   8 < ... < 4
               0 > ... > 4,   4 < ... < 0

A stretch runs again while the derivatives go back through the next one, on a GPU in a second queue.
Each of its states replaces one that the derivatives have passed, so every second stretch is in the
store from the last state to the first.

The reference goes back over the start, with INITIAL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from itertools import islice
from math import ceil, isqrt
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary, finalize

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.arrays import inverse
from clhines.core.errors import InputError
from clhines.simulator.device import launches
from clhines.simulator.engines.reference import neighbours
from clhines.simulator.gradients.adjoint import Adjoint
from clhines.simulator.gradients.events import EventConnections, step_times
from clhines.simulator.gradients.kernels import (
    BLOCKS,
    DELIVERS,
    NOTES,
    GradientSpec,
    turn_of,
)
from clhines.simulator.gradients.plan import CopyLayout, GradientPlan, changing_ions
from clhines.simulator.gradients.quantities import Direction, Quantities
from clhines.simulator.gradients.trace import TracedRun, first_if_alike
from clhines.simulator.mechanisms.emit.lanes import Lanes
from clhines.simulator.records.records import Record
from clhines.simulator.refusals import refusal
from clhines.solver.device import copies, devices, program
from clhines.solver.device.arrays import to_device
from clhines.solver.forest import Forest
from clhines.solver.plan.plan import real_name
from clhines.solver.solver import Solver

_VECTOR_BYTES = 32  # on CPUs; LLVM 18 crashes on conditions with vectors of 64
_GROUP = 128  # work-items
# per work-item, by kernel: with fewer, more work-items run side by side; with more, fewer spill
_REGISTERS = {"take_step": 56, "take_back": 72, "take_tangents": 80}
_NEIGHBOURS = 16  # bytes of neighbours side by side in the solver's order, on a GPU
MEMORY = 7e9  # most bytes of states and systems on the device; with all others below 8e9
SlotSolve: TypeAlias = Callable[[], object]  # enqueues a solve
_AT_ONCE = 2  # steps back, and steps forward beside them, until one queue waits for the other
KEPT = 1e9  # most bytes that stay for the next gradient of the same cells, on a CPU
_ROOM: WeakKeyDictionary[Forest, np.ndarray] = WeakKeyDictionary()
_SHARED: WeakKeyDictionary[Forest, dict[Any, Any]] = WeakKeyDictionary()
_TURN = "step", "turn", "now", "next"
_CHANGES = {  # kernel arguments that differ between launches
    "take_step": (*_TURN, "system_d", "changes"),
    "take_back": (*_TURN, "changes"),
    "take_tangents": _TURN,
    "to_natural": ("packed", "natural", "entries"),
}


class DeviceSteps:
    """The arrays and kernels that advance copies of a network on a device, and recorded values.

    A run has `steps` steps. `place` is the device's queue and the precision. `directions` are those
    of forward mode, see `by_tangents`, or empty for reverse mode. `surrogate` is the width of a
    spike's sigmoid, mV, or None. `recorded` has the indices of the recorded entries of a state.
    """

    def __init__(
        self,
        quantities: Quantities,
        records: Sequence[Record],
        steps: int,
        place: tuple[cl.CommandQueue, np.dtype],
        copies: int,
        directions: Sequence[Direction] = (),
        surrogate: float | None = None,
    ) -> None:
        self.records, self.steps, self.directions = records, steps, directions
        self.queue, self.dtype = place[0], np.dtype(place[1])
        model = self.model = quantities.model
        vectors = devices.is_cpu(self.queue.device)
        calls = ((k.mechanism, b) for k in model.kinds for b in BLOCKS)
        vectors &= all(m.takes_vectors(b) for m, b in calls if b in m.program.blocks)
        width = _VECTOR_BYTES // self.dtype.itemsize if vectors else 1
        if directions and model.forest.num_cells % width:
            width = 1  # no copies that fill up
        self.layout = CopyLayout(model, width, copies)
        self.lanes = self.layout.rows * self.layout.width
        plain = not changing_ions(model, records)
        alike = plain and self.layout.count > 1 and not quantities.of_start
        of_start = first_if_alike(model, self.layout.count) if alike else model
        self.host = TracedRun(of_start, (), plain)
        real, self.connections = real_name(self.dtype), EventConnections(model, steps)
        wanted = quantities.parameters(), quantities.by_matrix
        limits = devices.limits(self.queue.device)
        lanes = None if devices.is_cpu(self.queue.device) else Lanes(limits.ptx)
        planned = (*wanted, real, records, self.connections, lanes)
        self.plan = GradientPlan(self.host.variables, self.layout, *planned)
        self.solver = self._solver("solver", self.queue)
        places = self._places()
        self.recorded = np.unique([i for r in records for i in self.plan.entry(r)[0]])
        self.spec = replace(
            self.plan.spec,
            tile=self._tile(places),
            axial="Ra" in quantities.of,
            diagonal="Ra" in quantities.of or "cm" in quantities.of,
            surrogate=surrogate is not None and self.plan.spec.events,
            stride=self._stride(places),
            directions=self._seeded(),
        )
        self.slot = self.plan.entries * self.layout.rows  # voltage, state and ion rows
        self.start = self.plan.start()
        self._sizes = self._launched(1), self._launched(self.spec.tile)
        self.arrays = self._arguments(places)
        self.arrays["surrogate_width"] = self.dtype.type(surrogate or 0)
        self._programs: dict[str, tuple[cl.Program, GradientSpec]] = {}
        self._capped = limits.ptx and real == "double"
        self._kernels: dict[str, launches.BoundKernel] = {}

    def _once(self, what: Any, make: Callable[[], Any]) -> Any:
        of_forest = _SHARED.setdefault(self.model.forest, {})
        key = self.queue, self.dtype, what
        if key not in of_forest:
            of_forest[key] = make()
        return of_forest[key]

    def _solver(self, name: str, queue: cl.CommandQueue) -> Solver:
        solving = self.model.forest, "auto", self.dtype, None, queue
        solver: Solver = self._once(name, lambda: Solver(*solving))
        return solver

    @cached_property
    def beside(self) -> Solver:
        """A solver whose queue runs beside `queue` on a GPU, and that is `solver` on a CPU."""
        device = self.queue.device
        if devices.is_cpu(device):
            return self.solver
        return self._solver("beside", cl.CommandQueue(self.queue.context, device))

    @cached_property
    def copies(self) -> cl.CommandQueue:
        """A queue for copies that wait for no kernel."""
        queue: cl.CommandQueue = self._once(
            "copies", lambda: cl.CommandQueue(self.queue.context, self.queue.device)
        )
        return queue

    def _seeded(self) -> tuple[tuple[int, str, int], ...]:
        count = [self.model.kinds[k].count // self.layout.count for k, _, _ in self.directions]
        begins = np.cumsum([0, *count])
        directions = zip(self.directions, begins[:-1], strict=True)
        return tuple((k, name, int(begin)) for (k, name, _), begin in directions)

    def _launched(self, tile: int) -> tuple[int, int, None, int]:
        """Return launch arguments: work-items per row, work-group size, no events, and rows.

        Neighbouring work-items advance `tile` nodes of one copy.
        """
        width, rows = self.layout.rows * tile, -(-self.layout.nodes // tile)
        most = min(_GROUP, self.queue.device.max_work_group_size)
        group = min(most, 1 << (width - 1).bit_length())
        return -(-width // group) * group, group, None, rows

    def _places(self) -> np.ndarray:
        """Return each lane's nodes as indices in the solver's arrays, (nodes, lanes).

        A lane is a copy of the network; lanes that fill up the last row repeat the last copy, and
        their nodes come last.
        """
        layout, gather = self.layout, self.solver.plan.gather
        filled = self.lanes - layout.count
        self.size = len(gather) + layout.nodes * filled

        def make() -> np.ndarray:
            at = np.flatnonzero(gather >= 0)
            places = layout.packed(at[inverse(gather[at])])
            if filled:
                spare = np.arange(len(gather), self.size).reshape(layout.nodes, filled)
                places[:, layout.count :] = spare
            return places

        places: np.ndarray = self._once(("places", layout.count, layout.width), make)
        return places

    def _tile(self, places: np.ndarray) -> int:
        """Return how many nodes of one copy neighbouring work-items advance.

        It is 1 if the solver has all copies of a node side by side; `places` is from `_places`.
        """
        if devices.is_cpu(self.queue.device):
            return 1
        if self.layout.rows == 1:
            return 32
        return 1 if places[0, 1] == places[0, 0] + 1 else _NEIGHBOURS // self.dtype.itemsize

    def _stride(self, places: np.ndarray) -> int:
        if self.layout.width > 1 or self.lanes < 2:
            return 0
        apart = np.diff(places, axis=1)
        return int(apart[0, 0]) if (apart == apart[0, 0]).all() else 0

    def _arguments(self, places: np.ndarray) -> dict[str, Any]:
        plan, num = self.plan, np.int32
        model, n = self.model, self.layout.nodes
        on_cpu = devices.is_cpu(self.queue.device)  # whose caches follow neighbours' states
        column = np.full(plan.entries, -1)
        column[self.recorded] = np.arange(len(self.recorded))
        self.u = self.solver.to_device_order(model.u)
        parent, child, sibling = neighbours(model.forest.parent[:n])
        tables = {
            "parent": parent,
            "child": child,
            "sibling": sibling,
            "order": np.arange(n) if on_cpu else np.argsort(places[:, 0]),
            "of_node": plan.of_node.transpose(2, 0, 1),
            "place": places[:, 0] if self.spec.stride else places,
            "column": column,
        }
        reals = {
            "numbers": np.concatenate(plan.numbers),
            "values": np.concatenate([v.reshape(-1) for v in plan.values]),
            "tables": np.concatenate(plan.tables),
            "times": step_times(model.dt, self.steps),
        }
        found: dict[str, Any] = {
            "num_nodes": num(n),
            "num_rows": num(self.layout.rows),
            "num_columns": num(len(self.recorded)),
            "num_copies": num(self.layout.count),
            **{name: self.to_device(values, num) for name, values in tables.items()},
            **{name: self.to_device(values) for name, values in reals.items()},
            "system_b": self.systems(0)(0),
            "solution": self.systems(0)(0),
            "dt": self.dtype.type(model.dt),
            "solved_dt": self.dtype.type(model.solved_dt),
            "slot": np.int64(self.slot),
            **dict.fromkeys(_TURN, num(0)),
        }
        if self.spec.lanes is not None:
            numbers = self.spec.series_numbers.arguments
            found |= {name: self.dtype.type(value) for name, value in numbers.items()}
        if self.spec.events:
            of_events = self.connections.arrays(self.host.variables, self.dtype)
            detector = self.layout.packed(of_events["detector"])
            detector[:, self.layout.count :] = -1  # repeated copies have none
            of_events["detector"] = detector
            for name, values in of_events.items():
                is_array = isinstance(values, np.ndarray)
                dtype = num if is_array and values.dtype.kind == "i" else None
                found[name] = self.to_device(values, dtype or values.dtype) if is_array else values
        return found

    def systems(self, value: float, count: int = 1) -> Callable[[int], cla.Array]:
        """Return a function of a number: one of `count` arrays full of `value` for the solver.

        They have entries for lanes that repeat a copy, too. An array takes the host as long as a
        launch, so each is made when it is first needed, while the device is busy.
        """
        size, align = self.size * self.dtype.itemsize, self.queue.device.mem_base_addr_align // 8
        each = -(-size // align) * align
        whole = cl.Buffer(self.queue.context, cl.mem_flags.READ_WRITE, count * each)
        cl.enqueue_fill_buffer(self.queue, whole, self.dtype.type(value), 0, count * each)
        shape = len(self.solver.plan.gather)

        def make(k: int) -> cla.Array:
            part = whole.get_sub_region(k * each, size)
            return cla.Array(self.queue, shape, self.dtype, data=part)

        return cache(make)

    def to_device(self, values: np.ndarray, dtype: Any = None) -> cla.Array:
        return to_device(self.queue, values, dtype or self.dtype)

    def room(self, size: int, owner: object) -> cla.Array:
        """Return an uninitialised array of `size` reals; it must not outlive the object `owner`.

        On a CPU the array is in NumPy's memory, which has large pages. When `owner` is deleted this
        memory is kept for the next gradient, because clearing new memory takes longer than a step.
        """
        if not copies.lends_all(self.queue.device):
            return cla.Array(self.queue, size, self.dtype)
        count, memory = size * self.dtype.itemsize, _ROOM.pop(self.model.forest, np.empty(0))
        if memory.nbytes < count + _VECTOR_BYTES:
            memory = np.empty(count + _VECTOR_BYTES, np.uint8)
        finalize(owner, _keep, self.queue, self.model.forest, memory).atexit = False
        first = -memory.ctypes.data % _VECTOR_BYTES
        values = memory[first : first + count].view(self.dtype)
        data = copies.lend(self.queue, values, True)
        return cla.Array(self.queue, size, self.dtype, data=data)

    def started(self) -> cla.Array:
        """Return the state at t = 0 on the device, (entries * lanes,)."""
        if self.start.shape[1] == self.lanes:
            return self.to_device(self.start)
        store = cla.Array(self.queue, self.start.size * self.lanes, self.dtype)
        self.bind("start_copies", {"start": self.to_device(self.start), "store": store})
        self._kernels["start_copies"].launch_columns(self.queue, self.layout.rows, self.start.size)
        return store

    def natural(self, values: cla.Array, entries: np.ndarray) -> np.ndarray:
        """Return the values of some entries in natural order, (copies * entries,) float64."""
        size = self.layout.count, len(entries)
        natural = cla.Array(self.queue, size[0] * max(1, size[1]), self.dtype)
        if size[1]:
            arrays = values, natural, self.to_device(entries, np.int32)
            if "to_natural" not in self._kernels:
                names = "packed", "natural", "entries"
                self.bind("to_natural", dict(zip(names, arrays, strict=True)))
            self._kernels["to_natural"].change(*arrays)
            self._kernels["to_natural"].launch_columns(self.queue, *size)
        return natural.get(self.queue)[: size[0] * size[1]].astype(np.float64, copy=False)

    def zeros(self, entries: int) -> cla.Array:
        return cla.zeros(self.queue, max(1, entries) * self.lanes, self.dtype)

    def bind(self, name: str, more: Mapping[str, Any]) -> None:
        if name not in self._programs:
            registers = _REGISTERS.get(name, 0) if self._capped else 0
            spec = replace(self.spec, kernel=name, registers=registers)
            self._programs[name] = program.build(self.queue.context, spec), spec
        arguments, changes = {**self.arrays, **more}, _CHANGES.get(name, ())
        self._kernels[name] = launches.bind(*self._programs[name], name, arguments, changes)

    def launch(self, name: str, queue: cl.CommandQueue, *changes: int | cla.Array) -> None:
        """Launch the kernel `name` between two steps; `changes` has its arguments `_CHANGES`."""
        kernel = self._kernels[name]
        kernel.change(*changes)
        kernel.launch(queue, *self._sizes[name == "take_step"])

    def prepared(
        self, d: cla.Array, x: cla.Array, b: cla.Array | None = None, solver: Solver | None = None
    ) -> SlotSolve:
        order = (solver or self.solver).engine.device_order()
        steps = order.prepare([d, self.u, self.arrays["system_b"] if b is None else b], x, False)
        return lambda: order.enqueue(steps, x, [])

    def new_rows(self, numbers: int = 1) -> cla.Array:
        return self.zeros((self.steps + 1) * max(1, len(self.recorded)) * numbers)

    def recorded_rows(self, on_device: cla.Array, last: cla.Array) -> list[np.ndarray]:
        """Read each record's rows; InputError if they or the voltages in `last` are not finite."""
        rows = on_device.get(self.queue).reshape(self.steps + 1, -1)
        start = self.start[self.recorded]
        rows[0].reshape(-1, self.lanes)[: len(start)] = start
        v = last[: self.layout.nodes * self.lanes].get(self.queue)
        if not (np.isfinite(rows).all() and np.isfinite(v).all()):
            raise InputError(refusal("gradient.run"))
        return [self._of_record(record, rows) for record in self.records]

    def _columns(self, record: Record) -> np.ndarray | slice:
        entry, copy = self.plan.entry(record)
        at = np.searchsorted(self.recorded, entry) * self.lanes + copy
        is_slice = len(at) > 0 and (np.diff(at) == 1).all()
        return slice(int(at[0]), int(at[-1]) + 1) if is_slice else at

    def _of_record(self, record: Record, rows: np.ndarray) -> np.ndarray:
        values: np.ndarray = rows[:: record.every, self._columns(record)]
        values = values.astype(np.float64, copy=len(self.records) > 1)
        return values if record.matrix is None else values @ record.matrix.T

    def by_rows(self, cotangents: Sequence[np.ndarray]) -> np.ndarray:
        """Return the loss's derivatives with respect to the recorded entries of each step's state.

        The result is (steps + 1, r, lanes), with r the length of `recorded`. `cotangents` has the
        derivatives with respect to each record's rows.
        """
        shape = self.steps + 1, max(1, len(self.recorded)) * self.lanes
        record, rows = self.records[0], cotangents[0]
        is_plain = isinstance(self._columns(record), slice) and record.matrix is None
        if is_plain and len(self.records) == 1 and rows.shape == shape:
            return rows.astype(self.dtype, copy=False).reshape(self.steps + 1, -1, self.lanes)
        by_rows = np.zeros(shape, self.dtype)
        for record, rows in zip(self.records, cotangents, strict=True):
            values = rows if record.matrix is None else rows @ record.matrix
            at, of_record = self._columns(record), by_rows[:: record.every]
            if isinstance(at, slice) or len(np.unique(at)) == len(at):
                of_record[:, at] += values.astype(self.dtype)
            else:  # for a column that is there twice
                where: Any = slice(None), at
                np.add.at(of_record, where, values.astype(self.dtype))
        return by_rows.reshape(self.steps + 1, -1, self.lanes)


class DeviceGradient:
    """Reverse-mode gradient on a device: advance from t = 0, then go back to t = 0.

    It has the methods of `ReferenceGradient`. With `starts` it goes back over INITIAL, too. Stretch
    k has the steps from ``bounds[k]`` to ``bounds[k + 1]``. The store on the device has all states
    in one stretch.
    """

    def __init__(self, steps: DeviceSteps, starts: bool) -> None:
        self._steps, self._starts = steps, starts
        slots = self.slots()
        self._stretch = slots - 1  # steps in a stretch, at most
        count = ceil(max(0, steps.steps + 1 - slots) / self._stretch)
        self._bounds = [*(k * self._stretch for k in range(count + 1)), steps.steps]
        self._kept = [steps.started()]  # each stretch's begin
        self._size = steps.slot * steps.layout.width
        self._store = steps.room(slots * self._size, self)
        d, x = self._systems = steps.systems(1, slots), steps.systems(0, slots)
        self._solves = cache(lambda k: steps.prepared(d(k), x(k)))

    def slots(self) -> int:
        """Return how many states the store has; with those that begin a stretch they fit."""
        of = self._steps
        state = of.slot * of.layout.width * of.dtype.itemsize
        size = state + 2 * of.size * of.dtype.itemsize  # with the matrix and the solution
        device, count = of.queue.device, of.steps + 1
        most = min(MEMORY, device.global_mem_size / 4, device.max_mem_alloc_size)
        # fewer and longer stretches were no faster on CPUs: bench/notes/gradients.md
        is_short = devices.is_cpu(device) and count * size > KEPT
        longest = isqrt(count) + 2 if is_short else count
        for slots in range(max(2, min(longest, int(most / size))), 1, -1):
            begins = ceil(max(0, count - slots) / (slots - 1))
            if begins * state + slots * size <= most:
                return slots
        raise InputError(
            f"a gradient of {of.steps} steps keeps {2 * isqrt(of.steps)} states of {size:.3g} "
            f"bytes; expected fewer copies at once, so that they fit into {most:.3g}"
        )

    def forward(self) -> list[np.ndarray]:
        of, last = self._steps, len(self._bounds) - 2
        self._rows = of.new_rows()
        self._bind("take_step")
        del self._kept[1:]
        for _ in self._advance(0, last, NOTES):
            pass
        return of.recorded_rows(
            self._rows, self._slot(self._place(last, of.steps - self._bounds[last]))
        )

    def _bind(self, name: str, **arrays: cla.Array) -> None:
        d, x = (array(0) for array in self._systems)
        usual = {"store": self._store, "rows": self._rows, "system_d": d, "changes": x}
        self._steps.bind(name, {**usual, **arrays})

    def _slot(self, k: int) -> cla.Array:
        return self._store[k * self._size : (k + 1) * self._size]

    def _place(self, number: int, k: int) -> int:
        """Return the slot of state `k` of a stretch: every second stretch begins at the end."""
        return self._stretch - k if number % 2 else k

    def _advance(self, first: int, last: int, more: int = 0) -> Iterator[None]:
        """Advance through the stretches from number `first` to number `last`, step by step.

        `more` has further bits for `turn_of`. Afterwards the store has all states in stretch
        `last`. Steps in earlier stretches alternate between two slots in the store.
        """
        of, begin, (kept_from, end) = self._steps, self._bounds[first], self._bounds[last:][:2]

        def slot(step: int) -> int:
            return self._place(
                last, abs(step - kept_from) if step >= kept_from else (kept_from - step) % 2
            )

        self._number, kept = last, self._kept[first]
        to = self._slot(slot(begin))
        cl.enqueue_copy(
            of.queue, to.base_data, kept.base_data, byte_count=kept.nbytes, dst_offset=to.offset
        )
        # the last state of any other stretch begins the next stretch, and is there
        for step in range(begin, end + (end == of.steps)):
            before, now = slot(max(step - 1, begin)), slot(step)
            # a stretch's begin has its events, and the run's end gets none
            delivers = DELIVERS * (step < of.steps and (step > begin or not begin))
            turn = turn_of(step - begin, end - begin, more | delivers)
            d, changes = self._systems[0](now), self._systems[1](before)
            of.launch("take_step", of.queue, step, turn, before, now, d, changes)
            if begin < step <= kept_from and step % self._stretch == 0:
                self._kept.append(self._slot(now).copy(of.queue))
            if step < end:
                self._solves(now)()
            yield

    def backward(self, cotangents: Sequence[np.ndarray]) -> Adjoint:
        """Return the loss's derivatives by all variables; `cotangents` has them by record rows."""
        of, spec = self._steps, self._steps.spec
        by_rows = of.by_rows(cotangents)
        found = {name: of.zeros(of.layout.nodes) for name in spec.sums}
        found |= {"slopes": of.zeros(of.plan.entries), "by_values": of.zeros(of.plan.num_values)}
        if spec.events:
            found["by_weight"] = of.to_device(np.zeros(len(of.connections.weight)))
            found["by_outside"] = of.to_device(np.zeros(of.connections.outside.size))
            slots = of.model.connections.max_delay + 1 if spec.surrogate else 0
            found["by_sum"] = of.to_device(np.zeros(slots * int(of.connections.first[-1])))
        right = of.systems(0)(0)
        solver, solution = of.beside if len(self._bounds) > 2 else of.solver, of.arrays["solution"]
        by_stretch = solver is not of.solver
        size = max(1, by_rows.size)
        rows = cla.Array(of.queue, size, of.dtype) if by_stretch else of.to_device(by_rows)
        self._bind("take_back", **{**found, "rows": rows, "system_b": right})
        d = self._systems[0]
        self._solves_back = cache(lambda k: of.prepared(d(k), solution, right, solver))
        at_once = _AT_ONCE if by_stretch else self._stretch + 1
        last = len(self._bounds) - 2
        if self._number != last:  # after another `backward`
            for _ in self._advance(last, last):
                pass
        for number in range(last, -1, -1):
            if by_stretch:
                self._bring(by_rows, number, rows)
            _follow(solver.queue, of.queue)
            again = self._advance(number - 1, number - 1) if number else iter(())
            for k in range(self._stretch, -1, -at_once):
                self._go_back(number, range(k, max(k - at_once, -1), -1), solver.queue)
                _follow(of.queue, solver.queue)
                for _ in islice(again, at_once):
                    pass
        _follow(of.queue, solver.queue)
        return self._adjoint(found, by_rows[0])

    def _bring(self, by_rows: np.ndarray, number: int, to: cla.Array) -> None:
        """Copy the derivatives by a stretch's rows, in a queue that waits for no kernel."""
        first, end = (step + 1 for step in self._bounds[number:][:2])
        values = np.ascontiguousarray(by_rows[first:end])
        if values.size:
            place = first * by_rows[0].nbytes
            cl.enqueue_copy(self._steps.copies, to.base_data, values, dst_offset=place)

    def _go_back(self, number: int, states: Sequence[int], queue: cl.CommandQueue) -> None:
        """Go back over some states of a stretch, which are in the store."""
        of, (begin, end) = self._steps, self._bounds[number:][:2]
        count = end - begin
        for k in (k for k in states if k <= count):
            now, before = self._place(number, k), self._place(number, max(k - 1, 0))
            changes = self._systems[1](self._place(number, max(0, min(k, count - 1))))
            of.launch("take_back", queue, begin + k, turn_of(k, count), now, before, changes)
            if k:
                self._solves_back(before)()

    def _adjoint(self, found: Mapping[str, cla.Array], by_first_row: np.ndarray) -> Adjoint:
        """Read the derivatives by the state at t = 0, and go back over INITIAL.

        `found` has the device's derivatives by name; `by_first_row` the derivatives by the values
        recorded at t = 0.
        """
        of, adjoint = self._steps, Adjoint(self._steps.host, None, self._steps.model)
        layout, plan = of.layout, of.plan
        for k, kind in enumerate(of.spec.kinds):
            for n, name in enumerate(kind.by):
                by_values = of.natural(found["by_values"], plan.first_value[k] + n)
                adjoint.parameters[k][name] = by_values
        if self._starts:
            nodes, slopes = np.arange(layout.nodes), found["slopes"]
            by_first = np.zeros((plan.entries, of.lanes))
            by_first[of.recorded] = by_first_row[: len(of.recorded)]

            def by(entries: np.ndarray) -> np.ndarray:
                first = by_first[entries, : layout.count].T.reshape(-1)
                return of.natural(slopes, entries) + first

            adjoint.v = by(nodes)
            for first, of_kind, kind in zip(plan.first, adjoint.states, of.spec.kinds, strict=True):
                for number, name in enumerate(kind.states):
                    of_kind[name] = by(first + number)
            for ion in of.spec.ions:
                for name, begin in zip(ion.names, ion.first, strict=True):
                    adjoint.ions[name] = by(begin + nodes)
        for name in of.spec.sums:
            adjoint.matrix[name] = of.natural(found[name], np.arange(layout.nodes))
        if of.spec.events:
            places = of.connections.number
            adjoint.weight[places] = found["by_weight"].get(of.queue)[: len(places)]
            if of.spec.outside:
                by_outside = found["by_outside"].get(of.queue)
                adjoint.event_weight[:] = of.connections.by_events(by_outside)
        if self._starts:
            adjoint.keep_start()
            adjoint.take_back(of.host.start_entries)
        adjoint.finish()
        return adjoint


def _follow(later: cl.CommandQueue, earlier: cl.CommandQueue) -> None:
    """Let later commands of one queue wait for all commands of another queue."""
    if later is not earlier:
        cl.enqueue_barrier(later, wait_for=[cl.enqueue_marker(earlier)])
        earlier.flush()


def _keep(queue: cl.CommandQueue, forest: Forest, memory: np.ndarray) -> None:
    """Store host memory for the next gradient, after all kernels that use it have ended."""
    queue.finish()
    if memory.nbytes <= KEPT:
        _ROOM[forest] = memory
