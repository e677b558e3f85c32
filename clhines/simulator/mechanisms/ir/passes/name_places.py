"""Make each table interpolation index a local variable.

The index, called place, is a row number with a fraction. Where the variable is printed, the rows on
both sides of it are loaded, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from clhines.simulator.mechanisms.ir.expressions import Node, postorder


def name_places(roots: Sequence[Node]) -> list[Node]:
    """Give each interpolation index of look-up tables a name, and so a local variable.

    The name is ``TABLE__row`` with the first table that is looked up at this index.
    """
    if not roots:
        return []
    graph, named, replaced = roots[0].graph, dict[Node, Node](), dict[Node, Node]()
    for node in postorder(roots):
        place = node.args[0].definition if node.op == "lookup" else node
        if node.op == "lookup" and place.op == "place":
            name = node.args[1].name.removesuffix("__table")
            here = named.setdefault(place, graph.local(f"{name}__row", place))
            replaced[node] = graph.rebuilt(node, (here, *node.args[1:]))
    return graph.replaced(roots, replaced)
