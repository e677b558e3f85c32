"""Divide a network among MPI ranks by cost, and make each rank's model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from clhines.core.arrays import offsets, ranges
from clhines.core.errors import InputError
from clhines.simulator.engines.run import Request
from clhines.simulator.kinds.layouts import is_artificial
from clhines.simulator.model.connections import GridConnections
from clhines.simulator.model.model import Events, IonNodes, Kind, Model, ModelSources, NetCons
from clhines.simulator.model.schema import Field
from clhines.simulator.ranks.mpi import ONE_PROCESS, Ranks
from clhines.simulator.records.records import Record
from clhines.simulator.state.decisions import MAX_EPOCH, length
from clhines.simulator.state.sources import ring_sizes, steps_of_cells
from clhines.solver.device.devices import is_cpu

if TYPE_CHECKING:
    from mpi4py import MPI

# Costs per step relative to a node's: of an instance, and of each of its states. On two CPU cores
# and on a GPU a cell with `hh` everywhere costs as much as some 16 passive cells.
_INSTANCE, _STATE = 1.0, 5.0
IN_FINISH = ("advance", "after_solve", "before_step")  # blocks after the voltage solve


class RankRecords:
    """The parts of a network's records that one rank records.

    ``local(record)`` returns the rank's part of a record, and which record columns it has.
    """

    def __init__(self, ranks: Ranks, local: Callable[[Record], tuple[Record, np.ndarray]]) -> None:
        self._ranks, self._local = ranks, local
        self._rows: list[tuple[Record, Record, np.ndarray]] = []

    def localise(self, records: Sequence[Record]) -> list[Record]:
        rows = {id(row[0]): row for row in self._rows}
        self._rows = [rows.get(id(r)) or (r, *self._local(r)) for r in records]
        return [record for _, record, _ in self._rows]

    def gather(self, values: Sequence[np.ndarray] | None) -> list[np.ndarray]:
        """Gather all ranks' values for each record, (rows, width); missing rows are -1."""
        if not self._rows:
            return []
        assert values is not None  # else this rank's error has been raised
        columns = [columns for *_, columns in self._rows]
        parts = self._ranks.gather(list(zip(columns, values, strict=True)))
        records = []
        for k, (record, *_) in enumerate(self._rows):
            pieces = [part[k] for part in parts]
            filled = [piece for _, piece in pieces if piece.size] or [pieces[0][1]]
            dtype = np.result_type(*(piece.dtype for piece in filled))
            rows = max(len(piece) for _, piece in pieces)
            records.append(np.full((rows, len(record.index)), -1, dtype))
            for where, piece in pieces:
                records[-1][: len(piece), where] = piece
        return records


def cell_costs(model: Model) -> np.ndarray:
    forest = model.forest
    costs = forest.sizes.astype(np.float64)
    for kind in model.kinds:
        counts = np.diff(np.searchsorted(kind.node, forest.cell_offsets))
        costs += (_INSTANCE + _STATE * len(kind.mechanism.states)) * counts
    return costs


def split(costs: np.ndarray, size: int) -> np.ndarray:
    """Divide cells among `size` ranks at about equal costs; each rank gets at least one.

    Return each rank's first cell, and the end, (size + 1,).
    """
    cells = len(costs)
    if cells < size:
        raise InputError(
            f"{cells} cell{'s' * (cells > 1)} on {size} ranks; expected a cell for each at least"
        )
    before = np.concatenate(([0.0], np.cumsum(costs)))
    aims = before[-1] * np.arange(1, size) / size
    cuts = np.searchsorted((before[1:] + before[:-1]) / 2, aims)  # at a cell's nearer end
    bounds = np.concatenate(([0], cuts, [cells]))
    number = np.arange(size + 1)
    bounds = np.maximum.accumulate(bounds - number) + number  # at least one cell each
    return np.minimum(bounds, cells - size + number)


def ranks_of(comm: MPI.Comm | None, call: str) -> Ranks:
    """Return `Ranks` for a user's communicator, or `OneProcess` for None; see `Ranks.meet`."""
    if comm is None:
        return ONE_PROCESS
    if not hasattr(comm, "Iallgather"):
        raise InputError(
            f"comm is {type(comm).__name__}; expected one of mpi4py, like MPI.COMM_WORLD"
        )
    if not comm or comm.is_inter:
        kind = "an intercommunicator" if comm else "MPI.COMM_NULL"
        raise InputError(f"comm is {kind}; expected an intracommunicator, like MPI.COMM_WORLD")
    return Ranks(comm, call) if comm.size > 1 else ONE_PROCESS


