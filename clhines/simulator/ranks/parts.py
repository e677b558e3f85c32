"""Divide joined networks' state, records and results among their ranks.

A rank compiles its own network and has its state as arrays of its own model. `RankPart` says where
each array is in the joined state: at a slice or at indices. Ring buffers of events are an
exception: in a rank's model, another rank's source is a spike train without times, with a ring
buffer of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clhines.core.arrays import inverse, ranges, starts
from clhines.core.errors import InputError
from clhines.simulator.model.model import Model
from clhines.simulator.model.schema import Field
from clhines.simulator.ranks.joining import PartNumbers
from clhines.simulator.records.records import NO_COLUMNS, Record
from clhines.simulator.state.chunk import Chunk
from clhines.simulator.state.sources import moved_rings, ring_sizes

StateArrays = dict[str, np.ndarray]
_OF_EVENTS = "cursor", "ring", "count"


@dataclass(frozen=True, eq=False)
class RankLayout:
    """The sizes and tables in a rank's model that `RankPart` needs."""

    fields: tuple[Field, ...]
    kinds: tuple[int, ...]  # each kind's instance count
    instances: tuple[tuple[int, np.ndarray], ...]  # see `Model.instances`
    nodes: int  # node count
    cells: int  # cell count
    detector_source: np.ndarray
    connection_source: np.ndarray
    ring_size: np.ndarray

    @classmethod
    def of(cls, model: Model) -> RankLayout:
        return cls(
            tuple(model.schema),
            tuple(kind.count for kind in model.kinds),
            tuple(model.instances),
            model.forest.num_nodes,
            model.forest.num_cells,
            model.sources.detector_source,
            model.netcons.source,
            ring_sizes(model),
        )


