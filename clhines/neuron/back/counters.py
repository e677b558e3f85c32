"""Fill the Vectors in which APCount stores spike times."""

from __future__ import annotations

import numpy as np

from clhines.neuron.importer import NeuronNetwork
from clhines.neuron.read.contents import Instances
from clhines.neuron.read.trains import held_vector
from clhines.simulator.mechanisms.nmodl import counts_crossings
from clhines.simulator.result import Result
from clhines.simulator.simulation import Simulation


class Counters:
    """Record counts and times of APCounts in a simulation, and fill their Vectors."""

    def __init__(self, sim: Simulation, imported: NeuronNetwork) -> None:
        model = self._model = imported.model
        self._counters: list[tuple[int, Instances, int, int, int]] = []
        points = {n: i for n, i in model.contents.points.items() if counts_crossings(i.entry.text)}
        for name, instances in points.items():
            for k, thing in enumerate(instances.things):
                vector = held_vector(model.memory, thing, model.plays.vectors)
                if vector is not None:
                    group = imported.groups[name]
                    n, time = (sim.record(variable, group, [k]) for variable in ("n", "time"))
                    address = model.memory.object_address(vector)
                    self._counters.append((address, instances, k, n, time))

    def fill(self, result: Result, first: int) -> None:
        """Append the spike times in `result` to the Vectors, from row `first` on."""
        for address, instances, k, n, time in self._counters:
            vector = self._model.plays.vectors[address]
            counts = np.append(instances.values("n")[k], result[n][first:, 0])
            for row in np.flatnonzero(np.diff(counts) > 0).tolist():
                vector.resize(int(counts[row + 1]))
                vector.x[int(counts[row + 1]) - 1] = float(result[time][first + row, 0])