def agreed_overlap(
    ranks: Ranks,
    model: Model,
    signature: str,
    request: Request,
    requested: bool | None,
) -> bool:
    """Return whether the ranks exchange an epoch's spikes while they simulate the next epoch.

    This needs epochs of half the length. It does not pay if the cores that simulate must also
    exchange. `requested` is the user's choice, or None. InputError on all ranks if networks,
    initial voltages or arguments differ; `signature` is a digest of the network.
    """
    v = hashlib.sha256(model.v_init.tobytes()).hexdigest()
    names = "dtype", "engine", "chunk", "max_spikes", "method"
    texts: dict[str, object] = {name: str(getattr(request, name)) for name in names}
    sizes = {"number of cells": model.forest.num_cells, "dt": model.dt}
    digests = {"digest of the network": signature[:8], "digest of v_init": v[:8]}
    ranks.same(lambda: {**sizes, **digests, **texts})
    on_host = request.is_on_host or request.queue is None or is_cpu(request.queue.device)
    if on_host:
        ranks.spin = 0.0  # a rank that waits leaves the core to others
    if requested is not None:
        return requested
    least = model.connections.min_delay  # in steps
    return (least + 1) // 2 >= MAX_EPOCH or not ranks.any(on_host)


RankEntries = slice | np.ndarray


