"""Read the events in a chunk of steps from the device: at exact times, or in whole steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyopencl.array as cla

from clhines.simulator.device.reads import read_parts
from clhines.simulator.engines.device_state import DeviceState
from clhines.simulator.events.event_list import EventList
from clhines.simulator.events.exact import check_rings
from clhines.simulator.events.grid_run import Grid
from clhines.simulator.kinds.event_errors import check_events
from clhines.simulator.network.times import event_steps
from clhines.simulator.state.chunk import Chunk, check_room
from clhines.simulator.state.sources import Wires

ValuesOf: TypeAlias = "Callable[[cla.Array], np.ndarray]"  # reads a small array


class TimedEvents:
    """Read from the device the events that kernels list with their times."""

    def __init__(
        self, events: EventList, state: DeviceState, wires: Wires, grid: Grid | None
    ) -> None:
        self._events, self._state, self._wires, self._grid = events, state, wires, grid
        self.capacity = events.capacity

    def empty(self) -> None:
        self._events.empty()
        if self._grid is not None:
            self._grid.empty()

    @property
    def counts(self) -> list[cla.Array]:
        """The small arrays that `chunk` reads: event count and, with targets, an error code."""
        return [self._events.count, self._state.error][: 2 if self._wires.num_targets else 1]

    def chunk(self, values_of: ValuesOf, failed: np.ndarray, values: list[np.ndarray]) -> Chunk:
        """Wait for the device; return a chunk with all events since `empty`.

        `values_of` reads a small array to the host. `failed` and the recorded `values` go into the
        chunk. InputError if an event was lost.
        """
        events, model = self._events, self._state.variables.model
        if self._wires.num_targets:
            check_events(model, int(values_of(self._state.error)[0]))
        if self._wires.tight:  # kernels check the rings at the next launch; this was the last
            self._check_rings()
        count = int(values_of(events.count)[0])
        events.known_empty = not count
        if count == events.seen and events.early is None:  # all went to other ranks
            return Chunk.of_none(failed, values)
        source, t = events.to(min(count, self.capacity))
        if not len(t):
            return Chunk.of_none(failed, values)
        if count > self.capacity:
            check_room(count, self.capacity, int(t.max() / model.dt))
        if events.instant == np.float64:
            return Chunk.of(t, source, model.dt, failed, values)
        return Chunk.of_steps(event_steps(t, model.dt) - 1, source, model.dt, failed, values)

    def _check_rings(self) -> None:
        names = "connection_source", "event_count", "cursor", "ring_size"
        parts = [(a, 0, a.size) for a in map(self._state.arenas["ints"].view, names)]
        source, sent, cursor, size = read_parts(parts, self._state.queue)
        check_rings(sent[source] - cursor, size[source])


class StepSpikes:
    """Read from the device the spikes that the `grid` lists by step.

    With `split`, ranks have exchanged these spikes during the run, so that chunks have none.
    """

    def __init__(self, events: EventList, grid: Grid, split: bool) -> None:
        self._events, self._grid, self._split = events, grid, split
        self.capacity, self.empty = grid.spikes.capacity, grid.empty
        self.counts = [grid.spikes.count]  # small arrays that `chunk` reads

    def chunk(self, values_of: ValuesOf, failed: np.ndarray, values: list[np.ndarray]) -> Chunk:
        """Wait for the device; return a chunk with the spikes at the start and since `Grid.empty`.

        `values_of` reads a small array to the host. `failed` and the recorded `values` go into the
        chunk.
        """
        spikes, dt = self._grid.spikes, self._grid.model.dt
        count = int(values_of(spikes.count)[0])
        spikes.known_empty = not count
        if self._events.early is None and not count:
            return Chunk.of_none(failed, values)
        early = self._events.to(0)[0]
        exchanged = self._split and count <= self.capacity
        if exchanged or (not count and not len(early)):
            return Chunk.of_none(failed, values)
        listed, lists = min(count, self.capacity), [np.zeros(0, np.int32)] * 2
        if listed:
            parts = [(a, 0, listed) for a in (spikes.source, spikes.step)]
            lists = read_parts(parts, self._grid.queue)
        source, step = lists
        check_room(count, self.capacity, int(step.max(initial=0)))
        step, source = np.append(np.full(len(early), -1), step), np.append(early, source)
        return Chunk.of_steps(step, source, dt, failed, values)
