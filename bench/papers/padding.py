"""Padding computed or skipped by `levels`: section 4.1.3 of the cuHinesBatch paper, and trees.

Figure 13 of the paper has chains of 256 to 512 rows. Here are equal chains, chains of far more
different lengths, and trees as well, in both precisions: the basis for the choice of the default.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import clhines
from bench import record, table
from bench.made import chain, random_binary_tree
from bench.measures import peers
from bench.papers import batch, cases, pictures, report
from bench.papers.batch import found
from bench.papers.cases import Run, timed

COUNTS = (2560, 12_800, 102_400)
SKIPPED, COMPUTED = "padding skipped", "padding computed"


def kinds(run: Run) -> dict[str, list[np.ndarray]]:
    high = 64 if run.quick else 512
    draw = np.random.default_rng(record.SEED).integers
    ragged = draw(high // 2, high + 1, cases.PERIOD)
    wide = draw(high // 16, high + 1, cases.PERIOD)
    trees = [random_binary_tree(high, high // 10, k) for k in range(64)]
    return {
        "equal chains": [chain(high)],
        f"chains of {high // 2} to {high}": [chain(int(n)) for n in ragged],
        f"chains of {high // 16} to {high}": [chain(int(n)) for n in wide],
        "4 levels of equal branches": [batch.level_tree(4, high)],
        "random trees, 64 shapes": trees,
        "ring cells": report.trees(run, report.BRANCHINGS["medium"])[:256],
    }


def measure(run: Run) -> dict[str, Any]:
    """Time of `levels` with padding skipped and computed, both precisions."""
    result = found(
        run,
        "float64 and float32",
        padding="values of `levels` in device order beyond the nodes",
        gain="time with padding skipped over time with padding computed",
    )
    plans: dict[str, clhines.Plan] = {}
    ways = [
        report.entry(name, "levels", {"padding": way}, plans=plans)
        for name, way in ((SKIPPED, "skip"), (COMPUTED, "compute"))
    ]
    for panel, trees in kinds(run).items():
        nodes = float(np.mean([len(t) for t in trees]))
        for cells in run.counts(COUNTS, nodes, result["scaled"]):
            for dtype in ("float64", "float32"):
                cases.say(f"  {panel}: {cells:,} cells, {dtype}")
                case = cases.batch(run, trees, cells, panel, dtype)
                rows = timed(run, case, ways, result["missing"], panel=panel)
                skipped = next(r["seconds"] for r in rows if r["name"] == SKIPPED)
                computed = next(r["seconds"] for r in rows if r["name"] == COMPUTED)
                cases.say(f"    computing: {skipped / computed:.3f} times as fast")
                plan = plans[SKIPPED]
                more = {"padding": plan.packed_size / plan.forest.num_nodes - 1}
                result["rows"] += [
                    {**r, **more, "gain": skipped / r["seconds"]}
                    for r in rows
                    if r["name"] != peers.FLOOR
                ]
    return result


def draw(figure: Any, result: dict[str, Any]) -> None:
    axes = pictures.panels(figure, 2, 1)
    figure.set_size_inches(10.5, 7)
    for each, dtype in zip(axes, ("float64", "float32")):
        some = [r for r in result["rows"] if r["dtype"] == dtype]
        most = {r["panel"]: r["cells"] for r in some}
        some = [r for r in some if r["cells"] == most[r["panel"]]]
        pictures.bars(each, some, "gain", "speed-up over skipping", "panel", [SKIPPED, COMPUTED])
        each.set_title(dtype)
    pictures.legend(figure, axes[:1])


def text(result: dict[str, Any]) -> str:
    head = (
        f"{'cells':<28} {'number':>7} {'dtype':<7} {'levels':<17} {'padding %':>9} {'us':>9} "
        f"{'x floor':>7} {'gain':>5}"
    )
    rows = result["rows"]
    lines = [
        f"{r['panel']:<28} {r['cells']:>7} {r['dtype']:<7} {r['name']:<17} "
        f"{100 * r['padding']:>9.1f} {table.narrow(r['seconds'] * 1e6, 9, 1)} "
        f"{table.narrow(r['x_floor'], 7, 2)} {r['gain']:>5.2f}"
        for r in rows
    ]
    return table.ruled(head, lines, [(r["panel"], r["cells"]) for r in rows])
