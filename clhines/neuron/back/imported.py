"""`ImportedModel`: a simulation made by `from_neuron`, indexed by NEURON's objects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clhines.core.checks import as_whole_number
from clhines.core.errors import InputError
from clhines.neuron.importer import NeuronNetwork
from clhines.neuron.memory.session import Hoc
from clhines.simulator.network import Group, Sources
from clhines.simulator.result import Result
from clhines.simulator.simulation import Simulation


@dataclass(frozen=True, eq=False)
class ImportedModel:
    """A simulation of a NEURON model, indexed by NEURON's objects.

    ``model[segment]``, ``model[section]``, ``model[point_process]``, ``model[netcon]``; in a later
    copy ``model[segment, copy]``.

    Attributes
    ----------
    simulation : Simulation
    """

    simulation: Simulation
    _imported: NeuronNetwork

    def __repr__(self) -> str:
        nodes, copies = self._imported.model.tree.num_nodes, self._imported.copies
        return f"ImportedModel({self.simulation!r}; {nodes} nodes, copies: {copies})"

    def __getitem__(
        self, thing: Hoc | tuple[Hoc, int]
    ) -> int | tuple[Group, int] | tuple[Sources | Group, int, int] | np.ndarray:
        """Return the index in the simulation of an object of NEURON.

        Parameters
        ----------
        thing : Segment, Section, point process, artificial cell or NetCon
            Or a tuple ``thing, copy`` for a copy other than the first.

        Returns
        -------
        int
            Node of a segment.
        (nseg,) int64
            Nodes of a section.
        (Group, int)
            A point process or artificial cell: group and instance.
        (Sources or Group, int, int)
            A NetCon: its source, the source's number, and the number of the connection.

        Raises
        ------
        InputError
            The model has no such object or copy, or the NetCon has no source or target.
        """
        thing, copy = thing if isinstance(thing, tuple) and len(thing) == 2 else (thing, 0)
        copy = as_whole_number("copy", copy, 0, self._imported.copies - 1)
        model, tree = self._imported.model, self._imported.model.tree
        if hasattr(thing, "sec"):
            return tree.at(thing) + copy * tree.num_nodes
        if hasattr(thing, "parentseg"):
            if thing not in tree:
                raise InputError(f"{thing} is not a section of the model")
            return tree.nodes(thing) + copy * tree.num_nodes
        if hasattr(thing, "wcnt"):
            return self._netcon(thing, copy)
        senders = model.wires.senders
        number = int(senders.of_objects(np.array([model.memory.object_of(thing)]))[0])
        if number >= 0:
            name, k = senders[number]
            if name in self._imported.groups:
                group = self._imported.groups[name]
                return group, k + copy * (len(group) // self._imported.copies)
        raise InputError(f"{thing} is not in the model; expected a segment or point process")

    def _netcon(self, thing: Hoc, copy: int) -> tuple[Sources | Group, int, int]:
        model = self._imported.model
        numbers = np.flatnonzero(model.wires.read.address == model.memory.object_address(thing))
        for k in numbers.tolist():
            if model.wires.origin[k] >= 0:
                source, number = self._imported.sources[model.wires.origin[k]]
                connection = int(np.flatnonzero(self._imported.connections == k)[copy])
                number += copy * (len(source) // self._imported.copies)
                return source, number, connection
        raise InputError(f"{thing} has no source or no target here")

    def times_of(self, netcon: Hoc, result: Result, copy: int = 0) -> np.ndarray:
        """Return the event times of a NetCon's source in a result.

        Parameters
        ----------
        netcon : NetCon
        result : Result
            Of `simulation`.
        copy : int

        Returns
        -------
        (k,) float64, ms
        """
        if not hasattr(netcon, "wcnt"):
            raise InputError(f"netcon is {netcon}; expected a NetCon")
        if not isinstance(result, Result):
            raise InputError(f"result is {type(result).__name__}; expected one of simulation.run()")
        copy = as_whole_number("copy", copy, 0, self._imported.copies - 1)
        source, index, _ = self._netcon(netcon, copy)
        number = self._imported.network.source_numbers(source, [index])
        return result.spike_time[result.spike_cell == number]

    @property
    def groups(self) -> dict[str, Group]:
        """Groups of the network by mechanism name."""
        return dict(self._imported.groups)
