"""The blocks of an NMODL text after some passes."""

from clhines.simulator.mechanisms.nmodl.blocks import FileBlocks
from clhines.simulator.mechanisms.nmodl.bodies import executed
from clhines.simulator.mechanisms.nmodl.passes import PASSES
from clhines.simulator.mechanisms.nmodl.reading.parse import parse


def blocks_before(run, text, use_tables=True, kept=()):
    """Return the blocks of a text before the pass `run`."""
    bodies = executed(parse(text, "text"), use_tables)
    assert not bodies.refused
    blocks = FileBlocks.of(bodies, kept)
    for one in PASSES[: PASSES.index(run)]:
        blocks = one(blocks)
    return blocks


def blocks_after(run, text, use_tables=True, kept=()):
    """Return the blocks of a text after the pass `run`."""
    return run(blocks_before(run, text, use_tables, kept))
