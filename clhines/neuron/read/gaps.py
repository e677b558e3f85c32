"""Variables that `ParallelContext.target_var` sets, and the voltages that they get.

NEURON keeps both in tables that nothing reads. The transfer itself is exported: it is called once
with a different number as each voltage, and what gets one of these numbers is a target.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clhines.neuron.memory.fields import Fields
from clhines.neuron.memory.memory import Memory
from clhines.neuron.read.contents import Contents
from clhines.neuron.read.tree import Tree

_FIRST, _BEFORE = 3e8, -7e8  # numbers that no model has


@dataclass(frozen=True)
class Gap:
    """A variable that is set to a voltage in every step.

    `node` is -1 where what it gets is no voltage of the model.
    """

    owner: str
    name: str
    instance: int
    node: int


def read_gaps(memory: Memory, fields: Fields, tree: Tree, contents: Contents) -> list[Gap]:
    """Return what `target_var` sets."""
    if not memory.transfers:
        return []
    v, rows = fields.rows(tree.v, tree.addresses)
    candidates, voltages = {**contents.points, **contents.density}, v[rows]
    asked = [
        (owner, name, instances, instances.values(name))
        for owner, instances in candidates.items()
        for name, size in instances.entry.ranges.items()
        if size == 1 and name not in instances.entry.states
    ]
    found = []
    try:
        v[rows] = _FIRST + tree.numbers
        for _, name, instances, values in asked:
            instances.put(name, np.full(len(values), _BEFORE))
        memory.transfer()
        for owner, name, instances, _ in asked:
            now = instances.values(name)
            for k in np.flatnonzero(now != _BEFORE).tolist():
                node = int(now[k] - _FIRST) if now[k] >= _FIRST else -1
                found.append(Gap(owner, name, k, node if node < tree.num_nodes else -1))
    finally:
        v[rows] = voltages
        for _, name, instances, values in asked:
            instances.put(name, values)
    return found
