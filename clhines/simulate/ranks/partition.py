"""A network divided among MPI ranks: bounds by cost (`split`), and the part of each rank."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from clhines.errors import InputError
from clhines.model.connections import Connections
from clhines.model.model import Events, Kind, Model
from clhines.model.schema import Field
from clhines.simulate.ranks.mpi import Ranks
from clhines.simulate.records.records import VOLTAGE, Record
from clhines.simulate.state.decisions import MAX_EPOCH
from clhines.simulate.state.shapes import length

if TYPE_CHECKING:
    from mpi4py import MPI

# Cost of an instance in a step, in nodes: by itself, and for each of its states. With
# two CPU cores and a GPU a cell with `hh` everywhere takes some 16 times one that is passive.
_INSTANCE, _STATE = 1.0, 5.0


class RankRecords:
    """Records of a network of which each rank has some entries.

    Parameters
    ----------
    ranks : Ranks
    local : callable
        Returns the entries of a record that this rank has, and (c,) int64, the columns that they
        fill.
    """

    def __init__(self, ranks: Ranks, local: Callable[[Record], tuple[Record, np.ndarray]]) -> None:
        self._ranks, self._local = ranks, local
        self._rows: list[tuple[Record, Record, np.ndarray]] = []

    def localised(self, records: Sequence[Record]) -> list[Record]:
        """Return what this rank records: the same objects as long as the records are the same."""
        known = {id(row[0]): row for row in self._rows}
        self._rows = [known.get(id(r)) or (r, *self._local(r)) for r in records]
        return [own for _, own, _ in self._rows]

    def joined(self, values: Sequence[np.ndarray] | None) -> list[np.ndarray]:
        """(rows, width) of each record, on all ranks: columns of all ranks.

        Where ranks have different numbers of rows, as crossings have, -1 follows.
        """
        if not self._rows:
            return []
        assert values is not None  # else the error of this rank has been raised
        columns = [columns for *_, columns in self._rows]
        parts = self._ranks.comm.allgather(list(zip(columns, values, strict=True)))
        found = []
        for k, (record, *_) in enumerate(self._rows):
            of_record = [part[k] for part in parts]
            dtype = np.result_type(*(own.dtype for _, own in of_record))
            rows = max(len(own) for _, own in of_record)
            found.append(np.full((rows, len(record.index)), -1, dtype))
            for where, own in of_record:
                found[-1][: len(own), where] = own
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
    given, sources = model.connections, model.sources.at_nodes(low, high)
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
        sources=replace(sources, detector_source=np.arange(len(sources.detector_node))),
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


Places = slice | np.ndarray


@dataclass(frozen=True, eq=False)
class Part:
    """Which things of a network a rank has.

    Attributes
    ----------
    kinds : sequence of int
        Kinds that it has, in the order of its own.
    instances : sequence of slice or (k,) int64
        Those of each kind of the network.
    things : dict of `Field.per` -> slice or (k,) int64
        All others; every rank has all of what is not named.
    """

    kinds: Sequence[int]
    instances: Sequence[Places]
    things: dict[str, Places]

    def places(self, field: Field) -> Places:
        """Where the entries of its array are in that of the network."""
        if field.kind is not None:
            return self.instances[field.kind]
        return self.things.get(field.per, slice(None))

    def numbers(self, whole: Model, per: str) -> np.ndarray:
        """(k,) int64: numbers of its things in the network."""
        return np.arange(length(whole, per))[self.things[per]]

    def key(self, field: Field) -> str | None:
        """Return the name of its array of a field of the network; None where it has none."""
        if field.kind is None:
            return field.key
        known = field.kind in self.kinds
        return replace(field, kind=self.kinds.index(field.kind)).key if known else None

    def cut(self, whole: Model, saved: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the rank's part of a saved state of the network."""
        found = {}
        for field in whole.schema:
            key = self.key(field)
            if key is None:
                continue
            found[key] = saved[field.key][..., self.places(field)]
            if field.refers:
                own = self.numbers(whole, field.refers)
                number = np.full(length(whole, field.refers) + 1, -1)  # the last: of none
                number[own] = np.arange(len(own))
                found[key] = number[found[key]]
        return found


def join(
    whole: Model, parts: Sequence[Part], saved: Sequence[dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """Return the state of the whole network from those of all ranks."""
    found = {}
    for field in whole.schema:
        for part, arrays in zip(parts, saved, strict=True):
            key = part.key(field)
            if key is None or key not in arrays:  # a rank without plastic connections, say
                continue
            values = arrays[key]
            if field.refers:
                values = np.append(part.numbers(whole, field.refers), -1)[values]
            if field.key not in found:
                shape = *values.shape[:-1], length(whole, field.per, field.kind)
                found[field.key] = np.zeros(shape, values.dtype)
            found[field.key][..., part.places(field)] = values
    return found


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

    @cached_property
    def detectors(self) -> list[np.ndarray]:
        """Sources of the detectors of each rank, by its own numbers."""
        spans = pairwise(self.nodes.tolist())
        return [self.whole.sources.at_nodes(*span).detector_source for span in spans]

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

    def part(self, rank: int) -> Part:
        """Return which things of the network a rank has."""
        nodes, cells = (slice(*a[[rank, rank + 1]].tolist()) for a in (self.nodes, self.bounds))
        return Part(
            self.kinds(rank),
            [slice(*at[[rank, rank + 1]].tolist()) for at in self.instances],
            {
                "node": nodes,
                "cell": cells,
                "target": self.targets(rank),
                "plastic": np.flatnonzero(self.rank_of_connection == rank),
            },
        )

    def parts(self) -> list[Part]:
        """Return which things each rank has."""
        return [self.part(rank) for rank in range(len(self.bounds) - 1)]
