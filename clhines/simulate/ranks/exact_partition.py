"""A network with exact times divided among ranks: which numbers of the whole each of them has.

A rank has cells that are neighbours, with everything at their nodes. Artificial cells are on every
rank, which all compute the same of them. All ranks keep the events of all sources.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from clhines.arrays import offsets, ranges
from clhines.errors import InputError
from clhines.model.connections import Connections
from clhines.model.model import Events, Kind, Model
from clhines.model.sources import NetCons
from clhines.simulate.events.sources import ring_sizes
from clhines.simulate.kinds.layouts import is_artificial
from clhines.simulate.ranks.partition import Part

IN_FINISH = ("advance", "after_solve", "before_step")


class ExactShare:
    """Where the numbers of a rank are among those of the whole network.

    Parameters
    ----------
    whole : Model
    first, end : int
        Cells of the rank.

    Attributes
    ----------
    nodes : (n,) int64
        Of the whole network; those of the rank, ascending.
    instances : list of (count,) int64
        Of each kind.
    connections, weights, detectors : (m,) int64
    targets, on_grid : (m,) int64
        Targets of events in whole steps, and connections to them.
    remote : (r,) int64
        Nodes of other ranks at which pointers of this one point.
    """

    def __init__(self, whole: Model, first: int, end: int) -> None:
        self.whole, self.cells = whole, (first, end)
        low, high = whole.forest.cell_offsets[[first, end]].tolist()
        self.low, self.high, self.nodes = low, high, np.arange(low, high)
        self.instances = [
            np.arange(k.count) if is_artificial(k) else np.flatnonzero(self._here(k.node))
            for k in whole.kinds
        ]
        netcons = self.whole.netcons
        here = np.zeros(netcons.count, bool)
        for k, instances in enumerate(self.instances):
            known = np.zeros(whole.kinds[k].count, bool)
            known[instances] = True
            of_kind = netcons.kind == k
            here[of_kind] = known[netcons.instance[of_kind]]
        self.connections = np.flatnonzero(here)
        counts = np.diff(netcons.first_weight)[here]
        self.weights = ranges(netcons.first_weight[:-1][here], counts)
        self.detectors = np.flatnonzero(self._here(self.whole.sources.detector_node))
        of_kinds = zip(whole.kinds, self.instances, strict=True)
        targets = [k.first_target + some for k, some in of_kinds if k.first_target >= 0]
        self.targets = np.concatenate([np.zeros(0, np.int64), *targets])[: whole.num_targets]
        self.on_grid = np.flatnonzero(np.isin(whole.connections.target, self.targets))
        pointed = [nodes[self.instances[k]] for (k, _), nodes in self.whole.pointers.items()]
        every = np.unique(np.concatenate([np.zeros(0, np.int64), *pointed]))
        self.remote = every[~self._here(every)]

    def _here(self, node: np.ndarray) -> np.ndarray:
        return (node >= self.low) & (node < self.high)

    def model(self) -> Model:
        """Return the model of the rank; nodes of others that are pointed at are beyond its own."""
        whole, (first, end) = self.whole, self.cells
        cells, local = slice(first, end), np.full(max(whole.num_targets, 1), -1)
        local[self.targets] = np.arange(len(self.targets))
        given, some = whole.connections, self.on_grid
        events = np.flatnonzero(local[whole.events.target] >= 0)
        return replace(
            whole,
            forest=whole.forest.take(np.arange(first, end)),
            soma=whole.soma[cells] - self.low,
            of_nodes=whole.of_nodes.part(self.low, self.high),
            kinds=tuple(self._kind(k) for k in range(len(whole.kinds))),
            instances=(),
            num_targets=len(self.targets),
            connections=Connections(
                given.source[some],
                local[given.target[some]],
                given.weight[some],
                given.delay[some],
                given.num_sources,
                max(len(self.targets), 1),
                given.plastic[some],
                given.rule,
            ),
            events=Events(
                local[whole.events.target[events]],
                whole.events.step[events],
                whole.events.weight[events],
            ),
            first_cell=first,
            **self._exact(),
        )

    def _kind(self, k: int) -> Kind:
        kind, some = self.whole.kinds[k], self.instances[k]
        begin = int(some[0]) if len(some) else 0
        return replace(
            kind,
            node=kind.node[some] - (0 if is_artificial(kind) else self.low),
            parameters={
                n: v[some] if isinstance(v, np.ndarray) else v for n, v in kind.parameters.items()
            },
            factor=kind.factor[some],
            first_target=self._first_target(k),
            first_instance=kind.first_instance + begin,
        )

    def _first_target(self, k: int) -> int:
        """Return the number of the first instance of a kind among the targets of the rank."""
        if self.whole.kinds[k].first_target < 0:
            return -1
        before = zip(self.whole.kinds[:k], self.instances, strict=False)
        return sum(len(some) for kind, some in before if kind.first_target >= 0)

    def _exact(self) -> dict[str, Any]:
        """Return the fields of ions, sources and everything with exact times."""
        given = self.whole
        place = [np.full(k.count, -1) for k in self.whole.kinds]
        for known, some in zip(place, self.instances, strict=True):
            known[some] = np.arange(len(some))
        ions = []
        for ion in given.ions:
            at = self._here(ion.node)
            arrays = {n: getattr(ion, n)[at] for n in ("e", "ci", "co", "style")}
            ions.append(replace(ion, node=ion.node[at] - self.low, **arrays))
        netcons, some = given.netcons, self.connections
        instance = np.array(
            [place[k][j] for k, j in zip(netcons.kind[some], netcons.instance[some], strict=True)],
            np.int64,
        )
        counts = np.diff(netcons.first_weight)[some]
        taken = NetCons(
            netcons.source[some], netcons.kind[some], instance, netcons.delay[some],
            netcons.weight[self.weights], offsets(counts).astype(np.int64),
        )  # fmt: skip
        emitted = {k: of[self.instances[k]] for k, of in given.sources.emitted.items()}
        sources = replace(
            given.sources.at_nodes(self.low, self.high),
            emitted=emitted,
            ring_size=ring_sizes(given),
        )
        return dict(
            ions=tuple(ions),
            sources=sources,
            netcons=taken,
            pointers={
                (k, name): self._local(nodes[self.instances[k]])
                for (k, name), nodes in given.pointers.items()
            },
            played=tuple(
                replace(p, instance=int(place[p.kind][p.instance]))
                for p in given.played
                if place[p.kind][p.instance] >= 0
            ),
            random_ids={key: ids[self.instances[key[0]]] for key, ids in given.random_ids.items()},
            remote_v=self.whole.v_init[self.remote],
        )

    def _local(self, node: np.ndarray) -> np.ndarray:
        """Numbers of nodes on this rank; remote ones follow those of its own."""
        beyond = self.high - self.low + np.searchsorted(self.remote, node)
        return np.where(self._here(node), node - self.low, beyond)

    def part(self) -> Part:
        """Return which things of the network the rank has."""
        return Part(
            range(len(self.whole.kinds)),
            self.instances,
            {
                "node": self.nodes,
                "cell": np.arange(*self.cells),
                "target": self.targets,
                "plastic": self.on_grid,
                "weight": self.weights,
                "connection": self.connections,
                "detector": self.detectors,
            },
        )


def steps_together(shares: list[ExactShare]) -> int:
    """Count the steps that ranks take before they exchange events.

    Raises
    ------
    InputError
        Something on one rank acts within a step on another one.
    """
    whole = shares[0].whole
    finish = [
        (k, a.name)
        for k, kind in enumerate(whole.kinds)
        for block in IN_FINISH
        for a in kind.mechanism.program.blocks.get(block, ())
        if a.role == "pointer"
    ]
    if any(len(share.remote) for share in shares):
        if finish:
            k, name = finish[0]
            raise InputError(
                f"{whole.kinds[k].mechanism.name}: states depend on pointer {name}, which points "
                "to another rank; expected one process"
            )
        return 1
    netcons, least = whole.netcons, np.inf
    for source_kind, sources in [
        (-1, whole.sources.detector_source),
        *whole.sources.emitted.items(),
    ]:
        if source_kind >= 0 and is_artificial(whole.kinds[source_kind]):
            continue
        known = np.isin(netcons.source, sources[sources >= 0])
        least = min(least, netcons.delay[known].min(initial=np.inf))
        if source_kind >= 0 and (netcons.delay[known] < whole.dt).any():
            raise InputError(
                f"{whole.kinds[source_kind].mechanism.name} sends events with delays shorter than "
                "a step; expected one process, or longer delays"
            )
    return int(max(1, min(1024, np.floor(least / whole.dt) - 1)))
