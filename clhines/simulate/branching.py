"""Branching: the state of a simulation taken over by copies of its network."""

from __future__ import annotations

import numpy as np

from clhines.network.changes import Changes
from clhines.network.copies import fill, structure_of_copies
from clhines.network.model import Model
from clhines.network.network import Network


def network_of_copies(network: Network, changes: Changes, model: Model, count: int) -> Network:
    """Return copies of a network, with what a simulation has changed, in one network."""
    copies = Network(structure_of_copies(network.structure, count), branched_from=network)
    groups, wiring = changes.groups(network.groups), network.wiring(changes)
    fill(copies, network, groups, wiring, model.connections.rule)
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
