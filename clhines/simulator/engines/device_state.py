"""`DeviceState`: a run's variables on its device, in three arenas.

An arena is one array on the device with regions by name, so that a kernel needs few arguments:

    mem     reals    area | base_d | ion_cai | parameters_0 | states_0 | ... | weight
    clock   times    ring | delay | next_due | ...
    ints    int32    place_of | cell | first_0 | active_0 | cursor | ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.simulator.events.event_list import RankEvents
from clhines.simulator.kinds.arenas import read_back
from clhines.simulator.kinds.layouts import Layout, at_parameter, has_constants
from clhines.simulator.kinds.locations import locations
from clhines.simulator.kinds.played import entries_come
from clhines.simulator.network.times import last_middle
from clhines.simulator.records.records import Record
from clhines.simulator.state.arena import Arena
from clhines.simulator.state.changes import Storage
from clhines.simulator.state.variables import Variables


class DeviceState:
    """A run's variables on its device.

    `arenas` are three large arrays with named regions: ``mem`` (reals), ``clock`` (times) and
    ``ints``; `layout` orders nodes and instances in them. `failed`, (num_cells,) int32, is the step
    in which a cell's voltage diverged, see `Variables`. `waiting` has variables that are only on
    the host, until a step needs them. `shape` is the key of the arenas for which kernels were
    compiled, see `shape_of`. `all_storages` returns where a parameter is stored, see
    `ArenaKernels.storage`.
    """

    variables: Variables
    layout: Layout
    error: cla.Array  # part of ``ints``: the first error in event delivery, or 0

    def __init__(
        self,
        queue: cl.CommandQueue,
        failed: cla.Array,
        all_storages: Callable[[int, str, list[Storage]], list[Storage]],
    ) -> None:
        self.queue, self.failed, self._all_storages = queue, failed, all_storages
        self.arenas: dict[str, Arena] = {}
        self.waiting: Variables | None = None
        self.shape: tuple[object, ...] | None = None
        self.next_step = -1  # step for which the played values' cursors are set; -1: none
        self._storages = dict[tuple[int, str], list[Storage]]()
        self._rank_events: RankEvents | None = None

    def array(self, name: str) -> cla.Array:
        return self.arenas[name].array

    def put(
        self, variables: Variables, arenas: dict[str, Arena], layout: Layout, same: bool
    ) -> None:
        """Copy `variables` to the device: `arenas` have most of them, in the order of `layout`.

        Arrays on the device are reused if their regions are the `same` as before.
        """
        before = self.arenas if same else {}
        self.variables, self.arenas, self.layout = variables, arenas, layout
        for name, arena in arenas.items():
            arena.put(self.queue, before[name].array if same else None)
        self.error = arenas["ints"].view("error")
        self._storages.clear()
        if not same:
            self._rank_events = None
        self.failed.set(variables.failed, self.queue)

    def save(self) -> dict[str, np.ndarray]:
        return read_back(self.variables, self.arenas, self.layout)

    def places_of(
        self, records: Sequence[Record], place: Callable[[], np.ndarray]
    ) -> list[tuple[str, np.ndarray]]:
        """Return for each record the array (``v`` or ``mem``) and its values' indices.

        `place` returns each node's index among the voltages.
        """
        return locations(records, self.variables, self.arenas, place, self.layout)

    def storages(self, k: int, name: str) -> list[Storage]:
        """Return where the device stores a parameter; empty if it cannot be changed there."""
        if self.waiting is not None:
            return []
        if (k, name) not in self._storages:
            in_arenas = self._in_arenas(k, name)
            self._storages[k, name] = self._all_storages(k, name, in_arenas) if in_arenas else []
        return self._storages[k, name]

    def _in_arenas(self, k: int, name: str) -> list[Storage]:
        kind, singles = self.variables.model.kinds[k], self.variables.singles[k]
        mechanism, names = kind.mechanism, [n for n, single in singles if single]
        if name in mechanism.program.begins or name in mechanism.compiled.table_uses:
            return []
        mem, every = self.arenas["mem"], np.arange(kind.count)
        first = mem.offset[f"parameters_{k}"]

        def places() -> tuple[np.ndarray, np.ndarray]:
            return at_parameter(self.variables, self.layout, k, name, every), every

        if name in names:
            return [Storage(mem.array, first + names.index(name))]
        return [Storage(mem.array, first, (k, name, *names), places)]

    def play_from(self, step: int, dt: float) -> None:
        """Set the next entry of each played parameter at `step`, if events read any of them."""
        ints = self.arenas["ints"]
        if "played_next" not in ints.offset:
            return
        came = entries_come(self.variables.model, self.layout, last_middle(step, dt))
        ints.view("played_next").set(came, self.queue)

    def take_events(self, source: np.ndarray, time: np.ndarray, work_group: int) -> None:
        """Enqueue a kernel that appends other ranks' events to their sources' ring buffers.

        `source` and `time`, ms, describe the events; `work_group` is the work-group size.
        """
        if self._rank_events is None:
            self._rank_events = RankEvents(self.queue, self.arenas, work_group)
        self._rank_events.take(source, time)


def shape_of(variables: Variables, arenas: dict[str, Arena]) -> tuple[object, ...]:
    """Return a hashable key that is equal for variables that fit the same kernels and arrays."""
    regions = {name: arena.offset for name, arena in arenas.items()}
    return regions, variables.singles, variables.wanted, has_constants(variables.model)
