"""Layouts as text, by worked examples: the drawings on the page `layouts.md`.

Every position comes from the `gather` array and the tables of a real plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from clhines.solver.forest import Forest
from clhines.solver.plan.methods import make_plan
from clhines.solver.plan.plan import Options, Plan

_ROWS: tuple[tuple[str, Options, str], ...] = (
    ("flat", {}, "element after element, system after system"),
    ("interleaved", {}, "element j of all systems side by side"),
    ("block_interleaved", {"block_size": 2}, "the same in blocks"),
    ("fine", {}, "level after level, the branches of a level side by side"),
    ("contraction", {"segment": 2}, "node j of all segments side by side, tips from their ends"),
)
_FOUR = """\
What lies at each place of the device order, packed[i] = natural[gather[i]]: read line after line.
Places at the end that only fill up a memory transaction are left out.

1. Four systems of three elements (Valero-Lara et al. 2018, figure 2). b2 is element 2 of system b;
   | ends a block, ^ marks what the work-item of system a reads one after another.
"""
_FORK = """\
2. A cell as in figure 1.1 of Huber 2018: branches of five compartments, numbered breadth first.
   flat, interleaved and block_interleaved leave a single cell in this order.

                                      +- 15 16 17 18 19
                    +-  5  6  7  8  9 +
     0  1  2  3  4 -+                 +- 20 21 22 23 24
                    +- 10 11 12 13 14
"""


def page() -> str:
    """Return four small systems in every layout and a branched cell, in at most 100 columns."""
    four, fork = Forest.from_parents([np.arange(-1, 3 - 1)] * 4), Forest(_fork())
    letters = [f"{system}{element}" for system in "abcd" for element in range(3)]
    numbers = [f"{node:2}" for node in range(fork.num_nodes)]
    lines = [_FOUR]
    for method, options, what in _ROWS:
        lines += _example(four, letters, method, options, what)
    lines.append(_FORK)
    for method, options, what in _ROWS[3:]:
        lines += _example(fork, numbers, method, options and {"segment": 5}, what)
    return "\n".join(lines[:-1])


def _fork() -> np.ndarray:
    parent = np.arange(25) - 1
    parent[[5, 10, 15, 20]] = 4, 4, 9, 9
    return parent


def _example(
    forest: Forest, names: list[str], method: str, options: Options, what: str
) -> Iterator[str]:
    one_block: dict[str, Any] = {"work_group": 32, "max_cells": 4}
    draw = {"fine": _levels, "contraction": _segments}.get(method, _blocks)
    more: dict[str, Any] = {} if draw is _blocks else one_block
    plan = make_plan(forest, method, **options, **more)
    shown = "".join(f", {name}={value}" for name, value in options.items())
    yield f"{method}{shown}: {what}"
    yield from draw(plan, [*names, "--"])
    yield ""


def _blocks(plan: Plan, names: list[str]) -> Iterator[str]:
    """Yield a line of node names, with | between blocks, and a line with ^ below the first cell."""
    part = plan.parts[0]
    starts = part.tables["cell_start"][:: part.spec.stride]
    line = " | ".join(" ".join(row) for row in _cut(plan, names, starts))
    marked = names[: int(plan.forest.sizes[0])]
    marks = " ".join(("^" if w in marked else "").ljust(len(w)) for w in line.split())
    yield f"    {line}"
    yield f"    {marks.rstrip()}"


def _levels(plan: Plan, names: list[str]) -> Iterator[str]:
    starts = plan.parts[0].tables["level_offset"]
    for k, row in enumerate(_cut(plan, names, starts)):
        yield f"    level {k}    {' '.join(row)}"


def _segments(plan: Plan, names: list[str]) -> Iterator[str]:
    """Yield a line with node j of all segments, for each j: inner segments first, then tips."""
    rows = plan.parts[0].tables["rows"].reshape(2, -1)
    most = rows.shape[1]
    for k, row in enumerate(_cut(plan, names, rows.reshape(-1))):
        if row:
            kind = "inner" if k < most else "tips"
            yield f"    {kind:<5} {k % most}    {' '.join(row)}"


def _cut(plan: Plan, names: list[str], starts: Iterable[int]) -> list[list[str]]:
    """Cut the node names, in device order, into rows at the positions `starts`."""
    end = int(np.flatnonzero(plan.gather >= 0)[-1]) + 1
    edges = [*(int(start) for start in starts), end]
    return [
        [names[node] for node in plan.gather[lo:hi].tolist()]
        for lo, hi in zip(edges[:-1], edges[1:], strict=True)
    ]
