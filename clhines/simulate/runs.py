"""A run on a device: executor, state and delivery of spikes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from clhines.device import devices
from clhines.device.devices import is_cpu
from clhines.errors import InputError
from clhines.simulate.delivery import Delivery
from clhines.simulate.epoch import BlockEpochs
from clhines.simulate.epoch_vector import CellEpochs
from clhines.simulate.plasticity import Plasticity
from clhines.simulate.ranks import Received
from clhines.simulate.state import Chunk, Record, State, external_sums, largest_weights, values_now
from clhines.simulate.steps import Steps

NO_MEMORY = (
    cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE,
    cl.status_code.OUT_OF_HOST_MEMORY,
    cl.status_code.INVALID_BUFFER_SIZE,
)


def choose_executor(
    state: State, path: str, method: str, options: dict[str, Any]
) -> tuple[str, Any]:
    """Choose what advances the cells; its path and itself."""
    device, plain = state.queue.device, method == "auto" and not options
    if path == "epochs" and not plain:
        raise InputError("path='epochs' uses no solver; method and its options are for 'steps'")
    if path == "steps" or not plain:
        return "steps", Steps(state, method, **options)
    if is_cpu(device):
        return "epochs", CellEpochs(state)
    try:
        return "epochs", BlockEpochs(state.model, state, devices.limits(device))
    except InputError:  # a cell is too large for a work-group
        if path == "epochs":
            raise
    return "steps", Steps(state, method)


class DeviceRun:
    """An executor on a device, the state it works on, and the delivery of spikes."""

    def __init__(self, state: State, executor: Any) -> None:
        self.state, self.executor, self.model = state, executor, state.model
        self.max_steps = executor.max_steps
        self.delivery: Delivery | None = None
        self.plasticity: Plasticity | None = None
        self._told = False
        timed = cl.command_queue_properties.PROFILING_ENABLE
        self._timed = bool(state.queue.properties & timed)
        part = state.model.whole is not None
        self._received = Received(state) if part else None
        largest = largest_weights(state.model, state.connections)
        if not largest.any():
            return
        self.delivery = Delivery(
            state.queue,
            state.connections,
            state.model.num_targets,
            state.slots,
            state.max_spikes if self._received is None else self._received.capacity,
            steps=self.max_steps,
            external=external_sums(state.model),
            largest=largest,
            scale=state.incoming_scale,
        )
        given = state.model.connections
        if given.rule is not None:
            cells = state.model.cell_of_target()
            dt = state.model.dt
            self.plasticity = Plasticity(self.delivery, given.rule, dt, cells, given.plastic)

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        """Make room for rows of records."""
        state = self.state
        before = state.record_node
        state.begin(rows, records)
        if state.record_node is not before or not self._told:
            nodes = state.record_node.get(state.queue)[: state.num_recorded_nodes]
            self.executor.set_records(nodes.astype(np.int64))
            self._told = True
        if self._received is not None:
            self._received.begin()
        elif self.delivery is None:
            self.state.spike_count.fill(0)
        else:
            self.delivery.reset(self.state.spike_count)

    def advance(self, first: int, count: int, row: int) -> None:
        """Take `count` steps; records go to `row` and after it."""
        self.state.add_events(first, count)
        each = 1 if self.state.record_states else count  # states are recorded between launches
        for k in range(0, count, each):
            self.executor.advance(first + k, each, row + k)
            self.state.enqueue_states(row + k)

    def deliver(self, first: int, count: int) -> None:
        """Deliver the spikes of `count` steps."""
        state = self.state
        change = self.plasticity or self.delivery
        if change is not None:
            found = state.spike_source, state.spike_step, state.spike_count
            change.enqueue(*found, state.incoming, first, count)

    def note_spikes(self) -> Any:
        """Return what `noted_spikes` takes as this place in the queue."""
        assert self._received is not None
        return self._received.note()

    def noted_spikes(self, ticket: Any) -> tuple[np.ndarray, np.ndarray]:
        """Wait for a place, and return cells and steps of spikes since the last such call."""
        assert self._received is not None
        return self._received.noted(ticket)

    def send(self, source: np.ndarray, step: np.ndarray, first: int, count: int) -> None:
        """Enqueue the delivery of spikes of the whole network, of which this is a part."""
        change = self.plasticity or self.delivery
        if change is None or self.delivery is None or self._received is None:
            return
        found = self._received.put(source, step, self.delivery)
        change.enqueue(*found, self.state.incoming, first, count)

    def now(self, records: Sequence[Record]) -> list[np.ndarray]:
        """Values of records as they are, (1, r) each."""
        return values_now(self, records)

    def mark(self) -> Any:
        """Return what `seconds` takes as this place in the queue."""
        return cl.enqueue_marker(self.state.queue) if self._timed else time.perf_counter()

    def seconds(self, marks: list[Any]) -> list[float]:
        """Wait, and return when the queue came to the marks."""
        self.state.queue.finish()
        return [mark.profile.end * 1e-9 for mark in marks] if self._timed else marks

    def end(self) -> Chunk:
        """Return what was recorded."""
        return self.state.end()

    def voltages(self) -> np.ndarray:
        """(num_nodes,) mV, in natural order."""
        return self.executor.voltages()

    def save(self) -> dict[str, np.ndarray]:
        """Return the state."""
        saved = {"v": self.voltages(), **self.state.save()}
        if self.plasticity is not None:
            saved |= {f"plastic_{k}": a for k, a in self.plasticity.state().items()}
        return saved

    def weights(self) -> np.ndarray:
        """Return the weights as they are now."""
        if self.plasticity is not None:
            return self.plasticity.weight
        return self.state.connections.weight.copy()

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Restore a state that `save` returned."""
        if self.plasticity is not None:
            names = self.plasticity.state()
            self.plasticity.restore({k: saved[f"plastic_{k}"] for k in names})
        self.executor.set_voltages(saved["v"])
        self.state.load(saved)