class RankPart:
    """Map one rank's state, records and results to the joined model of all ranks.

    `sources` has the index of each of the rank's sources in the joined model.
    """

    def __init__(self, whole: Model, numbers: PartNumbers, layout: RankLayout) -> None:
        self.layout, self._whole, self.sources = layout, whole, numbers.sources
        self._is_remote, self._pointed = numbers.is_remote, numbers.pointed
        self._node = slice(numbers.node, numbers.node + layout.nodes)
        self._cell = slice(numbers.cell, numbers.cell + layout.cells)
        self._connection = numbers.connection
        netcons = slice(numbers.connection, numbers.connection + len(layout.connection_source))
        weight = slice(*whole.netcons.first_weight[[netcons.start, netcons.stop]].tolist())
        detectors = inverse(whole.sources.detector_source, whole.sources.count)
        self._places: dict[str, slice | np.ndarray] = {
            "node": self._node,
            "cell": self._cell,
            "connection": netcons,
            "weight": weight,
            "detector": detectors[self.sources[layout.detector_source]],
        }
        kinds = [(-1, np.full(count, -1)) for count in layout.kinds]
        for group, (k, places) in enumerate(layout.instances):
            if k >= 0:
                there, at = whole.instances[numbers.groups[group]]
                kinds[k] = there, kinds[k][1]
                kinds[k][1][places] = at
        self._kinds = kinds
        times_of = dict(zip(whole.sources.train_source, whole.sources.train_time, strict=True))
        self._trains = {
            k: times_of[self.sources[k]]
            for k in np.flatnonzero(self._is_remote).tolist()
            if self.sources[k] in times_of
        }
        remote_source = self._is_remote[layout.connection_source]
        is_train = np.isin(layout.connection_source, [*self._trains])
        self._from_remote = np.flatnonzero(remote_source & ~is_train)
        local = np.flatnonzero(~self._is_remote)
        self._number = np.full(whole.sources.count, -1)
        self._number[self.sources[local]] = local

    def _place(self, field: Field) -> tuple[str, slice | np.ndarray]:
        if field.kind is None:
            return field.key, self._places[field.per]
        there, places = self._kinds[field.kind]
        return replace(field, kind=there).key, places

    def put(self, arrays: StateArrays, whole: StateArrays) -> None:
        for field in self.layout.fields:
            if (field.name in _OF_EVENTS and not field.family) or field.per == "remote":
                continue
            values = arrays[field.key]
            if field.refers:
                values = np.where(values < 0, -1, values + self._connection)
            key, places = self._place(field)
            whole[key][..., places] = values

    def put_sent(self, arrays: StateArrays, whole: StateArrays) -> None:
        sizes = ring_sizes(self._whole)
        local = np.flatnonzero(~self._is_remote)
        there, count = self.sources[local], arrays["count"][local]
        ring = _of_rings(arrays["ring"], self.layout.ring_size, local)
        whole["count"][there] = count
        moved = moved_rings(ring, count, self.layout.ring_size[local], sizes[there])
        whole["ring"][ranges(starts(sizes)[there], sizes[there])] = moved

    def put_cursors(self, arrays: StateArrays, whole: StateArrays, new: np.ndarray) -> None:
        """Write how many events each connection has received into `whole`, the joined state.

        A connection from another rank's source has received the events that the source has sent,
        except its `new` events and the events that are pending on this rank.
        """
        cursor, at = arrays["cursor"].copy(), self._from_remote
        source = self.layout.connection_source[at]
        pending, there = arrays["count"][source] - cursor[at], self.sources[source]
        cursor[at] = whole["count"][there] - pending - new[there]
        whole["cursor"][self._places["connection"]] = cursor

    def cut(self, whole: StateArrays, now: float) -> StateArrays:
        """Return the rank's part of the joined state; `now` is the state's time, ms."""
        arrays = StateArrays()
        for field in self.layout.fields:
            if field.name in ("ring", "count") and not field.family:
                continue
            if field.per == "remote":
                arrays[field.key] = whole["v"][self._pointed]
                continue
            key, places = self._place(field)
            values = whole[key][..., places]
            if field.refers:
                values = np.where(values < 0, -1, values - self._connection)
            arrays[field.key] = np.array(values)
        sizes, count = ring_sizes(self._whole), whole["count"][self.sources]
        for train, times in self._trains.items():  # on the rank an event counts once it is sent
            count[train] = np.searchsorted(times, now, side="right")
        ring = _of_rings(whole["ring"], sizes, self.sources)
        arrays["ring"] = moved_rings(ring, count, sizes[self.sources], self.layout.ring_size)
        arrays["count"] = count
        return arrays

    def record(self, record: Record) -> Record:
        """Convert a rank's record to a record of the joined model."""
        if record.matrix is not None or record.features is not None:
            raise InputError("records with a matrix or features of joined networks")
        kind, index = record.kind, record.index + self._node.start
        if kind >= 0:
            kind, places = self._kinds[kind]
            index = places[record.index]
        return replace(record, kind=kind, index=index, columns=NO_COLUMNS)

    def chunk(self, whole: Chunk, values: list[np.ndarray]) -> Chunk:
        number = self._number[whole.spike_cell]
        mine = np.flatnonzero(number >= 0)
        mine = mine[np.lexsort((number[mine], whole.spike_time[mine]))]
        columns = whole.spike_step[mine], number[mine], whole.failed[self._cell]
        return Chunk(*columns, values, whole.spike_time[mine])


def _of_rings(ring: np.ndarray, sizes: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    chosen_rings: np.ndarray = ring[ranges(starts(sizes)[chosen], sizes[chosen])]
    return chosen_rings


def put_all(
    parts: Sequence[RankPart], states: Sequence[tuple[StateArrays, np.ndarray]], before: StateArrays
) -> StateArrays:
    """Combine all ranks' states to a joined state.

    `states` has, for each rank, its arrays and its sources with a new event. `before` is the joined
    state before the ranks' steps.
    """
    whole = {key: np.array(values) for key, values in before.items()}
    new = np.zeros_like(whole["count"])
    for part, (arrays, sent) in zip(parts, states, strict=True):
        part.put(arrays, whole)
        part.put_sent(arrays, whole)
        np.add.at(new, part.sources[sent], 1)
    for part, (arrays, _) in zip(parts, states, strict=True):
        part.put_cursors(arrays, whole, new)
    return whole
