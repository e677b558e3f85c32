"""Let INITIAL begin with the defaults of GLOBALs that only later blocks set."""

from __future__ import annotations

from fractions import Fraction

from clhines.simulator.mechanisms.nmodl.blocks import FileBlocks

_OF_EVENTS = ("before_initial", "after_initial", "receive", "net_initial")


def begin_globals(blocks: FileBlocks) -> FileBlocks:
    """Replace GLOBALs by their defaults in INITIAL, if no other block needs their values.

    In NEURON a process's first INITIAL sees the defaults, too.
    """
    initial = blocks.bodies.get("initial")
    if initial is None or initial.loops or blocks.file.kind == "artificial":
        return blocks
    elsewhere: set[str] = set()
    for name, body in blocks.bodies.items():
        if name != "initial":
            elsewhere |= body.free(blocks.needed)
        if name in _OF_EVENTS:
            elsewhere |= body.writes.keys()
    names, graph = blocks.names, blocks.graph
    ions = blocks.file.ion_variables
    symbols = {
        graph.symbol(key): graph.number(Fraction(names.default(key)))
        for key in blocks.written - elsewhere - initial.writes.keys()
        if names.is_global(key) and names.elements[key] not in ions
    }
    if not symbols:
        return blocks
    new = initial.mapped(lambda e: graph.replaced([e], symbols)[0])
    return blocks.with_bodies({**blocks.bodies, "initial": new})
