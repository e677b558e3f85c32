"""Time planning, without a device.

    python -m bench plan [--nodes N ...] [--out FOLDER]

For every method and every option that shapes a plan, the table has the seconds per plan over the
number of nodes, the best of up to three. Systems are cells of 512 nodes with 64 shapes and all
different, and one random binary tree or chain. ``four options`` are reroot, split=block,
packing=sorted and level_shift together. ``forest`` validates and finds the distinct shapes;
``branches`` is computed once per forest. In the last columns the time is divided by n log2 n: if
the quotient grows no more than memory slows down, planning is O(n log n). Getting new pages from
the system can take longer than planning, on virtual machines ten times as long;
``MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=40000000000`` keeps the pages of the process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

import clhines
from bench import record, systems
from bench.made import chain

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "fine": [
        {},
        {"reroot": True},
        {"split": "mean"},
        {"split": "block"},
        {"packing": "sorted"},
        {"packing": "best_fit"},
        {"level_shift": True},
        {"local": True},
        {"reroot": True, "split": "block", "packing": "sorted", "level_shift": True},
    ],
    "levels": [{"padding": "skip"}, {"padding": "compute"}],
}  # only options that shape these methods' plans

SHAPED: dict[str, Callable[[int], clhines.Forest]] = {
    "64 shapes": lambda n: systems.batch(n // 512, 512, 51, 64),
    "all different": lambda n: systems.batch(n // 512, 512, 51, n // 512),
    "one cell": lambda n: systems.batch(1, n, n // 10 | 1, 1),
    "one chain": lambda n: clhines.Forest(chain(n)),
}
ENOUGH = 10.0  # s; longer plans are not repeated


def option_rows(sizes: list[int]) -> list[dict[str, Any]]:
    rows = []
    for case, make in SHAPED.items():
        for size in tqdm(sizes, case, disable=None):
            forest = make(size)
            for method, options, run in steps(forest, case):
                row = {"case": case, "method": method, "options": options, "asked": size}
                rows.append({**row, "nodes": forest.num_nodes, "plan_seconds": best_seconds(run)})
    return rows


def steps(
    forest: clhines.Forest, case: str
) -> Iterator[tuple[str, dict[str, Any], Callable[[], object]]]:
    """Yield name, options and the function to time; only the first computes the branches."""
    yield "forest", {}, lambda: clhines.Forest(forest.parent, forest.cell_offsets)
    yield "branches", {}, lambda: worked_out(forest)
    for method in systems.methods_for(forest):
        if case == "one chain" and not clhines.METHODS[method].chains_only:
            continue
        for options in OPTIONS.get(method, [{}]):
            if not (case == "one cell" and "local" in options):  # does not fit
                yield method, options, lambda m=method, o=options: planned(forest, m, o)


def planned(forest: clhines.Forest, method: str, options: dict[str, Any]) -> clhines.Plan:
    cells, others, _ = systems.rooted(forest, options)
    return clhines.make_plan(cells, method, **others)


def worked_out(forest: clhines.Forest) -> None:
    """Find a forest's branches, order and heights again."""
    trees = forest.trees
    fresh = type(trees)(trees.offsets, trees.parent)
    forest.trees = fresh
    _ = fresh.order, fresh.heights, fresh.branch_offsets


def best_seconds(run: Callable[[], object]) -> float:
    seconds: list[float] = []
    while len(seconds) < 3 and sum(seconds) < ENOUGH:
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def text(result: dict[str, Any]) -> str:
    rows = result["rows"]
    sizes = dict.fromkeys(r.get("asked", float(f"{r['nodes']:.0e}")) for r in rows)
    shown = [f"{n:.0e}".replace("e+0", "e") for n in sizes]
    wide = 10 * len(shown)
    lines = [
        f"{'':<40}{'s, by nodes:':>{wide}}{'ns / (n log2 n):':>{wide}}",
        f"{'case':<14}{'method, options':<26}" + "".join(f"{n:>10}" for n in shown * 2),
    ]
    by_case: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for r in rows:
        by_case.setdefault((r["case"], label(r["method"], r["options"])), []).append(r)
    last = ""
    for (case, what), some in by_case.items():
        lines += [""] if case != last else []
        last = case
        seconds = [r["plan_seconds"] for r in some]
        scaled = [s / r["nodes"] / np.log2(r["nodes"]) * 1e9 for s, r in zip(seconds, some)]
        lines.append(
            f"{case:<14}{what:<26}"
            + "".join(f"{s:>10.3f}" for s in seconds)
            + "".join(f"{s:>10.2f}" for s in scaled)
        )
    return "\n".join(lines)


def label(method: str, options: dict[str, Any]) -> str:
    if len(options) > 2:
        return f"{method} four options"
    words = [k if v is True else f"{k}={v}" for k, v in options.items()]
    return " ".join([method, *words])


def main(arguments: Sequence[str]) -> None:
    parser = record.parser("plan", __doc__, device=False)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10**5, 10**6, 10**7])
    args = parser.parse_args(arguments)
    malloc = {k: v for k, v in os.environ.items() if k.startswith("MALLOC_")}
    result = {"record": {"malloc": malloc}, "rows": option_rows(args.nodes)}
    record.write("plan", None, arguments, result, text, args.out)
