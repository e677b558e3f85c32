"""Time planning, without a device.

    python bench/bench_plan.py [--out FOLDER]

Prints, for every method, 100,000 cells of 512 nodes over 64 shapes and 2,560 all-different cells
of 512 nodes: seconds for the forest (validation, finding the distinct shapes) and for the plan.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path

import common
import numpy as np

import clhines

CASES = {"100,000 cells, 64 shapes": (100_000, 64), "2,560 cells, all different": (2_560, 2_560)}


def main() -> None:
    """Run both cases for every method and write ``plan.json`` and ``plan.txt``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=str(common.RESULTS))
    args = parser.parse_args()
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
    result = {
        "command": "python bench/bench_plan.py",
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "clhines": clhines.__version__,
        "seed": common.SEED,
        "rows": rows,
    }
    Path(args.out, "plan.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    Path(args.out, "plan.txt").write_text("\n".join(lines) + "\n", "utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
