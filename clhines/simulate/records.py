"""What is recorded: looked up in the network and its model."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from clhines.checks import as_array, as_indices, shown
from clhines.errors import InputError, meant
from clhines.network.extended import IonNodes
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
        ions = model.extended.ions if model.extended is not None else ()
        known = {name: ion for ion in ions for name in ion.variables}
        if isinstance(what, str) and what in known:
            return _ion_record(known[what], what, where)
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
    names = where.mechanism.states
    if model.extended is not None:
        program = where.mechanism.program
        played = [p.parameter for p in model.extended.played]
        names = (*names, *(q.name for q in (*program.states, *program.outputs)), *played)
        public = {q.public: q.name for q in (*program.states, *program.outputs) if q.public}
        what = public.get(str(what), what)
    if what not in names:
        told = ", ".join(dict.fromkeys(("v", *names))) + meant(what, names)
        raise InputError(f"{where.mechanism.name} has no state {shown(what)}; expected {told}")
    kind, instance = model.instances[where.number]
    return Record(what, kind, instance[chosen])


def _ion_record(ion: IonNodes, what: str, where: ArrayLike) -> Record:
    """Return the record of a variable of an ion at nodes."""
    nodes = np.atleast_1d(as_array("where", where))
    index = as_indices("where", nodes, int(max(ion.node.max(initial=0), nodes.max(initial=0))) + 1,
                       "node")  # fmt: skip
    bare = index[~np.isin(index, ion.node)]
    if len(bare):
        raise InputError(f"{what} of node {bare[0]}, where there is no ion {ion.name}")
    return Record(what, -2, index)
