"""Plastic weights on a device: a `Rule`, printed as kernels.

Presynaptic spikes read the forward rows (connections by source), postsynaptic spikes the backward
rows (connections by target), as in Brette and Goodman 2012, section 2.3. A rule acts at the
presynaptic end: pre- and postsynaptic spikes act on the weight in the step in which they occur, and
the delay is between the connection and its target.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from numpy.typing import ArrayLike

from clhines.core.arrays import offsets
from clhines.core.errors import DeviceError, InputError
from clhines.simulator.device import launches
from clhines.simulator.events.grid import Delivery, NewSpikes
from clhines.simulator.mechanisms.text.rules import REWARD, SIDES, WEIGHT, RuleText, read_rule
from clhines.simulator.model.connections import offsets_of
from clhines.simulator.model.schema import Field, plastic_fields, split_name
from clhines.simulator.network.plasticity import Rule
from clhines.solver.device import devices, program
from clhines.solver.device.arrays import set_zero, to_device
from clhines.solver.plan.kernel_spec import TemplateSpec

_SPIKES = (
    "const int *restrict spike_source, const int *restrict spike_step",
    "const int *restrict spike_count, int capacity, const int *restrict marks, int turn, int step",
)
_RULE = (
    "const double *restrict value, const int *restrict first_decay, const double *restrict decay",
    "double *restrict pre_trace, int *restrict pre_step, double *restrict post_trace",
    "int *restrict post_step, int sources, int *restrict wrong",
)
_WEIGHTS = (
    "double least, double most, double inverse_scale, double *restrict synapse_trace",
    "int *restrict synapse_step, int connections, double *restrict weight",
    "long *restrict integer",
)
_CHANGES = "spike_source", "spike_step", "spike_count", "capacity", "turn", "step"
_ROWS = "const int *restrict first"
# postsynaptic cell by position in the rows; -1 if the weight is fixed
_CELLS = "const int *restrict cell"


@dataclass(frozen=True)
class Trace:
    """A plasticity rule's trace (a decaying sum over spikes) in the form that kernels use."""

    name: str
    side: str
    number: int  # its decay's index
    at: str  # OpenCL expression for its entry in an array


@dataclass(frozen=True)
class PlasticSpec(TemplateSpec):
    template: ClassVar[str] = "simulator/plasticity"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "pre": (*_SPIKES, *_RULE, *_WEIGHTS, _ROWS, _CELLS),
        "post": (
            *(*_SPIKES, *_RULE, *_WEIGHTS, _ROWS),
            "const int *restrict source, const int *restrict place",
        ),
        "pre_traces": (*_SPIKES, *_RULE),
        "post_traces": (*_SPIKES, *_RULE),
        "reward": ("double reward, int step", *_RULE, *_WEIGHTS, _CELLS),
    }
    work_group: int
    text: str = field(repr=False)

    @cached_property
    def about(self) -> RuleText:
        return read_rule(self.text)

    @cached_property
    def traces(self) -> tuple[Trace, ...]:
        traces, rows = [], dict.fromkeys(SIDES, 0)
        for number, (name, line) in enumerate(self.about.traces.items()):
            side, row = line.sort, rows[line.sort]
            index, count = ("i", "connections") if side == "synapse" else (f"{side}_at", "sources")
            at = f"{row} * (size_t){count} + {index}" if row else index
            traces.append(Trace(name, side, number, f"{side}_trace[{at}]"))
            rows[side] += 1
        return tuple(traces)

    @property
    def growth(self) -> str:
        return self.about.printed_growth("double")

    @property
    def last(self) -> int:
        """Index of the weight's own decay in the decay tables, after the traces' decays."""
        return len(self.traces)

    def of_side(self, side: str) -> list[Trace]:
        return [t for t in self.traces if t.side == side]

    def read(self, event: str) -> list[Trace]:
        """Return the cells' traces that connections read at an event, ``pre`` or ``post``."""
        used = self.about.uses(event, "synapse")
        return [t for t in self.traces if t.name in used and t.side != "synapse"]

    def apart(self, event: str) -> bool:
        return any(t.side == event for t in self.read(event))

    def kept_at(self, event: str) -> list[Trace]:
        """Return the connections' traces that are updated at `event`, such as ``pre``.

        These are all traces if the rule uses one at the event, or if weights change between events;
        else none.
        """
        used = self.about.uses(event, "synapse")
        traces = self.of_side("synapse")
        return traces if self.growth or any(t.name in used for t in traces) else []

    def weighs(self, event: str) -> bool:
        return bool(self.growth) or WEIGHT in self.about.uses(event, "synapse")

    def changes(self, event: str) -> bool:
        return self.weighs(event) or bool(self.kept_at(event))