def join(shares: Sequence[Share], saved: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Join each rank's arrays, as `save` returns them, to the arrays of the whole network."""
    joined, whole = {}, shares[0].whole
    for field in whole.schema:
        for share, arrays in zip(shares, saved, strict=True):
            key = field.key
            if key not in arrays:  # such as a rank without plastic connections
                continue
            values = arrays[key]
            if field.refers:
                values = np.append(share.numbers(field.refers), -1)[values]
            if key not in joined:
                shape = *values.shape[:-1], length(whole, field.per, field.kind)
                joined[key] = np.zeros(shape, values.dtype)
            joined[key][..., share.places(field)] = values
    if "held" in joined:
        held = shares[0].whole.sources.above(joined["v"])
        for share in shares:
            if not share.has_held:
                joined["held"][share.detectors] = held[share.detectors]
    return joined


class Share:
    """One rank's part of a network: consecutive cells, and everything at their nodes.

    All ranks have all artificial cells, and compute the same for them. A rank has all mechanisms in
    the network, even without instances: a cell's bits may depend on the mechanism count. Its cells
    are ``first:end`` in the network, its nodes ``low:high``.
    """

    def __init__(self, whole: Model, first: int, end: int) -> None:
        self.whole, self.cells = whole, slice(first, end)
        self.low, self.high = whole.forest.cell_offsets[[first, end]].tolist()

    def _here(self, node: np.ndarray) -> np.ndarray:
        return (node >= self.low) & (node < self.high)

    @cached_property
    def instances(self) -> list[slice]:
        return [
            slice(0, k.count)
            if is_artificial(k)
            else slice(*np.searchsorted(k.node, [self.low, self.high]).tolist())
            for k in self.whole.kinds
        ]

    @cached_property
    def _place(self) -> list[np.ndarray]:
        places = [np.full(kind.count, -1) for kind in self.whole.kinds]
        for numbers, here in zip(places, self.instances, strict=True):
            numbers[here] = np.arange(here.stop - here.start)
        return places

    @cached_property
    def targets(self) -> np.ndarray:
        """The event targets on the rank, (k,) int64."""
        targets = [np.zeros(0, np.int64)]
        for kind, here in zip(self.whole.kinds, self.instances, strict=True):
            first = kind.first_target
            if first >= 0:
                targets.append(np.arange(first + here.start, first + here.stop))
        return np.concatenate(targets)[: self.whole.num_targets]

    @cached_property
    def _target(self) -> np.ndarray:
        places = np.full(max(self.whole.num_targets, 1), -1)
        places[self.targets] = np.arange(len(self.targets))
        return places

    @cached_property
    def on_grid(self) -> np.ndarray:
        """Indices of connections to the rank's targets with delays of whole steps, (k,) int64."""
        return np.flatnonzero(self._target[self.whole.connections.target] >= 0)

    @cached_property
    def connections(self) -> np.ndarray:
        """The connections with exact times to the rank's instances, (k,) int64."""
        netcons = self.whole.netcons
        here = np.zeros(netcons.count, bool)
        for k in np.unique(netcons.kind):
            of_kind = netcons.kind == k
            here[of_kind] = self._place[k][netcons.instance[of_kind]] >= 0
        return np.flatnonzero(here)

    @cached_property
    def weights(self) -> np.ndarray:
        first = self.whole.netcons.first_weight
        return ranges(first[self.connections], np.diff(first)[self.connections])

    @cached_property
    def detectors(self) -> np.ndarray:
        return np.flatnonzero(self._here(self.whole.sources.detector_node))

    @property
    def has_held(self) -> bool:
        """Whether `held` is in the rank's state; otherwise voltages at the somas imply it."""
        return self.whole.exact or len(self.detectors) > self.cells.stop - self.cells.start

    @cached_property
    def remote(self) -> np.ndarray:
        """The other ranks' nodes to which this rank's pointers point, (r,) int64."""
        pointed = [nodes[self.instances[k]] for (k, _), nodes in self.whole.pointers.items()]
        every = np.unique(np.concatenate([np.zeros(0, np.int64), *pointed]))
        return every[~self._here(every)]

    def model(self) -> Model:
        """Return the rank's model.

        Nodes on other ranks to which its pointers point follow the rank's nodes. Instances keep
        their network indices for noise. Sources keep their numbers, but without events at exact
        times detectors are numbered by rank.
        """
        whole, grid, rows = self.whole, self.whole.connections, self.on_grid
        events = np.flatnonzero(self._target[whole.events.target] >= 0)
        return replace(
            whole,
            forest=whole.forest.subset(np.arange(self.cells.start, self.cells.stop)),
            soma=whole.soma[self.cells] - self.low,
            of_nodes=whole.of_nodes.part(self.low, self.high),
            kinds=tuple(map(self._kind, range(len(whole.kinds)))),
            instances=(),
            num_targets=len(self.targets),
            connections=GridConnections(
                grid.source[rows],
                self._target[grid.target[rows]],
                grid.weight[rows],
                grid.delay[rows],
                grid.num_sources,
                max(len(self.targets), 1),
                grid.plastic[rows],
                grid.rule,
            ),
            events=Events(
                self._target[whole.events.target[events]],
                whole.events.step[events],
                whole.events.weight[events],
                whole.events.number[events],
            ),
            first_cell=self.cells.start,
            diffusions=tuple(d.part(self.instances[d.kind]) for d in whole.diffusions),
            layers=whole.layers and whole.layers.part(self.cells),
            ions=tuple(self._ion(ion) for ion in whole.ions),
            sources=self._sources(),
            netcons=self._netcons(),
            pointers={
                (k, name): self._node(nodes[self.instances[k]])
                for (k, name), nodes in whole.pointers.items()
            },
            played=tuple(
                replace(p, instance=int(place))
                for p in whole.played
                for place in [self._place[p.kind][p.instance]]
                if place >= 0
            ),
            random_ids={
                (k, name): ids[self.instances[k]] for (k, name), ids in whole.random_ids.items()
            },
            remote_v=whole.v_init[self.remote] if len(self.remote) else np.zeros(0),
        )

    def _kind(self, k: int) -> Kind:
        kind, here = self.whole.kinds[k], self.instances[k]
        before = [j for j in range(k) if self.whole.kinds[j].first_target >= 0]
        first = sum(self.instances[j].stop - self.instances[j].start for j in before)
        played = {p.parameter for p in self.whole.played if p.kind == k}  # maybe on another rank
        columns = {n: np.asarray(v) for n, v in kind.parameters.items() if np.ndim(v)}
        columns |= {n: v for n, v in kind.arrays().items() if n in played}
        return replace(
            kind,
            node=kind.node[here] - (0 if is_artificial(kind) else self.low),
            parameters=kind.parameters | {n: v[here] for n, v in columns.items()},
            factor=kind.factor[here],
            last=None,
            first_target=first if kind.first_target >= 0 else -1,
            first_instance=kind.first_instance + here.start,
        )

    def _ion(self, ion: IonNodes) -> IonNodes:
        here = self._here(ion.node)
        arrays = {n: getattr(ion, n)[here] for n in ("e", "ci", "co", "style")}
        return replace(ion, node=ion.node[here] - self.low, **arrays)

    def _sources(self) -> ModelSources:
        whole = self.whole
        sources = whole.sources.at_nodes(self.low, self.high)
        if not whole.exact:
            return replace(sources, detector_source=np.arange(len(sources.detector_node)))
        emitted = {k: every[self.instances[k]] for k, every in whole.sources.emitted.items()}
        return replace(sources, emitted=emitted, ring_size=ring_sizes(whole))

    def _netcons(self) -> NetCons:
        netcons, rows = self.whole.netcons, self.connections
        kind, instance = netcons.kind[rows], netcons.instance[rows]
        on_rank = np.zeros(len(rows), np.int64)
        for k in np.unique(kind):
            on_rank[kind == k] = self._place[k][instance[kind == k]]
        counts = np.diff(netcons.first_weight)[rows]
        return NetCons(
            netcons.source[rows],
            kind,
            on_rank,
            netcons.delay[rows],
            netcons.weight[self.weights],
            offsets(counts).astype(np.int64),
        )

    def _node(self, node: np.ndarray) -> np.ndarray:
        beyond = self.high - self.low + np.searchsorted(self.remote, node)
        return np.where(self._here(node), node - self.low, beyond)

    @cached_property
    def _entries(self) -> dict[str, RankEntries]:
        """Where the rank's part of an array is along its axis `Field.per`; other axes are whole."""
        return {
            "node": slice(self.low, self.high),
            "cell": self.cells,
            "target": self.targets,
            "plastic": self.on_grid,
            "weight": self.weights,
            "connection": self.connections,
            "detector": self.detectors,
        }

    def places(self, field: Field) -> RankEntries:
        if field.kind is not None:
            return self.instances[field.kind]
        return self._entries.get(field.per, slice(None))

    def numbers(self, per: str) -> np.ndarray:
        """Return the network indices of the rank's items on an axis `per`, (k,) int64."""
        return np.arange(length(self.whole, per))[self._entries[per]]

    def cut(self, saved: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        arrays = {}
        for field in self.whole.schema:
            if field.key == "held" and not self.has_held:
                continue
            arrays[field.key] = saved[field.key][..., self.places(field)]
            if field.refers:
                numbers = self.numbers(field.refers)
                number = np.full(length(self.whole, field.refers) + 1, -1)  # the last entry: none
                number[numbers] = np.arange(len(numbers))
                arrays[field.key] = number[arrays[field.key]]
        return arrays | {"remote_v": saved["v"][self.remote]}

    def record(self, record: Record) -> tuple[Record, np.ndarray]:
        """Return the rank's part of a record, and which record columns it has."""
        low, high = self.low, self.high
        if record.kind >= 0:
            low, high = self.instances[record.kind].start, self.instances[record.kind].stop
        columns = np.flatnonzero((record.index >= low) & (record.index < high))
        return record.at(columns, record.index[columns] - low, record.kind), columns


def check_pointers(model: Model, remote: Iterable[tuple[int, str]]) -> None:
    """Refuse pointers to other ranks if states depend on them; `remote` has (kind, name)."""
    for k, name in remote:
        mechanism = model.kinds[k].mechanism
        finish = (a for block in IN_FINISH for a in mechanism.program.blocks.get(block, ()))
        if any(a.role == "pointer" and a.name == name for a in finish):
            raise InputError(
                f"{mechanism.name}: states depend on pointer {name}, which points to another rank; "
                "expected one process"
            )


def steps_together(shares: Sequence[Share]) -> int:
    """Return the most steps between exchanges of exact events; InputError if less than 1."""
    whole = shares[0].whole
    if any(len(share.remote) for share in shares):
        check_pointers(whole, whole.pointers)
        return 1
    netcons = whole.netcons
    for k, sources in whole.sources.emitted.items():
        detected = np.isin(netcons.source, sources[sources >= 0])
        if not is_artificial(whole.kinds[k]) and (netcons.delay[detected] < whole.dt).any():
            raise InputError(
                f"{whole.kinds[k].mechanism.name} sends events with delays shorter than a step; "
                "expected one process, or longer delays"
            )
    steps = steps_of_cells(whole)
    return MAX_EPOCH if steps is None else max(steps, 1)
