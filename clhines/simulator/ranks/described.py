"""Networks of which each rank describes its own cells: gather the facts that all ranks need.

Cells have gids. In a few collectives the ranks compare settings, find which ranks listen to each
cell, and exchange everything on which the bits of a cell may depend. Cells with the same tree and
the same mechanisms at each node are one *sort*; ranks exchange sorts, and the sort of each cell.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from clhines.core.arrays import offsets, place_of, ranges, stretch_of
from clhines.core.errors import InputError
from clhines.simulator.common.deferred import deferred
from clhines.simulator.model.model import Kind, Model
from clhines.simulator.model.needs import EXACT, phrases
from clhines.simulator.network.groups import inside
from clhines.simulator.network.network import Network
from clhines.simulator.network.structure import NodeValues
from clhines.simulator.ranks.mpi import Ranks
from clhines.simulator.ranks.partition import overlaps
from clhines.simulator.state.decisions import (
    Decisions,
    epoch_of,
    external_sums,
    has_inflow,
    scale_of,
    slots_of,
)
from clhines.solver.forest import Forest, Trees


@dataclass(frozen=True, eq=False)
class Sort:
    """A sort of cells: they have the same tree, and instances of each kind at the same nodes."""

    parent: np.ndarray  # (n,): parent of each node of the cell, -1 at the root
    nodes: list[np.ndarray]  # by kind: nodes of the instances, 0 to n - 1

    def digest(self) -> bytes:
        sizes = [len(self.parent), *map(len, self.nodes)]
        arrays = np.concatenate([sizes, self.parent, *self.nodes]).astype(np.int64)
        return hashlib.sha256(arrays.tobytes()).digest()


@dataclass(frozen=True, eq=False)
class RankCells:
    """The description of its cells that a rank sends to the other ranks."""

    gids: np.ndarray
    sorts: list[Sort]
    sort_of_cell: np.ndarray
    counts: list[int]  # by kind: number of instances
    single: list[dict[str, float]]  # by kind: parameters with one value for all instances
    ratio: list[tuple[int, float, float, float]]  # by kind: see `_ratio`
    total: float  # largest sum of weights at a target
    most: float  # largest weight
    delays: tuple[int, int]  # smallest and largest, steps
    inflow: bool  # `has_inflow` of the model
    constant_factors: bool  # as in `Model`
    needs: frozenset[str]
    rule: object


@dataclass(frozen=True, eq=False)
class WholeNetwork:
    """The cells of a rank, and what the rank knows about the whole network."""

    model: Model  # of the rank's cells
    decisions: Decisions
    sent: np.ndarray  # the rank's cells to which other ranks listen, ascending
    heard: list[np.ndarray]  # of each rank, the source here of each `sent` cell, or -1


def check_complete(network: Network) -> None:
    """Raise InputError if a network of one process has connections from gids without a cell."""
    gids, _ = inside(network).added.heard
    if len(gids):
        raise _unknown(gids)


def _unknown(gids: np.ndarray) -> InputError:
    return InputError(
        f"source: connections come from gid {gids.min()}, which no rank has; expected gids of cells"
    )


def gather_parts(
    ranks: Ranks, network: Network, model: Model, on_host: bool, overlap: bool | None
) -> WholeNetwork:
    """Gather the descriptions of all ranks; if they contradict each other, all ranks raise."""
    with ranks.agreed():
        _check_supported(model)
    ranks.same(lambda: _settings(network, model))
    parts: list[RankCells] = ranks.gather(_part(network, model))
    _check(parts, [kind.mechanism.name for kind in model.kinds])
    sent, heard = _listeners(ranks, network, parts)
    least, most = (f(p.delays[k] for p in parts) for k, f in enumerate((min, max)))
    overlap = overlaps(ranks, least, on_host, overlap)
    kinds = tuple(_alike(k, kind, parts) for k, kind in enumerate(model.kinds))
    model_here = replace(model, kinds=kinds, needs=frozenset().union(*(p.needs for p in parts)))
    totals = [part.total for part in parts]
    decisions = Decisions(
        network=_stand_in(model_here, ranks.rank, parts),
        split=True,
        overlap=overlap,
        epoch=epoch_of(least, overlap),
        slots=slots_of(least, most),
        scale=scale_of(max(totals), max(part.most for part in parts), int(np.argmax(totals))),
        constant_factors=all(part.constant_factors for part in parts),
        inflow=any(part.inflow for part in parts),
        by_gid=np.argsort(_rank_first(ranks.rank, [part.gids for part in parts])),
    )
    return WholeNetwork(model_here, decisions, sent, heard)


def _check_supported(model: Model) -> None:
    subject = "a network with gids on several ranks has"
    if model.exact:
        needs = model.needs & EXACT - {"exact_times"}
        words = phrases(needs) if needs else "a delay that is too long for events in whole steps"
        raise InputError(f"{subject} {words}; expected events in whole steps alone")
    for kind in model.kinds:  # noise depends on the indices of instances in the whole network
        if kind.mechanism.uses_noise or kind.mechanism.has_noisy_rates:
            raise InputError(f"{subject} noise, in {kind.mechanism.name}; expected none")


def _settings(network: Network, model: Model) -> dict[str, object]:
    """Return the values that all ranks must share, by their names in messages."""
    mechanisms = list(dict.fromkeys(group.mechanism for group in network.groups))
    texts = hashlib.sha256(repr([m.text for m in mechanisms]).encode()).hexdigest()
    return {
        "dt": model.dt,
        "secondorder": model.secondorder,
        "seed": model.seed,
        "celsius": network.celsius,
        "list of mechanisms": ", ".join(m.name for m in mechanisms) or "empty",
        "digest of their texts": texts[:8],
    }


def _part(network: Network, model: Model) -> RankCells:
    sort_of_cell, sorts = _sorts(model)
    connections = model.connections
    total, most, _ = connections.most(external_sums(model), connections.largest)
    return RankCells(
        gids=np.asarray(network.gids),
        sorts=sorts,
        sort_of_cell=sort_of_cell,
        counts=[kind.count for kind in model.kinds],
        single=[
            {n: float(v) for n, v in kind.parameters.items() if np.ndim(v) == 0}
            for kind in model.kinds
        ],
        ratio=[_ratio(network, model, kind) for kind in model.kinds],
        total=total,
        most=most,
        delays=(connections.min_delay, connections.max_delay),
        inflow=has_inflow(model),
        constant_factors=model.constant_factors,
        needs=model.needs,
        rule=connections.rule,
    )


def _sorts(model: Model) -> tuple[np.ndarray, list[Sort]]:
    """Group the cells of a model by their `Sort`.

    Return the number of each cell's sort, (num_cells,) int32, and the sorts in the order of their
    first cells.
    """
    forest, begin = model.forest, model.forest.cell_offsets
    rng = np.random.default_rng(2018)
    code = rng.integers(1, 2**63, int(forest.sizes.max()), np.uint64)
    key = forest.shape_of_cell.astype(np.uint64) + np.uint64(1)
    cuts = [np.searchsorted(kind.node, begin) for kind in model.kinds]
    for kind, cut in zip(model.kinds, cuts, strict=True):
        cell = stretch_of(begin, kind.node)
        sums = np.append(np.uint64(0), np.cumsum(code[kind.node - begin[cell]]))
        key = key * np.uint64(0x9E3779B97F4A7C15) + (sums[cut[1:]] - sums[cut[:-1]])
    _, first, sort = np.unique(key, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    sorts = []
    for cell in np.sort(first).tolist():
        a, b = forest.trees.offsets[forest.shape_of_cell[cell] + np.arange(2)].tolist()
        parent = forest.trees.parent[a:b]
        at = [k.node[slice(*cut[cell : cell + 2])] for k, cut in zip(model.kinds, cuts)]
        within = [nodes - begin[cell] for nodes in at]
        sorts.append(Sort(np.where(parent < 0, -1, parent - a), within))
    return rank[sort.reshape(-1)].astype(np.int32), sorts


def _ratio(network: Network, model: Model, kind: Kind) -> tuple[int, float, float, float]:
    """Return how a kind's factors compare with C/dt, for decisions that all ranks must share.

    The result is the gid of the cell with the first instance, the ratio factor / (C/dt) there, and
    the smallest and the largest ratio. Kinds without a density mechanism have ratio 1.
    """
    if not kind.count or kind.mechanism.kind != "density":
        return 1 << 62, 1.0, 1.0, 1.0
    capacitance = model.of_nodes.at("capacitance", kind.node) / model.solved_dt
    ratio = kind.factor / capacitance
    gid = np.asarray(network.gids)[stretch_of(model.forest.cell_offsets, kind.node[0])]
    return int(gid), float(ratio[0]), float(ratio.min()), float(ratio.max())


def _check(parts: Sequence[RankCells], names: Sequence[str]) -> None:
    gids = np.concatenate([part.gids for part in parts])
    rank = np.repeat(np.arange(len(parts)), [len(part.gids) for part in parts])
    order = np.argsort(gids, kind="stable")
    twice = np.flatnonzero(np.diff(gids[order]) == 0)
    if len(twice):
        one, other = order[twice[0] : twice[0] + 2]
        raise InputError(
            f"gids: {gids[one]} is of a cell on rank {rank[one]} and of one on rank {rank[other]}; "
            "expected each once"
        )
    for k, name in enumerate(names):
        if not any(part.counts[k] for part in parts):
            raise InputError(f"no rank has an instance of {name}; expected one, or no such group")
    rules = [part.rule for part in parts if part.rule is not None]
    if any(rule != rules[0] for rule in rules):
        raise InputError("rules of plastic connections differ between ranks; expected one rule")


def _listeners(
    ranks: Ranks, network: Network, parts: Sequence[RankCells]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the fields `sent` and `heard` of `WholeNetwork`.

    If a connection of any rank comes from a gid that no rank has, all ranks raise the error.
    """
    heard, numbers = inside(network).added.heard
    place = place_of(np.concatenate([part.gids for part in parts]), heard)
    with ranks.agreed():
        if (place < 0).any():
            raise _unknown(heard[place < 0])
    place.sort()
    begin = offsets([len(part.gids) for part in parts])
    by_rank = np.split(place, np.searchsorted(place, begin[1:-1]))
    heard_here = ranks.comm.alltoall([p - b for p, b in zip(by_rank, begin.tolist(), strict=False)])
    sent = np.unique(np.concatenate(heard_here)).astype(np.int64)
    listeners = ranks.gather(parts[ranks.rank].gids[sent])
    at = [place_of(heard, gids) for gids in listeners]
    return sent, [np.where(k < 0, -1, np.append(numbers, -1)[k]) for k in at]


