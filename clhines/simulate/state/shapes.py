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
    given = model.connections
    if per in ("event", "watch"):
        assert kind is not None
        net = model.kinds[kind].mechanism.program.net
        assert net is not None
        if per == "watch":
            return net.watches
        return net.queue if any(s.kind != "event" for s in net.sends) else 0
    if per == "instance":
        assert kind is not None
        return model.kinds[kind].count
    if per in ("node", "cell", "target"):
        forest = model.forest
        return {"node": forest.num_nodes, "cell": forest.num_cells}.get(per, model.num_targets)
    if per == "slot":
        return ring_slots(model)
    if per in ("plastic", "sent"):
        return {"plastic": len(given.weight), "sent": given.num_sources}[per]
    if per == "ring":
        return int(ring_sizes(model).sum())
    return {
        "connection": model.netcons.count,
        "weight": len(model.netcons.weight),
        "source": model.sources.count,
        "detector": len(model.sources.detector_node),
        "remote": len(model.remote_v),
    }[per]
