"""Time `fine` and `dhs` beside their originals: Arbor's and DeepDendrite's own kernels.

    python -m bench originals FOLDER [--device SPEC] [--cases 2560x512 409600x128]

FOLDER, or that in CLHINES_ORIGINALS, has the originals, compiled by nvcc (`bench.peers.originals`
says how). Needs an NVIDIA GPU and CuPy. All run on the same systems and the same card, in one run,
in float64, with the host ahead: a kernel that keeps the device busy comes first, so that times are
those of the device alone. Writes the tables ``originals-<device>.json`` and ``.txt``.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from bench import record, systems, table
from bench.made import random_binary_tree
from bench.measures import peers
from bench.peers import originals
from bench.systems import Candidate, Case
from clhines import Forest
from clhines.errors import ClhinesError

CASES = (
    "1x512",
    "256x512",
    "2560x512",
    "25600x512",
    "102400x512",
    "25600x1500",
    "409600x128",
)  # cells x nodes
ORIGINALS: dict[str, Callable[[Case, Path], Iterable[Candidate]]] = {
    "dhs": originals.deepdendrite,
    "fine": originals.arbor,
}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "fine": [
        {"split": "mean", "work_group": 64},
        {"split": "mean", "work_group": 128},
        {"split": "mean", "work_group": 256},
        {"split": "mean", "local": True},
    ],
    "dhs": [{"k": 4}, {"k": 4, "work_group": 128}, {"k": 8}, {"k": 16}],
}
SHAPES = 64
AIM = 1.05  # times the original
BUSY = """
kernel void busy(global uint *out, uint rounds) {
    uint value = out[0];
    for (uint i = 0; i < rounds; ++i) value = (value ^ i) * 1664525u + 1013904223u;
    out[0] = value;
}
"""
ROUNDS = 60_000  # about half a millisecond


@functools.cache
def busy(queue: cl.CommandQueue) -> Callable[[], object]:
    """Return what keeps the device busy while the host goes on."""
    kernel = cl.Kernel(cl.Program(queue.context, BUSY).build(), "busy")
    out = cla.zeros(queue, 1, np.uint32)
    return lambda: kernel(queue, (1,), (1,), out.data, np.uint32(ROUNDS))


def own(case: Case, method: str, options: dict[str, Any]) -> Candidate:
    """Return a method of clhines with the host ahead."""
    said = ", ".join(f"{k}: {v}" for k, v in options.items() if v is not None)
    name = f"clhines {method}" + f" ({said})" * bool(said)
    found = peers.own(case, method, name, **options)
    launch, occupy = found.launch, busy(case.queue)

    def ahead(k: int) -> float | None:
        occupy()
        return launch(k)

    found.launch = ahead
    return found


def candidates(case: Case, args: argparse.Namespace, missing: list[dict]) -> Iterator[Candidate]:
    """Give the floor, then of each method the original and all options."""
    yield peers.floor(case)
    for method in args.methods:
        try:
            yield from ORIGINALS[method](case, args.folder)
        except Exception as error:  # whatever CuPy does
            missing.append(peers.absent(case, f"original of {method}", error))
        for options in OPTIONS[method]:
            try:
                yield own(case, method, options)
            except ClhinesError as error:
                missing.append(peers.absent(case, f"clhines {method} {options}", error))


def cases(queue: cl.CommandQueue, names: Sequence[str]) -> Iterator[Case]:
    """Give every batch: trees of 64 shapes, a branch for each ten nodes."""
    for name in names:
        cells, nodes = map(int, name.split("x"))
        forest = batch(cells, nodes)
        few = forest.subset(np.arange(min(cells, 40 * SHAPES)))  # has each shape equally often
        yield Case(
            queue, forest, name, np.dtype(np.float64), systems.values(forest, "float64", few)
        )


def batch(cells: int, nodes: int) -> Forest:
    """Return cells with the shapes of a small batch in turn."""
    return Forest.repeat(
        [
            random_binary_tree(nodes, nodes // 10, record.SEED + k)
            for k in range(min(SHAPES, cells))
        ],
        cells,
    )


def ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the best of each method beside the best of its original, for each case."""
    found = []
    for kind in dict.fromkeys(r["kind"] for r in rows):
        for method, original in (("dhs", "DeepDendrite"), ("fine", "Arbor")):
            here = [r for r in rows if r["kind"] == kind]
            theirs = [r for r in here if r["name"].startswith(original)]
            ours = [r for r in here if r["name"].startswith(f"clhines {method}")]
            if theirs and ours:
                their, our = (min(some, key=lambda r: r["seconds"]) for some in (theirs, ours))
                found.append({
                    "kind": kind,
                    "method": method,
                    "original": their["name"],
                    "own": our["name"],
                    "original_seconds": their["seconds"],
                    "own_seconds": our["seconds"],
                    "ratio": our["seconds"] / their["seconds"],
                })  # fmt: skip
    return found


