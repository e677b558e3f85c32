"""Find the model variable at an address in NEURON's memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from clhines.neuron.memory.fields import Fields
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.raw import Place, ref
from clhines.neuron.read.catalogue import OUTSIDE
from clhines.neuron.read.contents import Contents, Instances
from clhines.neuron.read.tree import Tree

ELEMENT = "Vector"  # owner name for Vector elements; their number is their address
ION = "_ion"  # suffix for an ion that owns a variable


@dataclass(frozen=True)
class Variable:
    """A variable of the model."""

    owner: str  # mechanism, ion with suffix `ION`, `ELEMENT`; empty for a node
    name: str
    number: int  # node, the owner's instance, or address
    place: int | None = None  # index in an array


class MemoryPlaces:
    def __init__(
        self, memory: NeuronMemory, fields: Fields, tree: Tree, contents: Contents
    ) -> None:
        self._memory, self._tree = memory, tree
        self._variables: dict[Place, Variable | None] = {}
        self._rows: dict[str, dict[int, int]] = {}
        self._every = {**contents.density, **contents.points}
        if contents.outside is not None:
            self._every[OUTSIDE] = contents.outside
        self._ions = {ion.name: ion.instances for ion in contents.ions.values()}
        rows = fields.rows_at(tree.addresses)
        self._order = np.argsort(rows)
        self._row = rows[self._order]
        current = memory.known_place(next(iter(tree.sections[0])), "i_membrane_")
        self._membrane = (current and current.column) or -1  # without `CVode.use_fast_imem`

    def node_at(self, row: int) -> int:
        """Return the node whose row number NEURON stores at address `row`; -1 if none."""
        at = int(self._row.searchsorted(self._row.dtype.type(row)))
        is_node = at < len(self._row) and int(self._row[at]) == row
        return int(self._tree.numbers[self._order[at]]) if is_node else -1

    def node(self, place: Place) -> int:
        """Return the node whose voltage is at an address; -1 if another variable is there."""
        return self.node_at(place.row) if place.column == self._tree.v else -1

    def find(self, place: Place) -> Variable | None:
        if place not in self._variables:
            self._variables[place] = self._find(place)
        return self._variables[place]

    def _find(self, place: Place) -> Variable | None:
        node = self.node(place)
        if node >= 0:
            return Variable("", "v", node)
        if place.column == self._membrane and self.node_at(place.row) >= 0:
            return Variable("", "i_membrane", self.node_at(place.row))
        if not place.row and OUTSIDE in self._every and place.column in self._layers:
            return self._layers[place.column]
        if place.column not in self._columns:
            return None
        owner, name, size = self._columns[place.column]
        number = self._instance(owner, place)
        return Variable(owner, name, number, place.place if size > 1 else None)

    def globals_(self) -> list[tuple[str, str]]:
        """Return mechanism and name of each scalar GLOBAL variable."""
        entries = [(name, instances.entry.globals_) for name, instances in self._every.items()]
        return [(name, n) for name, of in entries for n, size in of.items() if size == 1]

    @cached_property
    def _layers(self) -> dict[int, Variable]:
        """The variable vext of each segment and extracellular layer, by address."""
        things = self._every[OUTSIDE].things
        size = self._every[OUTSIDE].entry.ranges["vext"]
        first = (self._memory.place(ref(s, "vext", 2)).column for s in things)
        return {
            at + 8 * layer: Variable(OUTSIDE, "vext", k, layer)
            for k, at in enumerate(first)
            for layer in range(size)
        }

    @cached_property
    def _columns(self) -> dict[int, tuple[str, str, int]]:
        """The variable of each column, as (owner, name, length), by the column's address."""
        variables = list[tuple[Instances, str, str, int]]()
        for owner, instances in self._every.items():
            variables += [(instances, owner, n, k) for n, k in instances.entry.ranges.items()]
        for ion, instances in self._ions.items():
            names = f"e{ion}", f"{ion}i", f"{ion}o", f"i{ion}"
            variables += [(instances, ion + ION, name, 1) for name in names]
        columns = dict[int, tuple[str, str, int]]()
        for instances, owner, name, size in variables:
            at = self._memory.known_place(instances.things[0], name, size)
            if at is not None and at.column:
                columns[at.column] = owner, name, size
        return columns

    def _instance(self, owner: str, place: Place) -> int:
        if owner not in self._rows:
            instances = self._every.get(owner) or self._ions[owner.removesuffix(ION)]
            rows = instances.columns.rows.tolist()
            self._rows[owner] = {row: k for k, row in enumerate(rows)}
        return self._rows[owner].get(place.row, -1)
