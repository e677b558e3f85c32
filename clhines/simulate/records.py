"""What is recorded: looked up in the network and its model."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from clhines.checks import as_array, as_indices, shown
from clhines.errors import InputError, meant
from clhines.network.groups import Group
from clhines.network.model import Model
from clhines.network.network import Network
from clhines.simulate.state import Record


def find_record(
    network: Network,
    model: Model,
    what: object,
    where: ArrayLike | Group,
    index: ArrayLike | None,
) -> Record:
    """Check the arguments of `Simulation.record` and return the record."""
    if not isinstance(where, Group):
        if not isinstance(what, str) or what != "v":
            raise InputError(
                f"{shown(what)} of nodes; expected 'v', or for a state the Group that insert() "
                "or add() gave"
            )
        nodes = np.atleast_1d(as_array("where", where))
        return Record("v", -1, as_indices("where", nodes, model.forest.num_nodes, "node"))
    if where.network is not network:
        raise InputError(f"group {where.mechanism.name} belongs to another network")
    chosen = np.arange(len(where))
    if index is not None:
        index = np.atleast_1d(as_array("index", index))
        chosen = as_indices("index", index, len(where), where.mechanism.name)
    if what == "v":
        return Record("v", -1, where.nodes[chosen])
    if what not in where.mechanism.states:
        known, near = ", ".join(("v", *where.mechanism.states)), meant(what, where.mechanism.states)
        raise InputError(
            f"{where.mechanism.name} has no state {shown(what)}; expected {known}{near}"
        )
    kind, instance = model.instances[where.number]
    return Record(what, kind, instance[chosen])
