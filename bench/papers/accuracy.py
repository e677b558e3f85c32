"""Errors of solvers of chains over their length, for figure 12 of the cuHinesBatch paper.

The error is the largest over the nodes of a chain, relative to the chain's largest value. The
reference is refined in extended precision. The table has the median and the largest of all chains.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import clhines
from bench import plot, systems
from clhines.solver import reference

ROWS = {"Thomas": "interleaved", "CR": "cr", "PCR": "pcr", "CR-PCR": "cr_pcr"}
STYLES: dict[str, dict[str, Any]] = {
    "Thomas": {"color": "#D55E00", "marker": "o", "lw": 2.2, "zorder": 4},
    "CR": {"color": "#0072B2", "marker": "s"},
    "PCR": {"color": "#009E73", "marker": "^", "ms": 9, "mfc": "white"},
    "CR-PCR": {"color": "#CC79A7", "marker": "D", "ms": 4, "zorder": 3},
}  # smaller above larger: some rows do the same
CELLS = 32


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


def panel(axes: Any, found: list[dict[str, Any]], dtype: str) -> None:
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
