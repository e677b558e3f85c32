"""i_membrane: the current through the membrane of nodes, from voltages and electrodes.

What flows into a node along the cell and out of electrodes leaves through its membrane, through its
capacitance, channels and synapses together. So no currents of mechanisms are needed, only voltages
of the node and its neighbours at the end of the step, as the equations of the step have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clhines.arrays import offsets, ranges
from clhines.errors import InputError
from clhines.mechanisms.emit.noise import normal
from clhines.mechanisms.mechanism import mechanism as built_in
from clhines.model.model import Kind, Model

ELECTRODES = ("iclamp", "inoise")  # built-in mechanisms whose currents are no membrane's


@dataclass(frozen=True, eq=False)
class Clamps:
    kind: int
    instance: np.ndarray
    output: str  # variable that has the current into the cell; empty: computed here


class Membrane:
    """Nodes whose membrane currents, nA and outward, are worked out of rows of voltages.

    An electrode whose current depends on the voltage, or is not known otherwise, is an InputError.
    Neighbours of node j are the entries ``begin[j]:begin[j + 1]``, with columns of the neighbour
    and of the node itself in `sampled` as `other` and `own`, and the axial conductance `g`, µS.
    Electrodes of node j, numbered through all `clamps`, are ``clamp[clamp_begin[j]:clamp_begin[j +
    1]]``.
    """

    def __init__(self, model: Model, nodes: np.ndarray) -> None:
        if model.secondorder:
            raise InputError("i_membrane is for steps of first order; expected secondorder=False")
        self._model = model
        below = np.flatnonzero(model.forest.parent >= 0)
        above = model.forest.parent[below].astype(np.int64)
        node, other = np.concatenate([below, above]), np.concatenate([above, below])
        wanted = np.zeros(model.forest.num_nodes, bool)
        wanted[nodes] = True
        g = -np.tile(model.u[below], 2)
        kept = np.flatnonzero(wanted[node])
        kept = kept[np.lexsort((other[kept], node[kept]))]
        node, other, g = node[kept], other[kept], g[kept]
        first, end = np.searchsorted(node, nodes), np.searchsorted(node, nodes, side="right")
        at = ranges(first, end - first)
        self.sampled = np.unique(np.concatenate([nodes, other]))
        self.begin = offsets(end - first)
        self.other = np.searchsorted(self.sampled, other[at])
        self.own = np.searchsorted(self.sampled, node[at])
        self.g = g[at]
        joined = np.concatenate([nodes[:0], *(one.node for one in model.linear)])
        if np.isin(nodes, joined).any():
            raise InputError(
                "i_membrane where linear equations take current; expected nodes without them"
            )
        self.clamps: list[Clamps] = []
        self._find_clamps(nodes)

    def _find_clamps(self, nodes: np.ndarray) -> None:
        """Find the electrodes at nodes; a node that comes twice has its electrodes twice."""
        node, count = [np.zeros(0, np.int64)], 0
        for k, kind in enumerate(self._model.kinds):
            if not is_electrode(kind):
                continue
            first = np.searchsorted(kind.node, nodes)
            number = np.searchsorted(kind.node, nodes, side="right") - first
            if number.any():
                found = ranges(first, number)
                self.clamps.append(Clamps(k, found, self._output(k)))
                node.append(np.repeat(np.arange(len(nodes)), number))
                count += len(found)
        of = np.concatenate(node)
        self.clamp = np.argsort(of, kind="stable")
        self.clamp_begin = offsets(np.bincount(of, minlength=len(nodes)))

    def _output(self, k: int) -> str:
        """Return the variable that has the current of electrodes of a kind."""
        mechanism, model = self._model.kinds[k].mechanism, self._model
        program = mechanism.program
        if program.electrode and any(a.role == "v" for a in program.blocks["current"]):
            raise InputError(
                f"i_membrane where {mechanism.name} is, an electrode whose current depends on the "
                "voltage; expected nodes without it"
            )
        if model.has_times and program.electrode:
            names = program.electrode_currents
            known = [q.name for q in program.outputs if names[0] in (q.name, q.public)]
            if len(names) != 1 or not known:
                raise InputError(
                    f"i_membrane where {mechanism.name} is; expected an electrode with one "
                    "current, a RANGE variable"
                )
            return known[0]
        if program.states or any(p.kind == k for p in model.played):
            what = "states" if program.states else "a parameter that is played"
            raise InputError(
                f"i_membrane where {mechanism.name} is, an electrode with {what}; expected nodes "
                "without it"
            )
        return ""

    def currents(self, first: int, rows: int, outputs: Sequence[np.ndarray]) -> np.ndarray:
        """(rows, c) float64, nA: of all electrodes, into the cell, from step `first` on."""
        found, given = [np.zeros((rows, 0))], iter(outputs)
        for clamps in self.clamps:
            found.append(next(given) if clamps.output else self._computed(clamps, first, rows))
        return np.hstack(found)

    def _computed(self, clamps: Clamps, first: int, rows: int) -> np.ndarray:
        """(rows, c) float64, nA: currents that depend on the time and on noise alone."""
        model = self._model
        kind, steps = model.kinds[clamps.kind], np.arange(first, first + rows)
        t = np.maximum((steps + 0.5) * model.dt, 0.0)[:, None]
        parameters = {name: a[clamps.instance] for name, a in kind.arrays().items()}
        noise = None
        if kind.mechanism.uses_noise:
            number = kind.first_instance + clamps.instance
            noise = normal(model.seed, number, np.maximum(steps, 0)[:, None])
        v = np.zeros((rows, len(clamps.instance)))
        return -kind.mechanism.current(v, t, parameters, {}, noise, model.dt)[0]


def is_electrode(kind: Kind) -> bool:
    """Whether the current of a kind comes from an electrode, not from the membrane."""
    mechanism = kind.mechanism
    return mechanism.program.electrode or mechanism in [built_in(name) for name in ELECTRODES]
