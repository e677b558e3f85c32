"""Sort variables into states, outputs and parameters."""

from __future__ import annotations

from dataclasses import replace

from clhines.simulator.mechanisms.nmodl.blocks import FileBlocks


def sort_variables(blocks: FileBlocks) -> FileBlocks:
    """Find live variables; then sort variables into states, outputs and parameters."""
    elements, live = blocks.names.elements, _live(blocks)
    from_outside = {k for k in live if elements[k] in _from_outside(blocks)}
    values = blocks.ordered((blocks.needed & blocks.written) - from_outside)
    return replace(
        blocks,
        live=frozenset(live),
        states=tuple(k for k in values if k in live),
        outputs=tuple(k for k in values if k not in live),
        parameters=blocks.ordered(live - blocks.written - from_outside),
    )


def _live(blocks: FileBlocks) -> set[str]:
    """Return the variables that must exist before a block or last until the next one.

    Examples: a block reads them before it sets them, or a refusal depends on them.
    """
    bodies, needed = blocks.bodies, blocks.needed
    live = {k for _, guard, _ in blocks.shared.unless for k in guard.free - blocks.written}
    for body in bodies.values():
        live |= body.free(needed)
    if "receive" in bodies:  # values that events compute must last until the next event
        live |= bodies["receive"].writes.keys() & needed
    live |= {k for k in needed & blocks.written if blocks.names.elements[k] in blocks.kept}
    if "diffuse" in bodies:
        live |= {name for _, name, _ in bodies["diffuse"].results}
    return live & blocks.names.elements.keys()


def _from_outside(blocks: FileBlocks) -> set[str]:
    names = set(blocks.file.pointers)
    for ion in blocks.file.ions:
        names |= set(ion.reads) | {n for n in ion.writes if n != f"i{ion.name}"}
    return names
