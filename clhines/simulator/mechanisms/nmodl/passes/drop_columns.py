"""Set TABLE columns to 0 if nothing looks them up."""

from __future__ import annotations

from dataclasses import replace

from clhines.simulator.mechanisms.ir.expressions import postorder
from clhines.simulator.mechanisms.nmodl.blocks import FileBlocks


def drop_columns(blocks: FileBlocks) -> FileBlocks:
    """Set unused TABLE columns to 0; find the variables that blocks need."""
    names = [n for n, use in blocks.shared.tables.items() if not (use.rows or use.made)]
    whole = {f"table_{name}": blocks.bodies[f"table_{name}"] for name in names}
    looked_up = set[tuple[str, str]]()
    while True:
        bodies = dict(blocks.bodies)
        for block, body in whole.items():
            results = [
                (role, name, node if (block, name) in looked_up else blocks.graph.zero)
                for role, name, node in body.results
            ]
            bodies[block] = replace(body, results=results)
        shorter = blocks.with_bodies(bodies)
        roots = [node for body in bodies.values() for node in body.nodes(shorter.needed)]
        lookups = (node.args for node in postorder(roots) if node.op == "lookup")
        more = {(f"table_{a[1].name.removesuffix('__table')}", str(a[2].value)) for a in lookups}
        if more <= looked_up:
            return shorter
        looked_up |= more
