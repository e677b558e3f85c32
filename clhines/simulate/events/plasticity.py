"""Spike-timing-dependent plasticity of connections, on the device.

The pair rule, all spikes with all spikes, by traces (Brette and Goodman 2012, section 2.3, on the
access to synapses that it takes: forward rows for presynaptic spikes, backward rows for
postsynaptic ones). It acts at the presynaptic end: a source's spike is there in its own step, and
a postsynaptic one as well; the delay lies between the connection and its target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from numpy.typing import ArrayLike

from clhines.device import devices, program
from clhines.device.arrays import to_device
from clhines.errors import DeviceError, InputError
from clhines.model.connections import offsets_of
from clhines.model.schema import PLASTIC, Field
from clhines.network.plasticity import STDP
from clhines.plan.kernel_spec import TemplateSpec
from clhines.simulate.events.grid import Delivery

_SPIKES = (  # first parameters of both kernels
    "const int *restrict spike_source, const int *restrict spike_step",
    "const int *restrict spike_count, int capacity, const int *restrict marks, int turn",
    "int step, double amount, double least, double most, double inverse_scale, int decay_length",
    "const double *restrict decay, const double *restrict own_decay, int own_length",
    "const int *restrict first",
)
_CHANGES = "spike_source", "spike_step", "spike_count", "capacity", "turn", "step"
_CONNECTIONS = (  # and their last ones
    "const double *restrict other, const int *restrict other_step, double *restrict own",
    "int *restrict own_step, double *restrict weight, long *restrict integer",
)


@dataclass(frozen=True)
class PlasticSpec(TemplateSpec):
    """``plasticity.mako``: the pair rule."""

    template: ClassVar[str] = "simulate/plasticity"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "pre": (
            *(*_SPIKES, "const int *restrict cell", "const int *restrict place if indexed"),
            *_CONNECTIONS,
        ),
        "post": (*_SPIKES, "const int *restrict source, const int *restrict place", *_CONNECTIONS),
    }
    work_group: int
    indexed: bool = False  # the weights do not lie in the order of the forward rows


class Plasticity:
    """Connections whose weights change with the spikes of both ends; needs float64 on the device.

    `delivery` is made with ``largest=rule.largest(connections, plastic)``, or its unit is too fine.
    `cell_of_target` is the cell, numbered as sources are, that each target belongs to, -1 for none;
    `plastic` are the connections that the rule changes, in the order given to `Connections`.
    """

    def __init__(
        self,
        delivery: Delivery,
        rule: STDP,
        dt: float,
        cell_of_target: ArrayLike,
        plastic: ArrayLike = True,
    ) -> None:
        queue, connections = delivery.queue, delivery.connections
        if not devices.has_fp64(queue.device):
            raise DeviceError(f"{queue.device.name.strip()} has no float64, which STDP needs")
        if not dt > 0:
            raise InputError(f"dt is {dt} ms; expected more than 0")
        cells, mask = _checked(delivery, rule, cell_of_target, plastic)
        self.delivery, self.rule, self.connections = delivery, rule, connections
        weight = delivery.tables.laid(connections.weight[connections.order])
        self._weight = to_device(queue, weight, np.float64)
        self._decay = {
            name: to_device(queue, STDP.decay(tau, dt), np.float64)
            for name, tau in (("pre", rule.tau_plus), ("post", rule.tau_minus))
        }
        sources = connections.num_sources
        self._trace = {k: to_device(queue, np.zeros(sources), np.float64) for k in self._decay}
        self._last = {k: to_device(queue, np.zeros(sources), np.int32) for k in self._decay}
        on_cpu = devices.is_cpu(queue.device)
        group = min(16 if on_cpu else 256, queue.device.max_work_group_size)
        self._spec = PlasticSpec(group, delivery.tables.place is not None)
        self._groups = queue.device.max_compute_units * (2 if on_cpu else 16)
        # postsynaptic cells along the forward rows, and the backward rows
        c = connections
        cell = np.where(mask, cells[c.target], -1)[c.order]
        indices = np.flatnonzero(cell >= 0)
        indices = indices[np.argsort(cell[indices], kind="stable")]
        first, source = offsets_of(cell[indices], sources), c.source[c.order][indices]
        tables = {"first": c.row, "cell": cell}
        if self._spec.indexed:
            tables["place"] = delivery.tables.place
        self._pre = self._bound("pre", "post", rule.a_minus, **tables)
        tables = {"first": first, "source": source, "place": delivery.tables.where(indices)}
        self._post = self._bound("post", "pre", rule.a_plus, **tables)

    def _bound(
        self, own: str, other: str, amount: float, **tables: np.ndarray
    ) -> tuple[program.BoundKernel, int]:
        """Return the kernel of one end's spikes, and the work-groups along a row."""
        delivery, rule, queue = self.delivery, self.rule, self.delivery.queue
        numbers = {
            "amount": amount,
            "least": rule.w_min,
            "most": rule.w_max,
            "inverse_scale": 1 / delivery.incoming_scale,
        }
        given = {
            **{name: np.float64(number) for name, number in numbers.items()},
            **{name: to_device(queue, a, np.int32) for name, a in tables.items()},
            **dict.fromkeys(_CHANGES, np.int32(0)),
            **dict.fromkeys(_CHANGES[:3], delivery.marks[0]),
            "marks": delivery.marks[0],
            "decay_length": np.int32(len(self._decay[other])),
            "decay": self._decay[other],
            "own_decay": self._decay[own],
            "own_length": np.int32(len(self._decay[own])),
            "other": self._trace[other],
            "other_step": self._last[other],
            "own": self._trace[own],
            "own_step": self._last[own],
            "weight": self._weight,
            "integer": delivery.tables.weight,
        }
        built = program.build(queue.context, self._spec)
        longest = int(np.max(np.diff(tables["first"]), initial=1))
        across = max(1, min(self._groups, -(-longest // self._spec.work_group)))
        return program.bind(built, self._spec, own, given, _CHANGES), across

    def enqueue(
        self,
        spike_source: cla.Array,
        spike_step: cla.Array,
        spike_count: cla.Array,
        incoming: cla.Array,
        first_step: int,
        steps: int = 1,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event:
        """Deliver the spikes that were appended since the last call, and change the weights.

        Replaces `Delivery.enqueue`; the arguments are the same. All cells' spikes must
        be in the list, those of cells that are postsynaptic only as well.
        """
        delivery = self.delivery
        delivery.check_steps(steps)
        found = spike_source, spike_step, spike_count
        for step in range(first_step, first_step + steps):
            last = step if step == first_step + steps - 1 else -1
            self._launch(self._pre, found, step, wait_for)
            delivery.deliver(found, incoming, step, 1, last)
            event = self._launch(self._post, found, step)
        delivery.turn_over()
        return event

    def _launch(
        self,
        bound: tuple[program.BoundKernel, int],
        found: tuple[cla.Array, ...],
        step: int,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event:
        kernel, across = bound
        numbers = self.delivery.capacity, self.delivery.marks[1], step
        kernel.change(*found, *(np.int32(n) for n in numbers))
        group, along = self._spec.work_group, max(1, self._groups // across)
        return kernel.launch(self.delivery.queue, across * group, group, wait_for, along)

    # -- state

    @property
    def weight(self) -> np.ndarray:
        """(k,) float64: the weights now, in the order given to `Connections`."""
        weight, order = np.empty(self.connections.count), self.connections.order
        places = self.delivery.tables.where(np.arange(len(order)))
        weight[order] = self._weight.get(self.delivery.queue)[places]
        return weight

    def state(self) -> dict[str, np.ndarray]:
        """Return everything that a run changes, for `restore`."""
        queue = self.delivery.queue
        found = {f.key: self._traces(f).get(queue) for f in PLASTIC[1:]}
        return {PLASTIC[0].key: self.weight, **found}

    def _traces(self, field: Field) -> cla.Array:
        return (self._trace if field.what == "plastic_trace" else self._last)[field.name]

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore the arrays of `state`; those of other connections raise an InputError."""
        for name, values in self.state().items():
            if name not in state or state[name].shape != values.shape:
                raise InputError(f"state of plasticity: {name} is not of these connections")
        weight = state[PLASTIC[0].key]
        if len(weight):
            self._weight.set(self.delivery.tables.laid(weight[self.connections.order]))
            self.delivery.set_weights(weight)
        for field in PLASTIC[1:]:
            self._traces(field).set(state[field.key])


def _checked(
    delivery: Delivery, rule: STDP, cell_of_target: ArrayLike, plastic: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cells as int64 and the mask of plastic connections."""
    c = delivery.connections
    cells = np.asarray(cell_of_target)
    if cells.shape != (delivery.num_targets,) or not np.issubdtype(cells.dtype, np.integer):
        raise InputError(
            f"cell_of_target has shape {cells.shape}, dtype {cells.dtype}; "
            f"expected ({delivery.num_targets},) integers"
        )
    bad = (cells < -1) | (cells >= c.num_sources)
    if bad.any():
        k = int(np.argmax(bad))
        raise InputError(
            f"cell_of_target of target {k} is {cells[k]}; expected -1 to {c.num_sources - 1}, "
            "the sources"
        )
    mask = np.asarray(plastic)
    if mask.shape not in ((), (c.count,)) or mask.dtype != np.bool_:
        raise InputError(
            f"plastic has shape {mask.shape}, dtype {mask.dtype}; expected ({c.count},) bool"
        )
    mask = np.broadcast_to(mask, (c.count,))
    outside = mask & ((c.weight < rule.w_min) | (c.weight > rule.w_max))
    if outside.any():
        k = int(np.argmax(outside))
        raise InputError(
            f"weight of connection {k} is {c.weight[k]:g}; expected {rule.w_min:g} to "
            f"{rule.w_max:g}, the bounds of the rule"
        )
    if delivery.incoming_scale < c.scale(largest=rule.largest(c, mask)):
        raise InputError(
            "the sums could overflow once weights have grown; make the Delivery with "
            "largest=rule.largest(connections, plastic)"
        )
    return cells.astype(np.int64), mask
