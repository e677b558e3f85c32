"""The gradient of a run on a device: copies of a network side by side, without events.

A run forward keeps what some steps begin with. From the last of them on, the steps to the next one
are taken again, all of them kept, and then taken back; so on to the start. The start itself, with
INITIAL, is taken back by the reference.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import isqrt
from typing import Any, TypeAlias

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.arrays import inverse
from clhines.core.errors import InputError
from clhines.simulator.device import launches
from clhines.simulator.engines.reference import Clock, neighbours
from clhines.simulator.gradients.adjoint import Adjoint
from clhines.simulator.gradients.kernels import takes_vectors
from clhines.simulator.gradients.plan import CopyLayout, GradientPlan
from clhines.simulator.gradients.trace import TracedRun
from clhines.simulator.model.model import Model
from clhines.simulator.records.records import Record
from clhines.solver.device import devices, program
from clhines.solver.device.arrays import to_device
from clhines.solver.plan.plan import real_name
from clhines.solver.solver import Solver

_VECTOR_BYTES = 32  # on CPUs; LLVM 18 crashes on the conditions of vectors of 64
_GROUP = 128  # work-items
_REGISTERS = 64  # of a work-item
Direction: TypeAlias = tuple[int, str, np.ndarray]  # a kind, a parameter, of some instances
_SECTOR = 32  # bytes that GPUs read and write at once
MEMORY = 8e9  # bytes on the device, at most


class DeviceGradient:
    """A run of a model on a device from t = 0, and back again; as `ReferenceGradient`."""

    def __init__(
        self,
        model: Model,
        records: Sequence[Record],
        steps: int,
        queue: cl.CommandQueue,
        dtype: np.dtype,
        wanted: Mapping[int, Collection[str]],
        matrix: bool,
        axial: bool,
        starts: bool = True,
        directions: Sequence[Direction] = (),
    ) -> None:
        self.model, self.records, self.steps = model, records, steps
        self._queue, self._dtype = queue, np.dtype(dtype)
        self._starts, self.directions = starts, directions
        self._host = TracedRun(model, ())
        vectors = devices.is_cpu(queue.device)
        vectors &= all(takes_vectors(k.mechanism) for k in model.kinds)
        width = _VECTOR_BYTES // self._dtype.itemsize if vectors else 1
        if directions and model.forest.num_cells % width:
            width = 1  # no copies that fill up
        self._layout = CopyLayout(model, width)
        variables, real = self._host.variables, real_name(self._dtype)
        self._plan = GradientPlan(variables, self._layout, wanted, matrix, real)
        self._solver = Solver(model.forest, "auto", self._dtype, None, queue)
        places = self._places()
        registers = _REGISTERS if devices.limits(queue.device).ptx and real == "double" else 0
        tile = self._tile(places)
        self._spec = replace(self._plan.spec, tile=tile, axial=axial, registers=registers,
                             directions=self._seeded())  # fmt: skip
        self._given = self._arguments(places)
        self._built = program.build(queue.context, self._spec)
        self._kernels: dict[str, tuple[launches.BoundKernel, list[str]]] = {}

    def _seeded(self) -> tuple[tuple[int, str, int], ...]:
        """Return kinds and parameters of directions, and where the seeds of each begin."""
        count = [self.model.kinds[k].count // self._layout.count for k, _, _ in self.directions]
        begins = np.cumsum([0, *count])
        directions = zip(self.directions, begins[:-1], strict=True)
        return tuple((k, name, int(begin)) for (k, name, _), begin in directions)

    def _bind(self, names: Sequence[str], more: Mapping[str, Any]) -> None:
        """Bind kernels to arrays."""
        for name in names:
            places = ("v_now", "v_next") if name == "take_step" else ()
            times = "t_0", "t_1", "t_2", "t_3"
            changes = ("ends", "begins", *times, "row", *places, "now", "next")
            arguments = {**self._given, **more}
            bound = launches.bind(self._built, self._spec, name, arguments, changes)
            self._kernels[name] = bound, [p.name for p in self._spec.parameters(name)]

    # -- what kernels take ---------------------------------------------------------------------

    def _places(self) -> np.ndarray:
        """(nodes, lanes): where each is in the solver's order; copies that fill up are behind."""
        layout, gather = self._layout, self._solver.plan.gather
        at = np.flatnonzero(gather >= 0)
        places = layout.packed(at[inverse(gather[at])])
        filled = layout.rows * layout.width - layout.count
        self._size = len(gather) + layout.nodes * filled
        if filled:
            spare = np.arange(len(gather), self._size).reshape(layout.nodes, filled)
            places[:, layout.count :] = spare
        return places

    def _tile(self, places: np.ndarray) -> int:
        """Return how many nodes go side by side, where copies do not lie so in the solver."""
        if devices.is_cpu(self._queue.device):
            return 1
        if self._layout.rows == 1:
            return 32
        return 1 if places[0, 1] == places[0, 0] + 1 else _SECTOR // self._dtype.itemsize

    def _arguments(self, places: np.ndarray) -> dict[str, Any]:
        plan, columns = self._plan, self._plan.columns
        model, layout, n = self.model, self._layout, self._layout.nodes
        tree = neighbours(model.forest)[:, :n]
        nodes = np.unique([i for r in self.records for i in r.index % n])
        column = np.full(n, -1, np.int32)
        column[nodes] = np.arange(len(nodes))
        self._recorded = nodes
        self._u = self._solver.to_device_order(model.u)
        parent, child, sibling = tree
        num = np.int32
        arrays: dict[str, Any] = {
            "num_nodes": num(n),
            "num_rows": num(layout.rows),
            "num_columns": num(len(nodes)),
            "order": self._to_device(np.argsort(places[:, 0]), np.int32),
            "of_node": self._to_device(plan.of_node.T, np.int32),
            "place": self._to_device(places, np.int32),
            "parent": self._to_device(parent, np.int32),
            "child": self._to_device(child, np.int32),
            "sibling": self._to_device(sibling, np.int32),
            "column": self._to_device(column, np.int32),
            "numbers": self._to_device(np.concatenate([np.zeros(0), *columns.numbers])),
            "values": self._to_device(_joined(columns.values)),
            "tables": self._to_device(plan.tables),
            "system_b": self._system(0),
            "solution": self._system(0),
            "dt": self._dtype.type(model.dt),
            "solved_dt": self._dtype.type(model.solved_dt),
            **dict.fromkeys(("t_0", "t_1", "t_2", "t_3"), self._dtype.type(0)),
            **dict.fromkeys(("ends", "begins", "row"), num(0)),
            **dict.fromkeys(("v_now", "v_next", "now", "next"), np.int64(0)),
        }
        return arrays

    def _system(self, value: float) -> cla.Array:
        """Return a right-hand side or so, in the solver's order; lanes beyond it have room."""
        size = self._size * self._dtype.itemsize
        buffer = cl.Buffer(self._queue.context, cl.mem_flags.READ_WRITE, size)
        cl.enqueue_fill_buffer(self._queue, buffer, self._dtype.type(value), 0, size)
        shape = len(self._solver.plan.gather)
        return cla.Array(self._queue, shape, self._dtype, data=buffer)

    def _to_device(self, values: np.ndarray, dtype: Any = None) -> cla.Array:
        return to_device(self._queue, values, dtype or self._dtype)

    # -- forward -------------------------------------------------------------------------------

    def keep_every(self) -> int:
        """Return how many steps there are from one state that is kept to the next.

        The square root of all of them, or fewer, so that both fit into `MEMORY`; an even number.
        """
        steps, room = max(1, self.steps), MEMORY / self._slot_bytes
        for stretch in range(isqrt(steps) // 2 * 2 + 2, 0, -2):
            if stretch + 1 + -(-steps // stretch) <= room:
                return stretch
        raise InputError(
            f"a gradient of {steps} steps keeps {2 * isqrt(steps) + 1} states of "
            f"{self._slot_bytes:.3g} bytes; expected fewer copies at once, so that they fit into "
            f"{MEMORY:.3g}"
        )

    @property
    def _slot(self) -> int:
        """Rows of a slot: voltages and states."""
        return self._plan.entries * self._layout.rows

    @property
    def _slot_bytes(self) -> int:
        """Bytes of a slot, and of a system and its solution."""
        lanes = self._slot * self._layout.width + 2 * self._size
        return lanes * self._dtype.itemsize

    def _start(self) -> np.ndarray:
        """Values of voltages and states at the start, by entry."""
        variables, layout = self._host.variables, self._layout
        parts = [layout.packed(variables.v)]
        for states in variables.states:
            parts += [layout.packed(values) for values in states.values()]
        return np.concatenate([p.reshape(-1) for p in parts if p.size])

    def forward(self) -> list[np.ndarray]:
        """Take all steps; return the rows of each record."""
        layout = self._layout
        self._stretch = stretch = self.keep_every()
        lanes = layout.rows * layout.width
        slots = max(2, min(stretch, self.steps) + 1)
        self._store = cla.empty(self._queue, slots * self._slot * layout.width, self._dtype)
        self._kept = [self._to_device(self._start())]
        width = max(1, len(self._recorded))
        self._rows = cla.zeros(self._queue, (self.steps + 1) * width * lanes, self._dtype)
        self._systems = [(self._system(1), self._system(0))]
        d, x = self._systems[0]
        self._bind(["take_step"], {**self._arrays, "system_d": d, "changes": x})
        self._load(0)
        for step in range(self.steps + 1):  # states stay in a slot; neighbours read voltages
            v_slots = max(step - 1, 0) % 2, step % 2
            self._launch("take_step", step, step > 0, step < self.steps, step, *v_slots, 0, 0)
            if step and step % stretch == 0 and step < self.steps:
                self._kept.append(self._store[: self._kept[0].size].copy(self._queue))
            if step < self.steps:
                self._solve(d, x)
        return self._recorded_rows()

    def _recorded_rows(self) -> list[np.ndarray]:
        """Return the rows of each record, of all that the device has recorded."""
        layout = self._layout
        lanes, width = layout.rows * layout.width, max(1, len(self._recorded))
        rows = self._rows.get(self._queue).reshape(self.steps + 1, width, lanes)
        rows[0] = layout.packed(self._host.variables.v)[self._recorded]
        self._check(rows)
        return [self._of_record(record, rows) for record in self.records]

    @property
    def _arrays(self) -> dict[str, cla.Array]:
        return {"store": self._store, "rows": self._rows}

    def _check(self, rows: np.ndarray) -> None:
        if not np.isfinite(rows).all():
            raise InputError("gradient(): a voltage is not finite; run() says where and when")

    def _of_record(self, record: Record, rows: np.ndarray) -> np.ndarray:
        values = self._columns_of(rows[:: record.every], record).astype(np.float64)
        return values if record.matrix is None else values @ record.matrix.T

    def _columns_of(self, rows: np.ndarray, record: Record) -> np.ndarray:
        n = self._layout.nodes
        at = np.searchsorted(self._recorded, record.index % n)
        values: np.ndarray = rows[:, at, record.index // n]
        return values

    def _load(self, number: int) -> None:
        kept = self._kept[number]
        cl.enqueue_copy(self._queue, self._store.base_data, kept.base_data, byte_count=kept.nbytes)

    @cached_property
    def _times(self) -> np.ndarray:
        """(steps + 1, 4): the begin of the step before, and begin, middle and end of a step."""
        clock, half = Clock(self.model.dt), 0.5 * self.model.dt
        begin = np.array([clock.at(step) for step in range(self.steps + 1)])
        before = np.concatenate([[0.0], begin[:-1]])
        times = np.stack([before, begin, begin + half, begin + half + half], axis=1)
        return times.astype(self._dtype)

    def _launch(
        self, name: str, step: int, ends: bool, begins: bool, row: int, *slots: int, **arrays: Any
    ) -> None:
        """Launch a kernel between two steps, the second of which is `step`."""
        kernel, names = self._kernels[name]
        for argument, array in arrays.items():
            kernel[names.index(argument)] = array
        places = (np.int64(slot * self._slot) for slot in slots)
        num = np.int32
        turns = num(ends), num(begins)
        kernel.change(*turns, *self._times[step], num(row), *places)
        tile = self._spec.tile if name == "take_step" else 1
        columns, rows = self._layout.rows * tile, -(-self._layout.nodes // tile)
        kernel.launch_columns(self._queue, columns, rows, _GROUP)

    def _solve(self, d: cla.Array, x: cla.Array) -> None:
        self._solver.enqueue(d, self._u, self._given["system_b"], out=x, packed=True)

    # -- back ----------------------------------------------------------------------------------

    def backward(self, cotangents: Sequence[np.ndarray]) -> Adjoint:
        """Return the derivatives of a loss by everything, of those by the rows."""
        layout, stretch = self._layout, self._stretch
        by_rows = self._by_rows(cotangents)
        self._rows.set(by_rows.reshape(-1), self._queue)
        slopes, values = self._zeros(self._plan.entries), self._zeros(self._plan.num_values)
        names = ["by_diagonal", "by_right", "by_conductance"] if self._spec.matrix else []
        names += ["by_u"] if self._spec.axial else []
        matrix = {name: self._zeros(layout.nodes) for name in names}
        while len(self._systems) < min(stretch, self.steps):
            self._systems.append((self._system(1), self._system(0)))
        more = {**self._arrays, "slopes": slopes, "by_values": values, **matrix}
        d, x = self._systems[0]
        self._bind(["take_step", "take_back"], {**more, "system_d": d, "changes": x})
        end = self.steps
        for number in reversed(range(len(self._kept))):
            begin = number * stretch
            self._load(number)
            self._take_back(begin, end - begin)
            end = begin
        return self._adjoint(slopes, values, matrix, by_rows[0])

    def _take_back(self, begin: int, steps: int) -> None:
        """Take steps again, keep all of them, and take them back."""
        systems = self._systems
        for k in range(steps + 1):
            before = max(k - 1, 0)
            arrays = {"changes": systems[before][1]}
            if k < steps:
                arrays["system_d"] = systems[k][0]
            slots = before, k, before, k
            self._launch("take_step", begin + k, k > 0, k < steps, -1, *slots, **arrays)
            if k < steps:
                self._solve(*systems[k])
        for k in reversed(range(steps + 1)):
            changes = systems[min(k, steps - 1)][1]
            self._launch(
                "take_back",
                begin + k,
                k > 0,
                k < steps,
                begin + k,
                k,
                max(k - 1, 0),
                changes=changes,
            )
            if k:
                self._solve(systems[k - 1][0], self._given["solution"])

    def _zeros(self, entries: int) -> cla.Array:
        lanes = self._layout.rows * self._layout.width
        return cla.zeros(self._queue, max(1, entries) * lanes, self._dtype)

    def _by_rows(self, cotangents: Sequence[np.ndarray]) -> np.ndarray:
        """Return the derivatives by the rows of all recorded nodes and all steps."""
        layout = self._layout
        width = max(1, len(self._recorded))
        by_rows = np.zeros((self.steps + 1, width, layout.rows * layout.width), self._dtype)
        for record, rows in zip(self.records, cotangents, strict=True):
            at = np.searchsorted(self._recorded, record.index % layout.nodes)
            values = rows if record.matrix is None else rows @ record.matrix
            by_column = np.moveaxis(by_rows[:: record.every], 0, 2)
            where = at, record.index // layout.nodes
            np.add.at(by_column, where, values.T.astype(self._dtype))
        return by_rows

    def _adjoint(
        self,
        slopes: cla.Array,
        values: cla.Array,
        matrix: dict[str, cla.Array],
        by_first_row: np.ndarray,
    ) -> Adjoint:
        """Return the derivatives at the start, and take them back through it."""
        layout, model, adjoint = self._layout, self.model, Adjoint(self._host)
        lanes = layout.rows * layout.width
        wanted = slopes if self._starts else slopes[: layout.nodes * lanes]
        by_entry = wanted.get(self._queue).reshape(-1, lanes)
        by_v = by_entry[: layout.nodes].copy()
        by_v[self._recorded] += by_first_row[: len(self._recorded)]
        adjoint.v = layout.unpacked(by_v)
        for kind, of_kind in zip(self._spec.kinds, adjoint.states, strict=True):
            for number, name in enumerate(kind.states if self._starts else ()):
                first = kind.first_state + number * kind.count
                of_kind[name][:] = layout.unpacked(by_entry[first : first + kind.count])
        by_value = values.get(self._queue).reshape(-1, lanes)
        for k, name, first in self._plan.by:
            count = model.kinds[k].count // layout.count
            by_parameter = layout.unpacked(by_value[first : first + count])
            adjoint.parameters[k][name][:] = by_parameter
        if matrix:
            found = {k: layout.unpacked(a.get(self._queue)) for k, a in matrix.items()}
            adjoint.matrix = {
                "capacitance": found["by_diagonal"] / model.solved_dt,
                "constant_d": found["by_diagonal"],
                "u": found.get("by_u", np.zeros(len(adjoint.v))),
                "constant_b": found["by_right"],
                "constant_g": found["by_conductance"],
            }
        adjoint.keep_start()
        if self._starts:
            adjoint.take_back(self._host.start_entries)
        adjoint.finish()
        return adjoint


def _joined(values: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([v.reshape(-1) for v in values]) if values else np.zeros(16)
