"""The values of each step of a run, put into NEURON's memory for code that reads them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from clhines.core.errors import InputError
from clhines.neuron.back.records import Records
from clhines.neuron.importer import NeuronNetwork
from clhines.neuron.memory.raw import Place, numbers_in, ref, words_at
from clhines.neuron.model import NeuronModel
from clhines.neuron.read.places import Variable
from clhines.neuron.read.played import Recorder
from clhines.neuron.read.trains import held
from clhines.simulator.result import Result
from clhines.simulator.simulation import Simulation


class StepValues:
    """Record variables in a simulation, and put the values of each step into NEURON's memory."""

    def __init__(
        self, sim: Simulation, imported: NeuronNetwork, reads: dict[Place, Variable]
    ) -> None:
        self._memory, self._h = imported.model.memory, imported.model.h
        self._places = [*reads]
        self._records = Records(sim, imported, [
            Recorder(0, None, variable, now=self._memory.value(place), place=place)
            for place, variable in reads.items()
        ])  # fmt: skip

    def rows(self, result: Result, first: int) -> np.ndarray:
        """Return the variables' values after the `first` rows of `result`, (steps, variables)."""
        rows = np.empty((len(result.t) - first, len(self._places)))
        for k, row in enumerate(self._records.rows(result, first)):
            rows[:, k] = row
        return rows

    @contextmanager
    def put_in_turn(
        self, result: Result, first: int, t: np.ndarray
    ) -> Iterator[Callable[[], None]]:
        """Yield a function; its n-th call writes step n's values and h.t into NEURON's memory.

        The values are rows of `result` from row `first` on, the times are `t`, (steps,), ms. When
        the ``with`` block ends, the memory has its old values again.
        """
        rows = np.column_stack([self.rows(result, first), t])
        places = [*self._places, self._memory.place(ref(self._h, "t"))]
        numbers = (self._memory.number(place) for place in places)
        at = np.array([ctypes.addressof(number) for number in numbers], np.int64)
        memory, where = numbers_in(at)
        before, each = memory[where], iter(rows)

        def take() -> None:
            memory[where] = next(each)

        try:
            yield take
        finally:
            memory[where] = before


def of_nodes(model: NeuronModel, name: str) -> dict[Place, Variable]:
    """Return the variable ``v`` or ``i_membrane`` of each node, by address in memory."""
    tree = model.tree
    column, addresses, numbers = tree.v, tree.addresses, tree.numbers
    if name != "v":
        place = model.memory.known_place(next(iter(tree.sections[0])), "i_membrane_")
        if place is None or not place.column:
            raise InputError("i_membrane_ cannot be read; expected CVode.use_fast_imem(1)")
        column, addresses, numbers = place.column, tree.inner, tree.inner_numbers
    rows = model.fields.rows_at(addresses).tolist()
    nodes = zip(rows, numbers.tolist(), strict=True)
    return {Place(column, row, 0): Variable("", name, node) for row, node in nodes}


def used_vectors(model: NeuronModel) -> set[int]:
    """Return the addresses of all Vectors that record, play, or belong to a mechanism."""
    used, every = {*model.plays.in_use}, model.memory.vectors.by_address()
    for instances in model.contents.points.values():
        if "VERBATIM" in instances.entry.text:
            used.update(*(held(model.memory, one, every) for one in instances.things))
    for origin in model.wires.origins:
        used |= {origin.times, origin.numbers}
    for at in every if model.written.elements else ():
        begin, end = words_at(model.memory.vectors.words_of(at), 2)
        if any(begin <= element < end for element in model.written.elements):
            used.add(at)
    return used - {0}
