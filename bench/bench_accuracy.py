"""Compare the errors of the rows for chains over their length, and the memory that every row takes.

    python bench/bench_accuracy.py [--device SPEC] [--sizes 64 128 ... 8192] [--out FOLDER]

The error is the largest over the nodes of a chain, next to that chain's largest value, from a
reference that is refined in extended precision; of all chains the median and the largest are
shown (after Valero-Lara et al. 2018, figure 12a). Memory is counted from plans, without a device
(after their figure 12b), in bytes a node in float64: `d`, `u`, `b` and `x` are the four arrays
that no solver can do without, 32 bytes; the rest is padding, tables, factors and scratch.
"""

from __future__ import annotations

import argparse
from typing import Any

import common
import numpy as np
from tqdm import tqdm

import clhines
from clhines import device as devices
from clhines import reference

ROWS = {"Thomas": "interleaved", "CR": "cr", "PCR": "pcr", "CR-PCR": "cr_pcr"}
CELLS, MEMORY_CELLS, MEMORY_NODES = 32, 2560, 512


def refined(forest: clhines.Forest, d: np.ndarray, u: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(n,) longdouble: the solution, its residual in extended precision solved for thrice."""
    parent = forest.parent
    inner = np.flatnonzero(parent >= 0)
    above = parent[inner]
    wide_d, wide_u, wide_b = (a.astype(np.longdouble) for a in (d, u, b))
    x = reference.solve_serial(forest, d, u, b).astype(np.longdouble)
    for _ in range(3):
        left = wide_b - wide_d * x
        left[inner] -= wide_u[inner] * x[above]
        left[above] -= wide_u[inner] * x[inner]  # in a chain every parent has one child
        x += reference.solve_serial(forest, d, u, left)
    return x


def errors(queue: Any, size: int, dtype: str) -> list[dict[str, Any]]:
    """Solve the same chains by each row; errors next to the refined solution."""
    forest = common.chains(CELLS, size)
    values = [a.astype(dtype) for a in common.system(forest)]
    truth = refined(forest, *(a.astype(np.float64) for a in values)).reshape(CELLS, size)
    rows = []
    for name, method in ROWS.items():
        x = clhines.Solver(forest, method, dtype, queue=queue).solve(*values).reshape(CELLS, size)
        gap = np.abs(x - truth).max(axis=1) / np.abs(truth).max(axis=1)
        row = {"row": name, "method": method, "dtype": dtype, "nodes": size}
        rows.append({**row, "largest": float(gap.max()), "median": float(np.median(gap))})
    return rows


def memory(method: str, limits: Any) -> dict[str, Any]:
    """Bytes a node that a row needs beyond d, u, b and x, in float64."""
    chains = clhines.METHODS[method].chains_only
    forest = (
        common.chains(MEMORY_CELLS, MEMORY_NODES)
        if chains
        else common.batch(MEMORY_CELLS, MEMORY_NODES, 50)
    )
    plan = clhines.make_plan(forest, method, np.float64, limits)
    n = forest.num_nodes
    tables = plan.bytes_needed(8, arrays=0) / n
    return {
        "method": method,
        "systems": "chains" if chains else "64 shapes",
        "padding": (plan.packed_size - n) * 8 * 4 / n,
        "tables": tables,
        "factors": plan.packed_size * 8 * plan.needs_factor / n,
        "scratch": sum(plan.scratch) * 8 * 4 / n,
        "more": plan.bytes_needed(8, arrays=4 + plan.needs_factor) / n - 32,
    }


def table(found: list[dict[str, Any]], needed: list[dict[str, Any]]) -> str:
    """Return both results as text, at most 100 columns wide."""
    lines = [f"{'dtype':<8} {'nodes':>6}" + "".join(f" {r:>20}" for r in ROWS)]
    lines += [" " * 15 + "      largest  median" * len(ROWS)]
    for k in range(0, len(found), len(ROWS)):
        some = found[k : k + len(ROWS)]
        cells = "".join(f"    {r['largest']:>9.2e} {r['median']:>7.1e}" for r in some)
        lines.append(f"{some[0]['dtype']:<8} {some[0]['nodes']:>6}{cells}")
    names = ("padding", "tables", "factors", "scratch", "more")
    lines += ["", "bytes a node in float64", f"{'method':<18} {'systems':<10}"]
    lines[-1] += "".join(f" {name:>8}" for name in names)
    for r in needed:
        shown = "".join(f" {r[name]:>8.2f}" for name in names)
        lines.append(f"{r['method']:<18} {r['systems']:<10}{shown}")
    return "\n".join(lines)


def main() -> None:
    """Run both and write ``accuracy-<device>.json`` and ``.txt``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device")
    parser.add_argument("--sizes", type=int, nargs="+", default=[64 << k for k in range(8)])
    parser.add_argument("--dtype", nargs="+", default=["float64", "float32"])
    parser.add_argument("--out", default=str(common.RESULTS))
    args = parser.parse_args()
    queue = devices.make_queue(devices.choose(args.device, np.float32))
    cases = tqdm([(t, n) for t in args.dtype for n in args.sizes], disable=None)
    found = [row for dtype, size in cases for row in errors(queue, size, dtype)]
    needed = [memory(method, devices.limits(queue.device)) for method in clhines.METHODS]
    result = {"record": common.record(queue, common.command_line())}
    result |= {"accuracy": found, "memory": needed}
    common.write("accuracy", queue, result, table(found, needed), args.out)


if __name__ == "__main__":
    main()
