"""APCount: counts of crossings, whose times a Vector keeps (``APCount.record``)."""

from __future__ import annotations

import numpy as np

from clhines.mechanisms.nmodl.meaning.verbatim import counts_crossings
from clhines.neuron.importer import Imported
from clhines.neuron.memory.session import Hoc
from clhines.neuron.read.trains import held_vector
from clhines.simulate.result import Result
from clhines.simulate.simulation import Simulation


class Counters:
    """Lets a simulation record what Vectors of APCount keep, and fills them."""

    def __init__(self, sim: Simulation, imported: Imported) -> None:
        model = imported.model
        self._found: list[tuple[Hoc, float, int, int]] = []
        points = {n: i for n, i in model.contents.points.items() if counts_crossings(i.entry.text)}
        vectors = {model.memory.inside(v): v for v in model.h.List("Vector")} if points else {}
        for name, instances in points.items():
            for k, thing in enumerate(instances.things):
                vector = held_vector(model.memory, thing, vectors)
                if vector is not None:
                    group = imported.groups[name]
                    records = (sim.record(variable, group, [k]) for variable in ("n", "time"))
                    self._found.append((vector, float(thing.n), *records))

    @property
    def has_any(self) -> bool:
        """Whether there is such a Vector."""
        return bool(self._found)

    def fill(self, result: Result, first: int) -> None:
        """Put the times of a run into all vectors; its rows count from `first`."""
        for vector, begin, n, time in self._found:
            counts = np.append(begin, result[n][first:, 0])
            for row in np.flatnonzero(np.diff(counts) > 0).tolist():
                vector.resize(int(counts[row + 1]))
                vector.x[int(counts[row + 1]) - 1] = float(result[time][first + row, 0])
