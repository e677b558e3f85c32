"""`i_membrane`: the current through a node's membrane.

Current that flows into a node along the cell and out of electrodes leaves through its membrane:
through capacitance, channels and synapses together. So it follows from the voltages at the node and
its neighbours after the step, without the mechanisms' currents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clhines.core.arrays import offsets, ranges
from clhines.simulator.mechanisms.emit.noise import normal
from clhines.simulator.model.instances import is_electrode, reads_outside
from clhines.simulator.model.model import Model
from clhines.simulator.model.needs import refused


@dataclass(frozen=True, eq=False)
class Clamps:
    kind: int
    instance: np.ndarray
    output: str  # variable that holds the inward current; empty: computed here


class Membrane:
    """Compute membrane currents, nA and outward, from rows of voltages.

    InputError if an electrode's current depends on voltage, or is not available.

    - `sampled`: the nodes whose voltages are in a row
    - `begin`: recorded node j has the axial connections ``begin[j]:begin[j + 1]``
    - `node_column`, `neighbour_column`: the voltage columns for both ends of a connection
    - `g`: its conductance, µS
    - `clamp_begin`, `clamp`: the electrodes at node j, as numbers among all `clamps`, are
      ``clamp[clamp_begin[j]:clamp_begin[j + 1]]``
    """

    def __init__(self, model: Model, nodes: np.ndarray) -> None:
        if model.secondorder:
            raise refused("network.i-membrane-secondorder")
        self._model = model
        joints = _joints(model, nodes)
        recorded = np.zeros(model.forest.num_nodes, bool)
        recorded[nodes] = True
        kept = np.flatnonzero(recorded[joints[0]])
        kept = kept[np.lexsort((joints[2][kept], joints[0][kept]))]
        node, node_v, neighbour_v, g = (column[kept] for column in joints)
        first, end = np.searchsorted(node, nodes), np.searchsorted(node, nodes, side="right")
        at = ranges(first, end - first)
        self.sampled = np.unique(np.concatenate([nodes, node_v, neighbour_v]))
        self.begin = offsets(end - first)
        self.neighbour_column = np.searchsorted(self.sampled, neighbour_v[at])
        self.node_column = np.searchsorted(self.sampled, node_v[at])
        self.g = g[at]
        self.clamps: list[Clamps] = []
        self._find_clamps(nodes if model.layers is None else model.layers.injected(nodes))

    def _find_clamps(self, nodes: np.ndarray) -> None:
        clamp_nodes, columns, count = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
        for k, kind in enumerate(self._model.kinds):
            if not is_electrode(kind.mechanism):
                continue
            first = np.searchsorted(kind.node, nodes)
            number = np.searchsorted(kind.node, nodes, side="right") - first
            if number.any():
                instance, output = ranges(first, number), self._output(k)
                column = np.arange(len(instance))
                if not output and not kind.mechanism.uses_noise:  # compute equal ones once
                    parameters = [np.zeros(kind.count), *kind.arrays().values()]
                    values = np.stack([a[instance] for a in parameters], axis=1)
                    _, at, column = np.unique(
                        values, axis=0, return_index=True, return_inverse=True
                    )
                    instance = instance[at]
                self.clamps.append(Clamps(k, instance, output))
                clamp_nodes.append(np.repeat(np.arange(len(nodes)), number))
                columns.append(count + column.reshape(-1))
                count += len(instance)
        node = np.concatenate(clamp_nodes)
        self.clamp = np.concatenate(columns)[np.argsort(node, kind="stable")]
        self.clamp_begin = offsets(np.bincount(node, minlength=len(nodes)))

    def folded(self, matrix: np.ndarray) -> list[np.ndarray]:
        """Return a matrix for voltages and one for electrodes' currents, from one for the nodes.

        `matrix` (k, m) is for the m recorded nodes' membrane currents. The results are (k,
        len(sampled)) and (k, c): their products with voltages and electrodes' currents add up to
        the product of `matrix` and the membrane currents.
        """
        # The connection from node i to node j carries g (v_i - v_j) into j and the opposite into i.
        # So it contributes g (M_j - M_i) (v_i - v_j), and a column of the result is a sum of
        # g (M_j - M_i): differences of M, which are smaller than M and have no cancellation later.
        # The columns of a row add up to 0, so a voltage common to all nodes could be subtracted. It
        # is not: a relative rounding of a product changes the sum as much as the same rounding of
        # its voltage does, and the simulated voltages are rounded already.
        columns, num_clamps = len(self.sampled), sum(len(c.instance) for c in self.clamps)
        node, clamp_node = (
            np.repeat(np.arange(len(first) - 1), np.diff(first))
            for first in (self.begin, self.clamp_begin)
        )
        low, high = np.sort([self.node_column, self.neighbour_column], axis=0)
        sign = np.where(self.node_column == low, 1.0, -1.0)
        _, at, connection = np.unique(low * columns + high, return_index=True, return_inverse=True)
        low, high, g = low[at], high[at], self.g[at]
        of_voltages = np.empty((len(matrix), columns))
        of_clamps = np.empty((len(matrix), num_clamps))
        for k, row in enumerate(matrix):
            flow = g * np.bincount(connection, sign * row[node], len(g))
            of_voltages[k] = np.bincount(high, flow, columns) - np.bincount(low, flow, columns)
            of_clamps[k] = np.bincount(self.clamp, row[clamp_node], num_clamps)
        return [of_voltages, of_clamps]

    def _output(self, k: int) -> str:
        """Return the variable with an electrode's current by name, or "" to compute the current.

        InputError if neither is possible.
        """
        mechanism, model = self._model.kinds[k].mechanism, self._model
        program = mechanism.program
        of_v = any(a.role == "v" for a in program.blocks["current"])
        if of_v and reads_outside(mechanism):
            raise refused("network.i-membrane-voltage-clamp", name=mechanism.name)
        if model.exact and program.electrode:
            names = program.electrode_currents
            outputs = [q.name for q in program.outputs if names[0] in (q.name, q.public)]
            if len(names) != 1 or not outputs:
                raise refused("network.i-membrane-two-currents", name=mechanism.name)
            return outputs[0]
        if program.states or any(p.kind == k for p in model.played):
            what = "states" if program.states else "a parameter that is played"
            raise refused("network.i-membrane-electrode", name=mechanism.name, what=what)
        return ""

    def currents(self, steps: np.ndarray, outputs: Sequence[np.ndarray]) -> np.ndarray:
        """Return all electrodes' inward currents in some steps, (rows, c) float64, nA.

        `outputs` has the recorded currents for `clamps` whose variable is recorded. Electrodes with
        equal parameters share a column.
        """
        currents, output = [np.zeros((len(steps), 0))], iter(outputs)
        for clamps in self.clamps:
            currents.append(next(output) if clamps.output else self._current(clamps, steps))
        return np.hstack(currents)

    def _current(self, clamps: Clamps, steps: np.ndarray) -> np.ndarray:
        """Compute inward currents that depend only on time and noise, (rows, c) float64, nA."""
        model = self._model
        kind = model.kinds[clamps.kind]
        t: Any = np.maximum((steps + 0.5) * model.dt, 0.0)[:, None]
        parameters = {name: a[clamps.instance] for name, a in kind.arrays().items()}
        noise = None
        if kind.mechanism.uses_noise:
            number = kind.first_instance + clamps.instance
            noise = normal(model.seed, number, np.maximum(steps, 0)[:, None])
        v = np.zeros((len(steps), len(clamps.instance)))
        return -kind.mechanism.current(v, t, parameters, {}, noise, model.dt)[0]


def _joints(model: Model, nodes: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return all nodes' axial connections, each one twice, once for each end.

    For each: the node, the nodes with the voltages at the two ends, and the conductance, µS. In
    layers, current also flows from the enclosing nodes at both ends.
    """
    layers = model.layers
    if layers is None:
        below = np.flatnonzero(model.forest.parent >= 0)
        above = model.forest.parent[below].astype(np.int64)
        node, other = np.concatenate([below, above]), np.concatenate([above, below])
        return node, node, other, -np.tile(model.u[below], 2)
    child = np.flatnonzero(layers.parent >= 0)
    pairs = np.concatenate([[child, layers.parent[child]], [layers.parent[child], child]], axis=1)
    (node, other), (node_outer, outer) = layers.node[0][pairs], layers.node[1][pairs]
    g = np.tile(layers.axial[0, child], 2)
    lone = np.isin(node, nodes) & ((node_outer < 0) != (outer < 0))
    if lone.any() or not np.isin(nodes, layers.node[0]).all():
        beside = f"node {node[lone][0]} beside a node with layers" if lone.any() else ""
        where = beside or "a node around another"
        raise refused("network.i-membrane-layers", where=where)
    both = outer >= 0
    every = [node, node[both]], [node, node_outer[both]], [other, outer[both]], [g, g[both]]
    return tuple(np.concatenate(each) for each in every)
