"""Measure errors of solvers of chains over their length, and the memory of every method.

    python -m bench accuracy [--device SPEC] [--sizes 64 128 ... 8192] [--out FOLDER]

The error is the largest over the nodes of a chain, next to that chain's largest value, from a
reference that is refined in extended precision; of all chains the median and the largest are
shown (after Valero-Lara et al. 2018, figure 12a). Memory is counted from plans, without a device
(after their figure 12b), in bytes a node in float64: `d`, `u`, `b` and `x` are the four arrays
that no solver can do without, 32 bytes; the rest is padding, tables, factors and scratch.

With matplotlib the errors are also drawn over the length, as SVG beside the JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import clhines
from bench import plot, record, systems
from clhines import reference
from clhines.device import devices

ROWS = {"Thomas": "interleaved", "CR": "cr", "PCR": "pcr", "CR-PCR": "cr_pcr"}
STYLES: dict[str, dict[str, Any]] = {
    "Thomas": {"color": "#D55E00", "marker": "o", "lw": 2.2, "zorder": 4},
    "CR": {"color": "#0072B2", "marker": "s"},
    "PCR": {"color": "#009E73", "marker": "^", "ms": 9, "mfc": "white"},
    "CR-PCR": {"color": "#CC79A7", "marker": "D", "ms": 4, "zorder": 3},
}  # smaller above larger: some rows do the same
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
    forest = systems.chains(CELLS, size)
    values = [a.astype(dtype) for a in systems.system(forest)]
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
        systems.chains(MEMORY_CELLS, MEMORY_NODES)
        if chains
        else systems.batch(MEMORY_CELLS, MEMORY_NODES, 50)
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


def text(result: dict[str, Any]) -> str:
    """Return both results as text."""
    found, needed = result["accuracy"], result["memory"]
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


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw the errors over the length of the chains, a panel for each dtype."""
    found = result["accuracy"]
    dtypes = list(dict.fromkeys(r["dtype"] for r in found))
    with plot.picture(path) as figure:
        grid = plot.grid(figure, len(dtypes), (4.6, 0), (4.4, 0))
        for axes, dtype in zip(grid, dtypes):
            panel(axes, [r for r in found if r["dtype"] == dtype], dtype)
        handles, names = grid[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=5, frameon=False)
        figure.suptitle(plot.device_name(result["record"]))


def panel(axes: Any, found: list[dict[str, Any]], dtype: str) -> None:
    """Draw the largest and the median error of each row, and half a unit in the last place."""
    for name in ROWS:
        some = [r for r in found if r["row"] == name]
        sizes, look = [r["nodes"] for r in some], {"lw": 1.2, "ms": 6, **STYLES[name]}
        axes.plot(sizes, [r["largest"] for r in some], label=name, **look)
        axes.plot(sizes, [r["median"] for r in some], color=look["color"], ls=":", lw=1.5)
    half = float(np.finfo(dtype).eps) / 2
    axes.axhline(half, color="black", ls="--", lw=1, label="eps / 2")
    ticks = sorted({r["nodes"] for r in found})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{n}" for n in ticks], rotation=45)
    axes.set(ylim=(0, None), title=dtype, xlabel="size of the systems")
    axes.set_ylabel("largest relative error (dotted: median)")
    axes.grid(True, **plot.GRID)


def main(arguments: Sequence[str]) -> None:
    """Run both and write ``accuracy-<device>.json``, ``.txt`` and ``.svg``."""
    parser = record.parser("accuracy", __doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64 << k for k in range(8)])
    parser.add_argument("--dtype", nargs="+", default=["float64", "float32"])
    args = parser.parse_args(arguments)
    queue = record.queue(args.device)
    cases = tqdm([(t, n) for t in args.dtype for n in args.sizes], disable=None)
    found = [row for dtype, size in cases for row in errors(queue, size, dtype)]
    needed = [memory(method, devices.limits(queue.device)) for method in clhines.METHODS]
    result = {"record": record.record(queue, "accuracy", arguments)}
    result |= {"accuracy": found, "memory": needed}
    record.write("accuracy", queue, result, text(result), args.out, draw)
