"""Drop loops that no result needs."""

from __future__ import annotations

from dataclasses import replace

from clhines.simulator.mechanisms.ir.compiled import Body
from clhines.simulator.mechanisms.nmodl.blocks import FileBlocks


def drop_loops(blocks: FileBlocks) -> FileBlocks:
    """Drop loops, and variables of loops, on which no result and no needed variable depends."""

    def shorter(body: Body) -> Body:
        nodes = [node for _, _, node in body.results]
        nodes += [node for key, node in body.writes.items() if key in blocks.needed]
        return replace(body, loops=body.needed_loops(nodes))

    return replace(blocks, bodies={name: shorter(body) for name, body in blocks.bodies.items()})
