"""Shapes of the arrays of a saved state."""

from __future__ import annotations

from clhines.model.model import Model
from clhines.model.schema import Field
from clhines.simulate.events.sources import ring_sizes
from clhines.simulate.state.decisions import ring_slots


def shape_of(model: Model, field: Field) -> tuple[int, ...]:
    """Shape of an array of a state of a whole network."""
    axes = (field.rows, field.per) if field.rows else (field.per,)
    return tuple(length(model, axis, field.kind) for axis in axes)


def length(model: Model, per: str, kind: int | None = None) -> int:
    """Count what an axis of an array counts; see `Field`."""
    if kind is not None and per in ("event", "watch"):
        net = model.kinds[kind].mechanism.program.net
        assert net is not None
        if per == "watch":
            return net.watches
        return net.queue if any(s.kind != "event" for s in net.sends) else 0
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
