"""Warnings of diverging voltages."""

from __future__ import annotations

import numpy as np

from clhines.core.errors import say_to_caller
from clhines.neuron.back.records import Records
from clhines.neuron.importer import NeuronNetwork
from clhines.simulator.result import Result
from clhines.simulator.simulation import Simulation

# mV: above this, v + 0.001 mV (NEURON's step for conductances) has a rounding error of 2^-23 of
# this step or more, as in float32; ten million times higher the step is lost
FAR = 2.0**20


class Runaways:
    """Warn of diverging voltages: rounding then dominates NEURON's own results, too.

    All voltages are checked at the end of a run. In each step the recorded voltages are checked,
    and the voltages at instances with a negative weight, whose conductance may be negative.
    """

    def __init__(self, sim: Simulation, imported: NeuronNetwork, records: Records) -> None:
        self._imported, self._records = imported, records
        self._reported, self._until = set[int](), np.inf  # nodes in this run; its end, ms
        self._nodes = self._reached()
        words = ("min", "max") if len(self._nodes) else ()
        self._extremes = [sim.record("v", self._nodes, reduce=word) for word in words]

    def _reached(self) -> np.ndarray:
        """Return the nodes of instances that receive events with a negative weight, (k,) int64."""
        model, nodes = self._imported.model, set[int]()
        wires = model.wires
        for number in np.unique(wires.target[(wires.weights < 0).any(1)]).tolist():
            name, k = wires.senders[number]
            if name in self._imported.groups:
                nodes.add(int(model.contents.points[name].nodes[k]))
        return np.array(sorted(nodes - {-1}), np.int64)

    def are_seen(self) -> bool:
        """Whether each step checks every node that an event with a negative weight can reach."""
        return bool(np.isin(self._reached(), self._nodes).all())

    def tell(self, result: Result, first: int, end: np.ndarray) -> None:
        """Warn if voltages diverged from row `first` of `result` on; `end` has the last, mV."""
        before, self._until = self._until, float(self._imported.model.h.t)
        if self._until <= before:
            self._reported.clear()
        most = np.abs(end).astype(np.float64)
        for extreme in self._extremes:
            most[self._nodes] = np.fmax(most[self._nodes], np.abs(result[extreme]))
        nodes, rows = self._records.voltages(result)
        if len(rows) > first:
            seen = rows[first:]
            np.fmax.at(most, nodes, np.fmax(seen.max(0), -seen.min(0)))
        far = [k for k in np.flatnonzero(most >= FAR).tolist() if k not in self._reported]
        if not far:
            return
        self._reported.update(far)
        at = max(far, key=lambda k: float(most[k]))
        more = f" and {len(far) - 1} more" if len(far) > 1 else ""
        say_to_caller(
            f"voltages run off: {self._segment_name(at)}{more}, to {most[at]:.1g} mV, by t = "
            f"{self._imported.model.h.t:g} ms; rounding spoils NEURON's conductances, which are "
            f"differences over 0.001 mV, beyond {FAR:.0g} mV, so that its spikes may be others"
        )

    def _segment_name(self, node: int) -> str:
        tree, wires = self._imported.model.tree, self._imported.model.wires
        place = np.flatnonzero(tree.inner_numbers == node)
        while not len(place) and tree.parent[node] >= 0:
            node = int(tree.parent[node])
            place = np.flatnonzero(tree.inner_numbers == node)
        named = str(tree.segment(int(place[0]))) if len(place) else f"node {node}"
        bounds = self._imported.network.forest.cell_offsets
        cell = np.searchsorted(bounds, node, side="right") - 1
        for origin in wires.origins:
            if origin.gid >= 0 and bounds[cell] <= origin.node < bounds[cell + 1]:
                return f"{named} (gid {origin.gid})"
        return named