def _alike(k: int, kind: Kind, parts: Sequence[RankCells]) -> Kind:
    """Return a kind whose parameters are arrays wherever numbers differ between ranks.

    So a parameter is one number either on all ranks or on none.
    """
    singles, names = [part.single[k] for part in parts], [*kind.parameters]
    differ = [n for n in names if any(one.get(n) != singles[0].get(n) for one in singles)]
    values = {n: np.broadcast_to(np.float64(kind.parameters[n]), kind.count) for n in differ}
    return replace(kind, parameters={**kind.parameters, **values}) if values else kind


def _rank_first(rank: int, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Join the arrays of all ranks: first the array of `rank`, then the others by rank."""
    others = [array for r, array in enumerate(arrays) if r != rank]
    return np.concatenate([arrays[rank], *others])


def _stand_in(local: Model, rank: int, parts: Sequence[RankCells]) -> Model:
    """Return a model of the whole network with all that decisions read: trees, instances, factors.

    The cells of this rank come first, with their numbers. Trees are in the order of the smallest
    gid that has them.
    """
    sort_of_digest, first = dict[bytes, Sort](), dict[bytes, int]()
    digests = [[sort.digest() for sort in part.sorts] for part in parts]
    for part, codes in zip(parts, digests, strict=True):
        cell = np.unique(part.sort_of_cell, return_index=True)[1]
        for code, one, gid in zip(codes, part.sorts, part.gids[cell].tolist(), strict=True):
            sort_of_digest[code], first[code] = one, min(gid, first.get(code, gid))
    ordered = sorted(sort_of_digest, key=first.__getitem__)
    number = {code: k for k, code in enumerate(ordered)}
    sorts = [sort_of_digest[code] for code in ordered]
    numbers = [np.array([number[code] for code in codes]) for codes in digests]
    sort = _rank_first(rank, [n[p.sort_of_cell] for n, p in zip(numbers, parts, strict=True)])
    shapes = dict[bytes, int]()
    shape = [shapes.setdefault(s.parent.tobytes(), len(shapes)) for s in sorts]
    trees = [sorts[shape.index(k)].parent for k in range(len(shapes))]
    bounds = offsets([len(parent) for parent in trees])
    parent = np.concatenate(
        [np.where(p < 0, -1, p + a) for p, a in zip(trees, bounds.tolist(), strict=False)]
    )
    forest = Forest.from_trees(Trees(bounds, parent), np.array(shape)[sort])
    kinds = tuple(
        deferred(
            Kind,
            {
                "node": partial(_nodes, forest, sort, [s.nodes[k] for s in sorts]),
                "factor": partial(_factor, [part.ratio[k] for part in parts], parts, k),
            },
            mechanism=kind.mechanism,
            parameters=kind.parameters,
            first_target=kind.first_target,
            first_instance=kind.first_instance,
        )
        for k, kind in enumerate(local.kinds)
    )
    root = np.flatnonzero(parent < 0) - bounds[:-1]  # each tree's root
    return replace(
        local,
        forest=forest,
        soma=forest.cell_offsets[:-1] + root[forest.shape_of_cell],
        kinds=kinds,
        of_nodes=NodeValues({"capacitance": np.array([local.solved_dt])}, forest.num_nodes),
    )


def _nodes(forest: Forest, sort: np.ndarray, nodes: Sequence[np.ndarray]) -> np.ndarray:
    """Return the nodes of all instances of a kind, (count,) int64.

    `sort` has the sort of each cell, `nodes` the nodes of the kind's instances in a cell of each
    sort.
    """
    counts = np.array([len(sort_nodes) for sort_nodes in nodes])
    at = ranges(offsets(counts)[:-1][sort], counts[sort])
    nodes_of_all = np.concatenate(nodes)[at] + np.repeat(forest.cell_offsets[:-1], counts[sort])
    return nodes_of_all.astype(np.int64)


def _factor(
    ratios: Sequence[tuple[int, float, float, float]], parts: Sequence[RankCells], k: int
) -> np.ndarray:
    """Return factors of kind k for all ranks, (count,) float64, as if C/dt were 1.

    They only serve decisions: the first instance has its true factor, the last one the largest of
    all, the others the smallest.
    """
    _, first, _, _ = min(ratios)
    least, most = min(ratio[2] for ratio in ratios), max(ratio[3] for ratio in ratios)
    factors = np.full(sum(part.counts[k] for part in parts), least)
    factors[-1] = most if first != most else least
    factors[0] = first
    return factors
