"""Values with which NEURON's iterations of its own step begin."""

from __future__ import annotations

import numpy as np

from clhines.neuron.back.states import Arrays
from clhines.neuron.convert import split_name
from clhines.neuron.importer import NeuronNetwork
from clhines.simulator.mechanisms import Quantity
from clhines.simulator.simulation import Simulation, take_state


class StepGuesses:
    """Variables that blocks set after their use: the starting values of NEURON's iterations.

    With the values of INITIAL an iteration may not converge. The values are the next step's.
    """

    def __init__(self, sim: Simulation, imported: NeuronNetwork) -> None:
        self._sim, self._imported = sim, imported
        self._host: Simulation | None = None
        self._at = list[tuple[str, Quantity, int]]()
        programs = {name: group.mechanism.program for name, group in imported.groups.items()}
        self._wanted = [
            (n, q) for n, p in programs.items() for q in p.outputs if q.name in p.behind
        ]

    def put(self, arrays: Arrays) -> None:
        """Compute them from a simulation's state, and put them into NEURON's memory."""
        if not self._wanted:
            return
        imported, model = self._imported, self._sim.model
        if self._host is None:
            second: bool = int(imported.model.h.secondorder)  # type: ignore[assignment]
            network = imported.network
            self._host = Simulation(network, model.dt, engine="reference", secondorder=second)
            for name, quantity in self._wanted:
                number = self._host.record(quantity.name, imported.groups[name])
                self._at.append((name, quantity, number))
        take_state(self._host, self._sim.step, {n: np.array(a) for n, a in arrays.items()}, 1.0)
        result = self._host.run(model.dt)
        for name, quantity, record in self._at:
            base, element = split_name(quantity)
            if base in imported.model.every[name].entry.ranges:
                imported.model.every[name].put(base, result[record][-1], element)
            elif base in imported.model.hidden_of(name).columns:
                imported.model.hidden_of(name).put(base, result[record][-1], element)
