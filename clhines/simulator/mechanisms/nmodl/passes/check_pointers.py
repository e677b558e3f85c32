"""Refuse to read a variable that a POINTER writes."""

from __future__ import annotations

from clhines.simulator.mechanisms.nmodl.blocks import FileBlocks
from clhines.simulator.mechanisms.nmodl.reading.tree import refuse
from clhines.simulator.mechanisms.nmodl.values import STEERING


def check_pointers(blocks: FileBlocks) -> FileBlocks:
    """Raise Refused if a value would depend on the order of instances, else return the blocks.

    NET_RECEIVE may read a weight that it sets by a POINTER; no other block may use the weight.
    """
    printed, pointers = blocks.names.printed, blocks.file.pointers
    bodies = blocks.bodies.values()
    for name in sorted(blocks.set_by_pointer("steer")):
        others = [body for block, body in blocks.bodies.items() if block != STEERING]
        set_there = any(n == name for body in others for _, n, _ in body.results)
        if set_there or any(printed[name] in body.free(body.writes) for body in others):
            raise refuse("mod.pointer-of-net-receive", pointers[name], name=name)
    added = {n for body in bodies for role, n, _ in body.results if role in ("put", "add")}
    for name in sorted(added):
        if any(printed[name] in body.free(body.writes) for body in bodies):
            raise refuse("mod.pointer-written-read", pointers[name], name=name)
    return blocks
