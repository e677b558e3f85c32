"""Time planning, without a device.

    python bench/bench_plan.py [--out FOLDER]
    python bench/bench_plan.py --options [--nodes N ...] [--out FOLDER]

Prints, for every method, 100,000 cells of 512 nodes over 64 shapes and 2,560 all-different cells
of 512 nodes: seconds for the forest (validation, finding the distinct shapes) and for the plan.

With ``--options`` instead, for every option of `fine`: seconds for the plan over the number of
nodes, of all-different cells of 512 nodes and of one random binary tree.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import common
import numpy as np

import clhines

CASES = {"100,000 cells, 64 shapes": (100_000, 64), "2,560 cells, all different": (2_560, 2_560)}

OPTIONS: dict[str, dict[str, Any]] = {
    "fine": {},
    "reroot": {"reroot": True},
    "split=mean": {"split": "mean"},
    "split=block": {"split": "block"},
    "packing=sorted": {"packing": "sorted"},
    "packing=best_fit": {"packing": "best_fit"},
    "level_shift": {"level_shift": True},
    "local": {"local": True},
    "all": {"reroot": True, "split": "block", "packing": "sorted", "level_shift": True},
}


def main() -> None:
    """Run what the command line asks for; writes ``plan.*`` or ``plan-options.*``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=str(common.RESULTS))
    parser.add_argument("--options", action="store_true")
    parser.add_argument("--nodes", type=int, nargs="+", default=[10**5, 10**6, 10**7])
    args = parser.parse_args()
    if args.options:
        write(args.out, "plan-options", *option_table(args.nodes))
    else:
        write(args.out, "plan", *method_table())


def method_table() -> tuple[list[str], list[dict[str, Any]]]:
    """Lines and rows of both cases for every method."""
    lines = [f"{'case':<28} {'method':<18} {'forest s':>9} {'plan s':>8} {'sum s':>8}"]
    rows = []
    for name, (cells, shapes) in CASES.items():
        made = common.batch(cells, 512, 50, shapes)
        for method in common.methods_for(made):
            begin = time.perf_counter()
            forest = clhines.Forest(made.parent, made.cell_offsets)
            middle = time.perf_counter()
            clhines.make_plan(forest, method)
            end = time.perf_counter()
            rows.append(
                {
                    "case": name,
                    "method": method,
                    "distinct_shapes": forest.trees.num_trees,
                    "forest_seconds": middle - begin,
                    "plan_seconds": end - middle,
                }
            )
            lines.append(
                f"{name:<28} {method:<18} {middle - begin:>9.2f} {end - middle:>8.2f} "
                f"{end - begin:>8.2f}"
            )
    return lines, rows


def option_table(sizes: list[int]) -> tuple[list[str], list[dict[str, Any]]]:
    """Lines and rows of every option of `fine` over the number of nodes."""
    lines = [f"{'case':<16} {'options':<18} " + " ".join(f"{f'{n:,} nodes':>16}" for n in sizes)]
    rows = []
    for case in ("all different", "one cell"):
        forests = [
            common.batch(n // 512, 512, 51, n // 512)
            if case == "all different"
            else common.batch(1, n, n // 10 | 1, 1)
            for n in sizes
        ]
        for forest in forests:
            clhines.make_plan(forest, "fine")  # finds the branches, once
        for name, options in OPTIONS.items():
            if case == "one cell" and "local" in options:
                continue  # does not fit
            seconds = []
            for forest in forests:
                begin = time.perf_counter()
                clhines.make_plan(forest, "fine", **options)
                seconds.append(time.perf_counter() - begin)
                row = {"case": case, "options": options, "nodes": forest.num_nodes}
                rows.append({**row, "plan_seconds": seconds[-1]})
            times = " ".join(f"{s:>14.2f} s" for s in seconds)
            lines.append(f"{case:<16} {name:<18} {times}")
    return lines, rows


def write(folder: str, name: str, lines: list[str], rows: list[dict[str, Any]]) -> None:
    """Write a table as text, and as JSON with the versions, and print it."""
    result = {
        "command": common.command_line(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "clhines": clhines.__version__,
        "seed": common.SEED,
        "rows": rows,
    }
    Path(folder, f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    Path(folder, f"{name}.txt").write_text("\n".join(lines) + "\n", "utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
