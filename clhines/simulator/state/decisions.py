"""Choices for a whole network, which all ranks share, and the shapes of its state's arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clhines.simulator.model.connections import unit_of
from clhines.simulator.model.model import Model
from clhines.simulator.model.schema import Field
from clhines.simulator.state.sources import ring_sizes

MAX_EPOCH = 256  # most steps between two spike deliveries


@dataclass(frozen=True, eq=False)
class Decisions:
    """Choices that may change the bits of a cell's results and depend on other cells.

    A network gives the same bits in one process and in any number of parts. So every such choice is
    made here, for the whole network, and passed to the parts. Engines derive all other choices from
    `network` and the device: vector lanes, segment length, solver.
    """

    network: Model  # the whole network's
    split: bool  # simulated in parts, which exchange spikes
    overlap: bool  # an epoch's spikes are exchanged during the next epoch
    epoch: int  # steps for which all events are known before the first
    slots: int  # rows in the event ring buffer; step s uses row ``s % slots``
    scale: float  # the integer weights' unit, a power of two; sums fit in int64
    constant_factors: bool  # conductances change at roots only
    inflow: bool  # there are constant mechanisms, or `set` may add some

    @classmethod
    def of(cls, network: Model, split: bool = False, overlap: bool = False) -> Decisions:
        """Make the choices for a network; InputError if its weights have no common unit.

        With `split`, ranks have parts of the network. With `overlap`, they exchange spikes during
        the next epoch.
        """
        constants = network.of_nodes
        return cls(
            network=network,
            split=split,
            overlap=overlap,
            epoch=epoch_steps(network, overlap),
            slots=ring_slots(network),
            scale=incoming_scale(network),
            constant_factors=network.constant_factors,
            inflow=bool(network.stored) or any(map(constants.any, ("constant_b", "constant_g"))),
        )


def epoch_steps(model: Model, overlap: bool = False) -> int:
    """Return the steps in an epoch: the smallest delay, or half of it with `overlap`."""
    least = model.connections.min_delay
    return min((least + 1) // 2 if overlap else least, MAX_EPOCH)


def ring_slots(model: Model) -> int:
    return max(model.connections.max_delay + 1, epoch_steps(model)) + 1


def external_sums(model: Model) -> np.ndarray:
    """Return each target's largest sum of external events in one step, (num_targets,)."""
    events, targets = model.events, max(model.num_targets, 1)
    key, where = np.unique(events.step * targets + events.target, return_inverse=True)
    each = np.bincount(where.reshape(-1), np.abs(events.weight), len(key))
    external = np.zeros(targets)
    np.maximum.at(external, key % targets, each)
    return external


def incoming_scale(model: Model) -> float:
    """Return the unit of integer weights, a power of two with which their sums fit in int64."""
    connections = model.connections
    total, most, target = connections.most(external_sums(model), connections.largest)
    return unit_of(total, most, target) if most else float(2.0 ** (np.frexp(total)[1] - 62))


def shape_of(model: Model, field: Field) -> tuple[int, ...]:
    axes = (field.rows, field.per) if field.rows else (field.per,)
    return tuple(length(model, axis, field.kind) for axis in axes)


def length(model: Model, per: str, kind: int | None = None) -> int:
    """Return the length of one axis in a saved array: the item count for `per`.

    For ``node``, for example, it is num_nodes; see `Field`. If a mechanism has the items, `kind` is
    its number.
    """
    if kind is not None and per in ("event", "watch"):
        net = model.kinds[kind].mechanism.program.net
        assert net is not None
        if per == "watch":
            return net.watches
        return net.queue if any(kind != "event" for kind in net.sends) else 0
    if kind is not None and per == "instance":
        return model.kinds[kind].count
    if per == "slot":
        return ring_slots(model)
    if per == "ring":
        return int(ring_sizes(model).sum())
    return {
        "node": model.forest.num_nodes,
        "cell": model.forest.num_cells,
        "target": model.num_targets,
        "plastic": len(model.connections.weight),
        "sent": model.connections.num_sources,
        "connection": model.netcons.count,
        "weight": len(model.netcons.weight),
        "source": model.sources.count,
        "detector": len(model.sources.detector_node),
        "remote": len(model.remote_v),
    }[per]
