"""A network divided among MPI ranks: bounds by cost (`split`), and the part of each rank."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from clhines.errors import InputError
from clhines.model.connections import Connections
from clhines.model.model import Events, Kind, Model
from clhines.simulate.ranks.mpi import Ranks
from clhines.simulate.records.records import VOLTAGE, Record
from clhines.simulate.state.decisions import MAX_EPOCH

if TYPE_CHECKING:
    from mpi4py import MPI

# Cost of an instance in a step, in nodes: by itself, and for each of its states. With
# two CPU cores and a GPU a cell with `hh` everywhere takes some 16 times one that is passive.
_INSTANCE, _STATE = 1.0, 5.0


def join_columns(parts: Sequence[tuple[np.ndarray, np.ndarray]], width: int) -> np.ndarray:
    """(rows, width): what each rank has kept of a record.

    Parameters
    ----------
    parts : sequence of ((c,) int64, (rows, c) array)
        Columns of each rank and their values. Where they have different numbers of rows, as
        crossings have, -1 follows.
    width : int
    """
    rows = max(len(own) for _, own in parts)
    found = np.full((rows, width), -1, np.result_type(*(own.dtype for _, own in parts)))
    for columns, own in parts:
        found[: len(own), columns] = own
    return found


def cell_costs(model: Model) -> np.ndarray:
    """(num_cells,) float64: cost of a step of each cell, in nodes."""
    forest = model.forest
    costs = forest.sizes.astype(np.float64)
    for kind in model.kinds:
        counts = np.diff(np.searchsorted(kind.node, forest.cell_offsets))
        costs += (_INSTANCE + _STATE * len(kind.mechanism.states)) * counts
    return costs


def split(costs: np.ndarray, size: int) -> np.ndarray:
    """Split cells into runs of neighbours of about equal cost.

    Parameters
    ----------
    costs : (num_cells,) float64
    size : int
        Runs; none is empty.

    Returns
    -------
    (size + 1,) int64
        Run r is the cells ``bounds[r]:bounds[r + 1]``.

    Raises
    ------
    InputError
        Fewer cells than runs.
    """
    cells = len(costs)
    if cells < size:
        raise InputError(
            f"{cells} cell{'s' * (cells > 1)} on {size} ranks; expected a cell for each at least"
        )
    before = np.concatenate(([0.0], np.cumsum(costs)))
    aims = before[-1] * np.arange(1, size) / size
    cuts = np.searchsorted((before[1:] + before[:-1]) / 2, aims)  # to the nearer side
    bounds = np.concatenate(([0], cuts, [cells]))
    number = np.arange(size + 1)
    bounds = np.maximum.accumulate(bounds - number) + number  # one cell each at least
    return np.minimum(bounds, cells - size + number)


def ranks_of(comm: MPI.Comm | None) -> Ranks | None:
    """Return the ranks of a communicator of mpi4py; None where there is one alone, or no `comm`.

    Raises
    ------
    InputError
        Not a communicator.
    """
    if comm is None:
        return None
    if not hasattr(comm, "Iallgather"):
        raise InputError(
            f"comm is {type(comm).__name__}; expected one of mpi4py, like MPI.COMM_WORLD"
        )
    try:
        size = comm.size
    except Exception as error:  # of mpi4py
        raise InputError(
            f"comm has no ranks ({error}); expected one of mpi4py, like MPI.COMM_WORLD"
        ) from error
    return Ranks(comm) if size > 1 else None


def check_same(ranks: Ranks, model: Model, signature: str, given: dict[str, object]) -> None:
    """Refuse ranks of which one simulates something else than the others.

    Parameters
    ----------
    ranks : Ranks
    model : Model
        Of the whole network.
    signature : str
        Of `clhines.simulate.state.saved.signature`.
    given : dict of name -> value
        Arguments of the `Simulation`.
    """
    v = hashlib.sha256(model.v_init.tobytes()).hexdigest()
    texts: dict[str, object] = {name: str(value) for name, value in given.items()}
    sizes = {"number of cells": model.forest.num_cells, "dt": model.dt}
    digests = {"digest of the network": signature[:8], "digest of v_init": v[:8]}
    ranks.same({**sizes, **digests, **texts})


def exchanged_during(ranks: Ranks, model: Model, on_host: bool, asked: bool | None) -> bool:
    """Whether ranks exchange the spikes of an epoch during the next one.

    Epochs half as long, exchanged during the next one, are for devices that go on meanwhile;
    where the cores that advance cells also do the exchange, they would only cost.

    Parameters
    ----------
    ranks : Ranks
    model : Model
        Of the whole network.
    on_host : bool
        Whether the cores of this rank's host advance its cells.
    asked : bool or None
        The answer, where it is given.
    """
    if on_host:
        ranks.spin = 0.0  # a rank that waits leaves the core to others
    if asked is not None:
        return asked
    half = (model.connections.min_delay + 1) // 2
    return half >= MAX_EPOCH or not ranks.gather_numbers([on_host]).any()


def part_of(model: Model, first: int, end: int) -> Model:
    """Return the model of cells `first` to ``end - 1`` of a network alone.

    Nodes, instances and targets are numbered anew; sources of connections are not, and noise
    is drawn by the instances' numbers in the whole network. `instances` is left empty.
    """
    low, high = model.forest.cell_offsets[[first, end]].tolist()
    kinds, local, targets = [], np.full(model.num_targets, -1), 0
    for kind in model.kinds:
        span = slice(*np.searchsorted(kind.node, [low, high]).tolist())
        if span.start == span.stop:
            continue
        own_kind = _kind_of_part(kind, span, low, targets)
        kinds.append(own_kind)
        if kind.first_target >= 0:
            begin = kind.first_target + span.start
            local[begin : begin + own_kind.count] = targets + np.arange(own_kind.count)
            targets += own_kind.count
    cells = slice(first, end)
    ours, events = local[model.connections.target] >= 0, local[model.events.target] >= 0
    given = model.connections
    return replace(
        model,
        forest=model.forest.take(np.arange(first, end)),
        soma=model.soma[cells] - low,
        of_nodes=model.of_nodes.part(low, high),
        kinds=tuple(kinds),
        instances=(),
        num_targets=targets,
        connections=Connections(
            given.source[ours],
            local[given.target[ours]],
            given.weight[ours],
            given.delay[ours],
            given.num_sources,
            max(targets, 1),
            given.plastic[ours],
            given.rule,
        ),
        events=Events(
            local[model.events.target[events]],
            model.events.step[events],
            model.events.weight[events],
        ),
        threshold=model.threshold[cells],
        first_cell=first,
    )


def _kind_of_part(kind: Kind, span: slice, first_node: int, first_target: int) -> Kind:
    """Return the kind of some of the instances, of a part of the network."""
    parameters = {
        k: v[span] if isinstance(v, np.ndarray) else v for k, v in kind.parameters.items()
    }
    return Kind(
        mechanism=kind.mechanism,
        node=kind.node[span] - first_node,
        parameters=parameters,
        factor=kind.factor[span],
        first_target=first_target if kind.first_target >= 0 else -1,
        first_instance=kind.first_instance + span.start,
    )


class Share:
    """Where the numbers of each rank are among those of the whole network.

    Parameters
    ----------
    whole : Model
    bounds : (size + 1,) int64
        Of `split`.
    """

    def __init__(self, whole: Model, bounds: np.ndarray) -> None:
        self.whole, self.bounds = whole, bounds
        self.nodes = whole.forest.cell_offsets[bounds]
        self.instances = [np.searchsorted(kind.node, self.nodes) for kind in whole.kinds]
        cell = whole.cell_of_target()[whole.connections.target]
        self.rank_of_connection = np.searchsorted(bounds, cell, side="right") - 1

    def kinds(self, rank: int) -> list[int]:
        """Kinds of the network that have instances on a rank, in the order of its own."""
        return [k for k, at in enumerate(self.instances) if at[rank] < at[rank + 1]]

    def targets(self, rank: int) -> np.ndarray:
        """Targets of events of a rank, by its own numbers."""
        found = [np.zeros(0, np.int64)]
        for k in self.kinds(rank):
            first, at = self.whole.kinds[k].first_target, self.instances[k]
            if first >= 0:
                found.append(np.arange(first + at[rank], first + at[rank + 1]))
        return np.concatenate(found)

    def record(self, rank: int, record: Record) -> tuple[Record, np.ndarray]:
        """Return the entries of a record that a rank has, and the columns that they fill."""
        low, high = (self.nodes if record.kind < 0 else self.instances[record.kind])[
            [rank, rank + 1]
        ].tolist()
        columns = np.flatnonzero((record.index >= low) & (record.index < high))
        if not len(columns):
            return replace(record.at(columns, columns, VOLTAGE), name="v", formula=None), columns
        kind = record.kind if record.kind < 0 else self.kinds(rank).index(record.kind)
        return record.at(columns, record.index[columns] - low, kind), columns

    def cut(self, rank: int, saved: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return a rank's part of a saved state."""
        cells = slice(*self.bounds[[rank, rank + 1]].tolist())
        found = {"v": saved["v"][slice(*self.nodes[[rank, rank + 1]].tolist())]}
        found["incoming"] = saved["incoming"][:, self.targets(rank)]
        found["failed"] = saved["failed"][cells]
        for own, k in enumerate(self.kinds(rank)):
            span = slice(*self.instances[k][[rank, rank + 1]].tolist())
            for name in self.whole.kinds[k].mechanism.states:
                found[f"state{own}_{name}"] = saved[f"state{k}_{name}"][span]
        for name in saved:
            if name.startswith("plastic_"):
                found[name] = saved[name]
        if "plastic_weight" in found:
            found["plastic_weight"] = saved["plastic_weight"][self.rank_of_connection == rank]
        return found

    def join(self, parts: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Return the state of the whole network from those of all ranks."""
        whole, ranks = self.whole, range(len(parts))
        found = {name: np.concatenate([p[name] for p in parts]) for name in ("v", "failed")}
        found["incoming"] = np.zeros((len(parts[0]["incoming"]), whole.num_targets), np.int64)
        for rank in ranks:
            found["incoming"][:, self.targets(rank)] = parts[rank]["incoming"]
        for k, kind in enumerate(whole.kinds):
            there = [(r, self.kinds(r).index(k)) for r in ranks if k in self.kinds(r)]
            for name in kind.mechanism.states:
                values = [parts[r][f"state{own}_{name}"] for r, own in there]
                found[f"state{k}_{name}"] = np.concatenate(values)
        plastic = [p for p in parts if "plastic_weight" in p]
        if plastic:  # every rank sees all spikes: the traces are the same
            found |= {k: v for k, v in plastic[0].items() if k.startswith("plastic_")}
            found["plastic_weight"] = self.join_weights([p.get("plastic_weight") for p in parts])
        return found

    def join_weights(self, parts: Sequence[np.ndarray | None]) -> np.ndarray:
        """(m,) float64: of all connections."""
        weight = self.whole.connections.weight.copy()
        for rank, values in enumerate(parts):
            if values is not None:
                weight[self.rank_of_connection == rank] = values
        return weight
