"""Drop loops that no result needs."""

from __future__ import annotations

from dataclasses import replace

from clhines.simulator.mechanisms.ir.compiled import Body
from clhines.simulator.mechanisms.nmodl.blocks import FileBlocks


def drop_loops(blocks: FileBlocks) -> FileBlocks:
    """Keep the loops, and their variables, on which results and needed variables depend."""

    def shorter(body: Body) -> Body:
        nodes = [node for _, _, node in body.results]
        nodes += [node for key, node in body.writes.items() if key in blocks.needed]
        return replace(body, loops=body.needed_loops(nodes))

    bodies = {name: shorter(body) for name, body in blocks.bodies.items()}
    return replace(blocks, bodies=bodies)
