"""Record v, the time, and other variables at events that set v."""

from __future__ import annotations

from dataclasses import replace

from clhines.simulator.mechanisms.ir.program import SET, SET_AT
from clhines.simulator.mechanisms.nmodl.blocks import FileBlocks


def note_sets(blocks: FileBlocks) -> FileBlocks:
    """If the block ``receive`` sets v, add outputs: the values of v and of all variables it sets.

    Each is called as `SET` formats its variable's name; the output `SET_AT` has the event's time.
    """
    body = blocks.bodies.get("receive")
    set_v = [node for role, _, node in body.results if role == "set_v"] if body else []
    if body is None or not set_v:
        return blocks
    keys = [k for k in (*blocks.states, *blocks.outputs) if k in body.writes]
    left = {k: body.writes[k] for k in keys if k not in blocks.executed.late} | {"v": set_v[0]}
    writes = {SET.format(k): node for k, node in left.items()}
    writes[SET_AT] = blocks.graph.symbol("t")
    new = replace(body, writes={**body.writes, **writes})
    return replace(blocks, bodies={**blocks.bodies, "receive": new}, notes=tuple(writes))
