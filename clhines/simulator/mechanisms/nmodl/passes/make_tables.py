"""Describe each TABLE, and the parameters on which it depends."""

from __future__ import annotations

from dataclasses import replace

from clhines.simulator.mechanisms.ir.program import Table
from clhines.simulator.mechanisms.nmodl.blocks import FileBlocks
from clhines.simulator.mechanisms.nmodl.reading.tree import refuse
from clhines.simulator.mechanisms.nmodl.values import TableUse


def make_tables(blocks: FileBlocks) -> FileBlocks:
    uses = blocks.shared.tables.items()
    tables = (_made(blocks, n, use) if use.made else _filled(blocks, n, use) for n, use in uses)
    return replace(blocks, tables=tuple(tables))


def _filled(blocks: FileBlocks, name: str, use: TableUse) -> Table:
    """Describe the table `name` of a block; refused if it reads more than parameters."""
    free = blocks.bodies[f"table_{name}"].free(()) | blocks.bodies[f"grid_{name}"].free(())
    wrong = sorted(free - set(blocks.parameters) - {"_x", "dt"})
    wrong = [key for key in wrong if not key.endswith("__table")]
    if wrong:
        shown = blocks.names.public.get(wrong[0], wrong[0])
        way_out = f"set usetable_{blocks.file.suffix} = 0"
        raise refuse("mod.table", use.block.line, way_out, name=name, variable=shown)
    if blocks.executed.halved and "dt" in free:
        raise refuse("mod.table-secondorder", use.block.line, name=name)
    depends = tuple(k for k in blocks.parameters if k in free)
    return Table(name, tuple(use.columns), use.n, depends)


def _made(blocks: FileBlocks, name: str, use: TableUse) -> Table:
    bodies = (body for block, body in blocks.bodies.items() if block != "initial")
    written = dict.fromkeys(key for body in bodies for key in body.writes)
    changing = [key for key in written if blocks.names.elements[key] in use.depends]
    if changing or ("dt" in use.depends and blocks.executed.halved):
        way_out, value = f"set usetable_{blocks.file.suffix} = 0", (*changing, "dt")[0]
        raise refuse("mod.table-changes", use.block.line, way_out, name=name, value=value)
    return Table(name, tuple(use.columns), use.n, made=use.made)
