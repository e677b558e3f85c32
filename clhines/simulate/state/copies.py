"""Copies of a network: the state of one of them as that of all."""

from __future__ import annotations

import math

import numpy as np

from clhines.arrays import in_blocks, offsets, starts
from clhines.model.model import Model
from clhines.model.schema import Field
from clhines.network.changes import Changes
from clhines.network.copies import fill, structure_of_copies
from clhines.network.inside import inside
from clhines.network.network import Network
from clhines.simulate.engines.variables import Variables
from clhines.simulate.events.sources import Wires, ring_sizes
from clhines.simulate.state.chunk import Chunk


def network_of_copies(network: Network, changes: Changes, model: Model, count: int) -> Network:
    """Return copies of a network, with what a simulation has changed, in one network."""
    copies = Network(structure_of_copies(inside(network).structure, count), branched_from=network)
    copies.settings.update(network.settings)
    groups, wiring = changes.groups(network.groups), inside(network).wiring.changed(changes)
    fill(copies, network, groups, wiring, model.connections.rule, [*model.streams()])
    return copies


def copies_of(network: Network, model: Model, copies: Network, whole: Model) -> Copies:
    """Return where the things of a network are among those of its copies, `whole` their model."""
    cells, known = network.num_cells, inside(network).added
    count = copies.num_cells // cells
    total, wires = model.sources.count, model.netcons.count
    events = total - known.num_sources  # from outside: a source and a connection each
    begins = [(0, cells, 0), (known.num_sources, events, inside(copies).added.num_sources)]
    pairs = zip(known.sources, inside(copies).added.sources, strict=True)
    begins += [(old.first, len(old), new.first) for old, new in pairs]
    of_group = {group.number: first for group, first in inside(copies).added.emitters}
    begins += [(first, len(g), of_group[g.number]) for g, first in known.emitters]
    sources, turn = np.zeros((count, total), np.int64), np.arange(count)[:, None]
    for old, size, new in begins:
        sources[:, old : old + size] = new + size * turn + np.arange(size)
    return Copies(model, whole, sources, in_blocks([wires - events, events], count))


class Copies:
    """Where one copy's sources, connections, (copies, n) both, and other things are among all."""

    def __init__(
        self, once: Model, whole: Model, sources: np.ndarray, connections: np.ndarray
    ) -> None:
        self._once, self._whole, self.count = once, whole, len(sources)
        self.sources = sources
        self._known: dict[tuple[str, int | None], np.ndarray | None] = {
            ("source", None): sources, ("connection", None): connections,
            ("node", None): None, ("cell", None): None,
            ("plastic", None): in_blocks([once.connections.count], self.count),
            ("sent", None): sources[:, : once.connections.num_sources],
        }  # fmt: skip
        self._numbers = np.append(connections, np.full((self.count, 1), -1), axis=1)

    def places(self, field: Field) -> np.ndarray | None:
        """Where the entries of an array are in that of all, (copies, m) int64; None: in turn."""
        key = field.per, field.kind
        if key not in self._known:
            self._known[key] = (
                self._wired(field.per) if field.kind is None else self._instances(field.kind)
            )
        return self._known[key]

    def _instances(self, k: int) -> np.ndarray | None:
        found = np.zeros((self.count, self._once.kinds[k].count), np.int64)
        for (of, old), (_, new) in zip(self._once.instances, self._whole.instances, strict=True):
            if of == k:
                found[:, old] = new.reshape(self.count, -1)
        return None if np.array_equal(found.reshape(-1), np.arange(found.size)) else found

    def _wired(self, per: str) -> np.ndarray:
        if per == "target":
            sizes = [k.count for k in self._once.kinds if k.first_target >= 0]
            return in_blocks(sizes, self.count)
        once, whole = self._once, self._whole
        sources, connections = self._known["source", None], self._known["connection", None]
        assert sources is not None and connections is not None
        if per == "detector":
            number = np.zeros(whole.sources.count, np.int64)
            number[whole.sources.detector_source] = np.arange(len(whole.sources.detector_source))
            return number[sources[:, once.sources.detector_source]]
        if per == "weight":
            return _entries(once.netcons.first_weight, whole.netcons.first_weight[connections])
        assert per == "ring"
        old, new = ring_sizes(once), ring_sizes(whole)
        assert (new[sources] == old).all()
        return _entries(offsets(old), starts(new)[sources])

    def tiled(self, field: Field, values: np.ndarray) -> np.ndarray:
        """Return the array of all copies, of that of one."""
        at = self.places(field)
        if at is None and not field.refers:
            return np.tile(values, self.count)
        rows = values.reshape(math.prod(values.shape[:-1]), values.shape[-1])
        each = np.broadcast_to(rows[:, None], (len(rows), self.count, rows.shape[1]))
        if field.refers:
            each = self._numbers[:, rows].swapaxes(0, 1)
        found = each if at is None else np.empty((len(rows), at.size), values.dtype)
        if at is not None:
            found[:, at] = each
        return found.reshape(*values.shape[:-1], self.count * values.shape[-1])

    def state(self, saved: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return what `Run.load` takes of all copies, of what `Run.save` gave of one."""
        return {f.key: self.tiled(f, saved[f.key]) for f in self._once.schema}


def _entries(first: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """Entries of stretches that begin at `first`, by where those of each copy begin."""
    owner = np.repeat(np.arange(len(first) - 1), np.diff(first))
    return begin[:, owner] + (np.arange(len(owner)) - first[owner])


def alike(model: Model) -> Copies:
    """Return where the things of one copy are among those of copies that are alike."""
    assert model.alike is not None
    return Copies(model.once, model, model.alike.sources, model.alike.connections)


def of_all(model: Model, saved: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the state of all copies of a model, of that of one or of all."""
    whole = len(saved["v"]) == model.forest.num_nodes
    return saved if whole else alike(model).state(saved)


def with_wires(variables: Variables, model: Model, wires: Wires) -> Variables:
    """Return variables of one copy with rings, connections and queues, which are few, of all."""
    found, copies = variables.copy(), alike(model)
    found.model, found.wires = model, wires
    for field in variables.model.schema:
        if field.what in ("queue", "drawn") or field.per not in ("node", "cell", "instance"):
            found.put(field, copies.tiled(field, variables.array(field)))
    return found


def whole(variables: Variables) -> Variables:
    """Return variables of which everything is of all copies."""
    once, model = variables.once, variables.model
    if once is model:
        return variables
    found, copies = variables.copy(), model.copies
    found.once = model
    found.v, found.failed = np.tile(found.v, copies), np.tile(found.failed, copies)
    for kinds in (found.parameters, found.states, found.outputs):
        for of_kind in kinds:
            of_kind.update({k: np.tile(a, copies) for k, a in of_kind.items()})
    found.ions = {k: np.tile(a, copies) for k, a in found.ions.items()}
    return found


def chunk_of_all(early: Chunk, model: Model) -> Chunk:
    """Return what was found at the start in all copies, of what was found in one."""
    if model.alike is None:
        return early
    source, failed = model.alike.sources_of(early.spike_cell), np.tile(early.failed, model.copies)
    time = np.tile(early.spike_time, model.copies)
    return Chunk.of(time, source, model.dt, failed, early.values)
