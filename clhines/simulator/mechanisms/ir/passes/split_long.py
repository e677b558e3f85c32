"""Split long sums and products into named parts: compilers limit the nesting depth."""

from __future__ import annotations

from collections.abc import Sequence

from clhines.simulator.mechanisms.ir.expressions import Node, postorder

_MAX_ARGUMENTS = 32  # in a sum or product on one line


def split_long(roots: Sequence[Node]) -> list[Node]:
    done: dict[Node, Node] = {}
    for node in postorder(roots):
        args = tuple(done[a] for a in node.args)
        make = {"add": node.graph.add, "mul": node.graph.mul}.get(node.op)
        while make is not None and len(args) > _MAX_ARGUMENTS:
            cuts = range(0, len(args), _MAX_ARGUMENTS)
            groups = (make(args[k : k + _MAX_ARGUMENTS]) for k in cuts)
            args = tuple(node.graph.local("_part", group) for group in groups)
        done[node] = node.graph.rebuilt(node, args) if make is None else make(args)
    return [done[r] for r in roots]
