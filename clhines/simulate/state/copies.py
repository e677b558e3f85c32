"""Branching: the state of a simulation taken over by copies of its network."""

from __future__ import annotations

import re

import numpy as np

from clhines.arrays import in_blocks, starts
from clhines.model.model import Model
from clhines.network.changes import Changes
from clhines.network.copies import fill, structure_of_copies
from clhines.network.network import Network
from clhines.simulate.events.sources import wires_of

_OF_KIND = re.compile(r"(state|output|drawn|played|queue)(\d+)_(.+)")


def network_of_copies(network: Network, changes: Changes, model: Model, count: int) -> Network:
    """Return copies of a network, with what a simulation has changed, in one network."""
    copies = Network(structure_of_copies(network.structure, count), branched_from=network)
    copies.settings.update(network.settings)
    groups, wiring = changes.groups(network.groups), network.wiring(changes)
    fill(copies, network, groups, wiring, model.connections.rule, [*model.streams()])
    return copies


def state_of_copies(
    saved: dict[str, np.ndarray], model: Model, count: int
) -> dict[str, np.ndarray]:
    """Repeat the arrays of `Run.save` for copies; those of the first copy come first."""
    found = {name: np.tile(array, count) for name, array in saved.items() if name != "incoming"}
    incoming, columns = saved["incoming"], []
    for kind in model.kinds:
        if kind.first_target >= 0:
            of_kind = incoming[:, kind.first_target : kind.first_target + kind.count]
            columns.append(np.tile(of_kind, (1, count)))
    none = [np.zeros((len(incoming), 0), np.int64)]
    found["incoming"] = np.concatenate(none + columns, axis=1)
    return found


class ExtendedCopies:
    """Where the things of an extended network are in that of its copies, (copies, things) each.

    Parameters
    ----------
    network, model
        Of one copy.
    copies, whole
        The network of all copies, as `network_of_copies` gives it, and its model.

    Attributes
    ----------
    sources : (copies, num_sources) int64
        Numbers of the sources of events.
    connections : (copies, m) int64
    """

    def __init__(self, network: Network, model: Model, copies: Network, whole: Model) -> None:
        assert model.extended is not None and whole.extended is not None
        self._model, self._whole = model, whole
        self._once, self._all = model.extended, whole.extended
        self.count = copies.num_cells // network.num_cells
        self.sources = self._sources(network, copies)
        events = self._once.num_sources - network.added.num_sources  # from outside: a source each
        self.connections = in_blocks([self._once.netcons.count - events, events], self.count)

    def _sources(self, network: Network, copies: Network) -> np.ndarray:
        """Return the numbers of all sources: of cells, added ones, groups and events."""
        known, cells = network.added.num_sources, network.num_cells
        begins = [(0, cells, 0)]
        pairs = zip(network.added.sources, copies.added.sources, strict=True)
        begins += [(old.first, len(old), new.first) for old, new in pairs]
        of_group = {group.number: first for group, first in copies.added.emitters}
        begins += [(first, len(g), of_group[g.number]) for g, first in network.added.emitters]
        found = np.zeros((self.count, self._once.num_sources), np.int64)
        turn = np.arange(self.count)[:, None]
        events = self._once.num_sources - known
        for old, size, new in [*begins, (known, events, copies.added.num_sources)]:
            found[:, old : old + size] = new + size * turn + np.arange(size)
        return found

    def instances(self, k: int) -> np.ndarray:
        """Return the instances of a kind, (copies, count) int64."""
        found = np.zeros((self.count, self._model.kinds[k].count), np.int64)
        pairs = zip(self._model.instances, self._whole.instances, strict=True)
        for (of, old), (_, new) in pairs:
            if of == k:
                found[:, old] = new.reshape(self.count, -1)
        return found

    def _detectors(self) -> np.ndarray:
        number = np.zeros(self._all.num_sources, np.int64)
        number[self._all.detector_source] = np.arange(len(self._all.detector_source))
        return number[self.sources[:, self._once.detector_source]]

    def _weights(self) -> np.ndarray:
        first = self._once.netcons.first_weight
        owner = np.repeat(np.arange(self._once.netcons.count), np.diff(first))
        begin = self._all.netcons.first_weight[self.connections]
        return begin[:, owner] + (np.arange(len(owner)) - first[owner])

    def _ring(self) -> np.ndarray:
        old, new = wires_of(self._model, self._once), wires_of(self._whole, self._all)
        assert (new.ring_size[self.sources] == old.ring_size).all()
        owner = np.repeat(np.arange(len(old.ring_size)), old.ring_size)
        inside = np.arange(len(owner)) - starts(old.ring_size)[owner]
        return new.ring_first[self.sources][:, owner] + inside

    def state(self, saved: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return what `Run.load` takes of all copies, of what `Run.save` gave of one."""
        at = {
            "weight": self._weights(), "cursor": self.connections, "ring": self._ring(),
            "count": self.sources, "above": self._detectors(),
        }  # fmt: skip
        found = {}
        for name, values in saved.items():
            of_kind = _OF_KIND.fullmatch(name)
            if of_kind is not None:
                found[name] = self._of_kind(of_kind[1], int(of_kind[2]), of_kind[3], values)
            elif name in at:
                found[name] = _spread(values, at[name])
            else:  # of nodes and cells
                found[name] = np.tile(values, self.count)
        return found

    def _of_kind(self, what: str, k: int, name: str, values: np.ndarray) -> np.ndarray:
        """Values of all instances of a kind; the rows of a queue one after another."""
        at = self.instances(k)
        rows = values.reshape(-1, at.shape[1])
        if what == "queue" and name == "connection":
            numbers = np.append(self.connections, np.full((self.count, 1), -1), axis=1)
            each = np.stack([own[rows] for own in numbers], axis=1)
        else:
            each = np.repeat(rows[:, None], self.count, axis=1)
        found = np.zeros((len(rows), at.size), values.dtype)
        found[:, at] = each
        return found.reshape(-1)


def _spread(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Values of one copy at their places in all copies, (copies, m)."""
    found = np.zeros(at.size, values.dtype)
    found[at] = values
    return found