def text(result: dict[str, Any]) -> str:
    """Return the best rows side by side, then all rows, then what is missing."""
    head = f"{'cells x nodes':<14} {'original':<26} {'us':>8} {'own':<44} {'us':>8} {'ratio':>5}"
    best = [
        f"{r['kind']:<14} {r['original']:<26} {r['original_seconds'] * 1e6:>8.1f} "
        f"{r['own'].removeprefix('clhines '):<44} {r['own_seconds'] * 1e6:>8.1f} {r['ratio']:>5.2f}"
        for r in result["ratios"]
    ]
    shown = table.ruled(head, best, [r["kind"] for r in result["ratios"]])
    over = sum(r["ratio"] > AIM for r in result["ratios"])
    said = [
        f"ratio: best of our own over best of the original; above {AIM} in {over} of {len(best)}. "
        "us: median, between events of the device with the host ahead. Trees of 64 shapes, with a "
        "branch for each ten nodes; float64."
    ]
    head = f"{'cells x nodes':<14} {'solver':<56} {'us':>9} {'x floor':>7}"
    rows = result["rows"]
    lines = [
        f"{r['kind']:<14} {r['name']:<56} {r['seconds'] * 1e6:>9.1f} {r['x_floor']:>7.2f}"
        for r in rows
    ]
    every = table.ruled(head, lines, [r["kind"] for r in rows])
    missing = ((m["name"], m["reason"], m["kind"]) for m in result["missing"])
    return "\n".join([shown, "", *table.wrapped(said), "", every, "", *table.missing(missing)])


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = record.parser("originals", __doc__)
    add = parser.add_argument
    usual = os.environ.get("CLHINES_ORIGINALS", "originals")
    add("folder", type=Path, nargs="?", default=Path(usual), help="with the originals' cubins")
    add("--cases", nargs="+", default=list(CASES), metavar="CELLSxNODES")
    add("--methods", nargs="+", choices=list(ORIGINALS), default=list(ORIGINALS))
    add("--budget", type=float, default=0.5, help="seconds of rounds a case of 12 solvers")
    args = parser.parse_args(arguments)
    for name in args.cases:
        if not all(number.isdigit() and int(number) for number in name.split("x")) or (
            name.count("x") != 1
        ):
            parser.error(f"--cases {name}: expected CELLSxNODES, such as 2560x512")
    return args


def main(arguments: Sequence[str]) -> None:
    """Run all cases and write the table."""
    args = parsed(arguments)
    queue = record.queue(args.device, ["float64"])
    rows: list[dict[str, Any]] = []
    missing: list[dict[str, Any]] = []
    wrong = ""
    for case in cases(queue, args.cases):
        begin = time.perf_counter()
        try:
            rows += peers.time_all(case, candidates(case, args, missing), args.budget, missing)
        except SystemExit as error:  # a method of clhines is wrong: the table has the cases before
            wrong = str(error)
            break
        print(f"{case.kind}: {time.perf_counter() - begin:.1f} s", file=sys.stderr, flush=True)
    known = record.record(queue, "originals", arguments)
    result = {"record": known, "rows": rows, "ratios": ratios(rows), "missing": missing}
    record.write("originals", queue, result, text(result), args.out)
    if wrong:
        sys.exit(wrong)