class Plasticity:
    """Plastic connections, whose weights change with the spikes of both ends, on a device.

    The device needs float64. Make `delivery` with ``largest=rule.max_weight(connections,
    plastic)``; otherwise its unit is too fine. `cell_of_target`, by target, is the cell's number as
    a source, or -1. `plastic` selects the connections that the rule changes, in the order of the
    arguments of `GridConnections`.
    """

    def __init__(
        self,
        delivery: Delivery,
        rule: Rule,
        dt: float,
        cell_of_target: ArrayLike,
        plastic: ArrayLike = True,
    ) -> None:
        queue, connections = delivery.queue, delivery.connections
        if not devices.has_fp64(queue.device):
            raise DeviceError(f"{queue.device.name.strip()} has no float64, which plasticity needs")
        mask = np.broadcast_to(plastic, (connections.count,))
        if delivery.incoming_scale < connections.scale(largest=rule.max_weight(connections, mask)):
            raise InputError(
                "the sums could overflow once weights have grown; make the Delivery with "
                "scale=connections.scale(largest=rule.max_weight(connections, plastic))"
            )
        self.delivery, self.rule, self.connections = delivery, rule, connections
        weight = connections.weight[connections.order]
        self._weight = to_device(queue, weight, np.float64)
        counts = dict.fromkeys(SIDES, connections.num_sources) | {"synapse": connections.count}
        self._traces = {
            side: to_device(queue, np.zeros(counts[side] * len(names)), np.float64)
            for side, names in rule.kept.items()
        }
        self._steps = {
            side: to_device(queue, np.zeros(counts[side] if names else 0), np.int32)
            for side, names in rule.kept.items()
        }
        self._wrong = to_device(queue, np.zeros(1), np.int32)
        on_cpu = devices.is_cpu(queue.device)
        most = queue.device.max_work_group_size
        self._spec = PlasticSpec(min(16 if on_cpu else 256, most), rule.text)
        self._groups = queue.device.max_compute_units * (2 if on_cpu else 16)
        # postsynaptic cells in the forward rows; then the backward rows
        c = connections
        cell = np.where(mask, np.asarray(cell_of_target)[c.target], -1)[c.order]
        indices = np.flatnonzero(cell >= 0)
        indices = indices[np.argsort(cell[indices], kind="stable")]
        first, source = offsets_of(cell[indices], c.num_sources), c.source[c.order][indices]
        self._shared = self._arguments(dt)
        forward = {"first": c.row, "cell": cell}
        self._pre = self._bound("pre", **forward)
        self._post = self._bound("post", first=first, source=source, place=indices)
        if REWARD in rule.about.actions:
            self._reward = self._kernel("reward", ("reward", "step"), forward)

    def _arguments(self, dt: float) -> dict[str, launches.KernelArgument]:
        delivery, rule, queue, c = self.delivery, self.rule, self.delivery.queue, self.connections
        decays = rule.decays(dt)
        arrays = {
            "value": (np.array([*rule.parameters.values()]), np.float64),
            "first_decay": (offsets(np.array([len(d) for d in decays], int)), np.int32),
            "decay": (np.concatenate([np.zeros(0), *decays]), np.float64),
        }
        return {
            **{name: to_device(queue, *array) for name, array in arrays.items()},
            **{f"{side}_trace": array for side, array in self._traces.items()},
            **{f"{side}_step": array for side, array in self._steps.items()},
            **dict.fromkeys(_CHANGES, np.int32(0)),
            **dict.fromkeys(_CHANGES[:3], delivery.marks[0]),
            **{"marks": delivery.marks[0], "wrong": self._wrong, "reward": np.float64(0)},
            **{"sources": np.int32(c.num_sources), "connections": np.int32(c.count)},
            **{"weight": self._weight, "integer": delivery.tables.weight},
            **{"least": np.float64(rule.w_min), "most": np.float64(rule.w_max)},
            "inverse_scale": np.float64(1 / delivery.incoming_scale),
        }

    def _kernel(
        self, name: str, changes: tuple[str, ...], tables: dict[str, np.ndarray]
    ) -> launches.BoundKernel:
        queue = self.delivery.queue
        built = program.build(queue.context, self._spec)
        tables_here = {n: to_device(queue, a, np.int32) for n, a in tables.items()}
        return launches.bind(built, self._spec, name, self._shared | tables_here, changes)

    def _bound(
        self, event: str, **tables: np.ndarray
    ) -> list[tuple[launches.BoundKernel, int, int]]:
        """Return the kernels for an `event`: spikes of sources (``pre``) or targets (``post``).

        `tables` are index tables, kernel arguments by name; ``first`` is where the connections of
        each source or target begin. With each kernel come two work-group counts: for one spike's
        connections, and for spikes handled at the same time.
        """
        longest = int(np.max(np.diff(tables["first"]), initial=1))
        across = max(1, min(self._groups, -(-longest // self._spec.work_group)))
        along = max(1, self._groups // across)
        kernels = [(self._kernel(event, _CHANGES, tables), across, along)]
        if self._spec.apart(event):
            kernels.append((self._kernel(f"{event}_traces", _CHANGES, {}), 1, 1))
        return kernels

    def enqueue(
        self, new_spikes: NewSpikes, incoming: cla.Array, first_step: int, steps: int = 1
    ) -> cl.Event:
        """Deliver new spikes as `Delivery.enqueue`, and change weights."""
        delivery = self.delivery
        new_steps = delivery.steps_from(first_step, steps)
        for step in new_steps:
            self._launch(self._pre, new_spikes, step)
            delivery.deliver(new_spikes, incoming, range(step, step + 1), step == new_steps[-1])
            event = self._launch(self._post, new_spikes, step)
        delivery.turn_over()
        return event

    def _launch(
        self, kernels: list[tuple[launches.BoundKernel, int, int]], new_spikes: NewSpikes, step: int
    ) -> cl.Event:
        queue, group = self.delivery.queue, self._spec.work_group
        numbers = self.delivery.capacity, self.delivery.marks[1], step
        for kernel, across, along in kernels:
            kernel.change(*new_spikes, *(np.int32(n) for n in numbers))
            event = kernel.launch(queue, across * group, group, rows=along)
        return event

    def reward(self, reward: float, step: int) -> None:
        queue, group = self.delivery.queue, self._spec.work_group
        self._reward.change(np.float64(reward), np.int32(step))
        self._reward.launch(queue, self._groups * group, group)

    def check(self) -> None:
        if self._wrong.get(self.delivery.queue)[0]:
            raise self.rule.not_finite()

    @property
    def weight(self) -> np.ndarray:
        """Weights after the last events, (k,) float64, in the order of `GridConnections`."""
        return self._of(next(plastic_fields(self.rule)))

    def state(self) -> dict[str, np.ndarray]:
        return {f.key: self._of(f) for f in plastic_fields(self.rule)}

    def _place(self, field: Field) -> tuple[cla.Array, slice]:
        count = self.connections.count if field.per == "plastic" else self.connections.num_sources
        side, row = split_name(field.name)
        if field.family == "plastic_trace":
            return self._traces[side], slice(row * count, (row + 1) * count)
        return self._steps[side] if field.family == "plastic_step" else self._weight, slice(
            0, count
        )

    def _of(self, field: Field) -> np.ndarray:
        array, place = self._place(field)
        values = array.get(self.delivery.queue)[place]
        if field.per == "plastic":
            values[self.connections.order] = values.copy()
        return values

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore the arrays in `state`; raise InputError if they belong to other connections."""
        for name, values in self.state().items():
            if name not in state or state[name].shape != values.shape:
                raise InputError(f"state of plasticity: {name} is not of these connections")
        queue = self.delivery.queue
        set_zero(self._wrong, queue)
        for one in plastic_fields(self.rule):
            array, place = self._place(one)
            values, new = array.get(queue), state[one.key]
            if one.per == "plastic":
                new = new[self.connections.order]
            values[place] = new
            array.set(values, queue)
        if self.connections.count:
            self.delivery.set_weights(self.weight)
