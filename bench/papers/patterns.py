"""Pictures without a clock: the rows that cyclic reduction reads, and the shape of a Hines matrix.

Both are computed, not only drawn: the steps of the picture solve a system, and elimination of the
matrix shows whether entries appear that were zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import clhines
from bench import MissingError, record, systems, table
from bench.papers import pictures
from bench.papers.cases import Run
from clhines.solver import reference

ROWS = 8  # rows in figure 8's system
WAYS = {"CR": "cyclic reduction", "PCR": "parallel cyclic reduction"}
NODES, LEVELS = 5, 3  # compartments per branch, and branch levels, in the report's example
Step = tuple[str, dict[int, list[int]]]  # a step's name, and the rows that each row reads

# -- figure 8 ----------------------------------------------------------------------------------


def cyclic(n: int) -> list[Step]:
    """Give the steps in cyclic reduction with n rows; n is a power of two, at least 2."""
    steps: list[Step] = []
    stride = 1
    while 4 * stride <= n:
        done = range(2 * stride - 1, n, 2 * stride)
        steps.append(("reduce", {i: _inside(n, i - stride, i + stride) for i in done}))
        stride *= 2
    steps.append(("solve", {stride - 1: [n - 1], n - 1: [stride - 1]}))
    while stride > 1:
        stride //= 2
        rest = range(stride - 1, n, 2 * stride)
        steps.append(("substitute", {i: _inside(n, i - stride, i + stride) for i in rest}))
    return steps


def parallel(n: int) -> list[Step]:
    """Give the steps in parallel cyclic reduction with n rows; n is a power of two, at least 2."""
    strides = [1 << k for k in range(n.bit_length() - 1)]
    return [("reduce", {i: _inside(n, i - s, i + s) for i in range(n)}) for s in strides]


def _inside(n: int, *rows: int) -> list[int]:
    return [i for i in rows if 0 <= i < n]


def follow(steps: list[Step], matrix: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Solve a system by exactly the given steps."""
    n = len(y)
    rows, x = np.column_stack((matrix, y)).astype(np.float64), np.full(n, np.nan)
    for what, reads in steps:
        before = rows.copy()
        for i, others in reads.items():
            if what == "substitute":
                rows[i, n] -= sum(rows[i, j] * x[j] for j in others)
                rows[i, others] = 0
            else:
                for j in others:
                    rows[i] -= before[i, j] / before[j, j] * before[j]
                rows[i, others] = 0  # removes rounding errors
        for i in range(n) if what == "reduce" else reads:
            if not np.any(np.delete(rows[i, :n], i)):
                x[i] = rows[i, n] / rows[i, i]
    if not np.all(np.isfinite(x)):
        raise MissingError("the steps leave rows that depend on others")
    return x


def measure_8(run: Run) -> dict[str, Any]:
    """Rows that each row reads in each step, and the error in a system that is solved so."""
    d, u, b = systems.system(systems.chains(1, ROWS))
    matrix = dense(np.arange(-1, ROWS - 1), d, u)
    rows = []
    for name, steps in (("CR", cyclic(ROWS)), ("PCR", parallel(ROWS))):
        x = follow(steps, matrix, b)
        error = reference.residual(systems.chains(1, ROWS), d, u, b, x)
        if not error < systems.TOLERANCE["float64"]:
            raise MissingError(f"{name}: error {error:.3g}")
        for k, (what, reads) in enumerate(steps, 1):
            row = {"panel": name, "step": k, "what": what, "error": error}
            rows.append({**row, "reads": [[i, others] for i, others in reads.items()]})
    setup = {"system": f"{ROWS} rows, as in the paper; the same with any power of two"}
    return {"dtype": "float64", "setup": setup, "scaled": [], "missing": [], "rows": rows}


def draw_8(figure: Any, result: dict[str, Any]) -> None:
    for axes, (name, said) in zip(pictures.panels(figure, 1, 2), WAYS.items()):
        steps = [r for r in result["rows"] if r["panel"] == name]
        for r in steps:
            color = pictures.STEPS[r["what"]]
            for i, others in r["reads"]:
                for j in [i, *others]:
                    axes.plot([j, i], [r["step"] - 1, r["step"]], color=color, lw=1.2)
        for k in range(len(steps) + 1):
            rows = [i for i, _ in steps[k - 1]["reads"]] if k else range(ROWS)
            color = pictures.STEPS[steps[k - 1]["what"]] if k else "black"
            axes.scatter(range(ROWS), [k] * ROWS, s=16, color="0.8", zorder=2)
            axes.scatter(rows, [k] * len(rows), s=44, color=color, zorder=3)
        axes.set_yticks(
            range(len(steps) + 1), ["start", *(f"{r['step']}: {r['what']}" for r in steps)]
        )
        axes.set(xlabel="row", ylim=(len(steps) + 0.3, -0.3), title=f"{name}: {said}")
        axes.set_xticks(range(ROWS))


def table_8(result: dict[str, Any]) -> str:
    head = f"{'algorithm':<10} {'step':>4} {'what':<11} {'rows':>5} {'apart':>6} {'read':>5}  error"
    lines = []
    for r in result["rows"]:
        apart = max(abs(i - j) for i, others in r["reads"] for j in others)
        read = sum(1 + len(others) for _, others in r["reads"])
        lines.append(
            f"{r['panel']:<10} {r['step']:>4} {r['what']:<11} {len(r['reads']):>5} {apart:>6} "
            f"{read:>5}  {r['error']:.1e}"
        )
    return table.ruled(head, lines, [r["panel"] for r in result["rows"]])


# -- the report's figures 1.1 and 2.1 ----------------------------------------------------------


def dense(parent: np.ndarray, d: np.ndarray, u: np.ndarray) -> np.ndarray:
    matrix = np.diag(np.asarray(d, np.float64))
    inner = np.flatnonzero(parent >= 0)
    matrix[inner, parent[inner]] = matrix[parent[inner], inner] = u[inner]
    return matrix


def fill_in(matrix: np.ndarray) -> int:
    """Count the zeros above the diagonal that elimination from the last row to the first fills."""
    pattern = matrix != 0
    for k in range(len(pattern) - 1, 0, -1):
        above = np.flatnonzero(pattern[:k, k])
        pattern[np.ix_(above, above)] = True
    return int((pattern.sum() - (matrix != 0).sum()) // 2)


def example() -> np.ndarray:
    """Parents of the report's kind of cell, branch by branch depth first: each splits in two."""
    parent: list[int] = []

    def grow(above: int, level: int) -> None:
        start = len(parent)
        parent.extend([above, *range(start, start + NODES - 1)])
        for _ in range(2 if level + 1 < LEVELS else 0):
            grow(start + NODES - 1, level + 1)

    grow(-1, 0)
    return np.array(parent, np.int32)


def numberings() -> dict[str, np.ndarray]:
    trees = clhines.Forest.from_parents([example()]).trees
    rng = np.random.default_rng(record.SEED)
    return {
        "breadth first by branch": trees.order,
        "depth first": np.arange(len(trees.order)),
        "at random": rng.permutation(len(trees.order)),
    }


def measure_2_1(run: Run) -> dict[str, Any]:
    """Count entries outside the tridiagonal, and new ones of elimination, in three numberings."""
    forest = clhines.Forest.from_parents([example()])
    d, u, b = systems.system(forest)
    whole = dense(forest.parent, d, u)
    x = reference.solve_serial(forest, d, u, b)
    rows = []
    for name, order in numberings().items():
        matrix = whole[np.ix_(order, order)]
        error = float(np.max(np.abs(np.linalg.solve(matrix, b[order]) - x[order])))
        if not error < systems.TOLERANCE["float64"] * np.max(np.abs(x)):
            raise MissingError(f"{name}: the matrix has another solution, by {error:.3g}")
        apart = np.abs(np.subtract(*np.nonzero(matrix)))
        rows.append(
            {
                "panel": name,
                "nodes": len(order),
                "outside": int((apart > 1).sum()) // 2,
                "bandwidth": int(apart.max()),
                "fill_in": fill_in(matrix),
                "error": error,
                "entries": np.argwhere(matrix).tolist(),
            }
        )
    setup = {
        "cell": f"{LEVELS} levels of branches of {NODES} compartments, each branch splits in two",
        "couplings": "pairs of entries beside the three diagonals; fill-in: pairs that elimination "
        "from the last row to the first adds; a Hines matrix has none",
    }
    return {"dtype": "float64", "setup": setup, "scaled": [], "missing": [], "rows": rows}


def draw_2_1(figure: Any, result: dict[str, Any]) -> None:
    first, *others = pictures.panels(figure, 2, 2)
    forest = clhines.Forest.from_parents([example()])
    draw_tree(first, forest.trees)
    for axes, r in zip(others, result["rows"]):
        row, column = np.array(r["entries"]).T
        branch = forest.trees.branch_of_node[numberings()[r["panel"]]]
        axes.set_facecolor("0.97")
        for k in range(branch.max() + 1):
            mine = (branch[row] == k) & (branch[column] == k)
            axes.scatter(column[mine], row[mine], s=14, marker="s", color=pictures.SHADES[k % 7])
        far = branch[row] != branch[column]
        axes.scatter(column[far], row[far], s=14, marker="s", color="black")
        axes.set(xlim=(-1, r["nodes"]), ylim=(r["nodes"], -1), aspect="equal")
        axes.set_title(f"{r['panel']}: fill-in {r['fill_in']}")


def draw_tree(axes: Any, trees: Any) -> None:
    count = len(trees.branch_first)
    x = np.zeros(count)
    leaves = np.setdiff1d(np.arange(count), trees.branch_parent)
    x[leaves] = np.arange(len(leaves))
    for k in range(count - 1, -1, -1):
        below = np.flatnonzero(trees.branch_parent == k)
        x[k] = x[below].mean() if len(below) else x[k]
    branch = trees.branch_of_node
    up = trees.parent
    for i in np.flatnonzero(up >= 0):
        pair = [i, up[i]]
        axes.plot(x[branch[pair]], trees.depth[pair], color="0.5", lw=1, zorder=1)
    for i, number in enumerate(trees.rank):
        color = pictures.SHADES[branch[i] % 7]
        axes.scatter(x[branch[i]], trees.depth[i], s=110, color=color, zorder=2)
        axes.annotate(
            str(number), (x[branch[i]], trees.depth[i]), ha="center", va="center", fontsize=6.5
        )
    axes.set(
        ylim=(trees.depth.max() + 0.8, -0.8), title="the cell, numbered breadth first by branch"
    )
    axes.axis("off")


def table_2_1(result: dict[str, Any]) -> str:
    head = f"{'numbering':<25} {'nodes':>6} {'couplings':>10} {'bandwidth':>10} {'fill-in':>8}"
    lines = [
        f"{r['panel']:<25} {r['nodes']:>6} {r['outside']:>10} {r['bandwidth']:>10} "
        f"{r['fill_in']:>8}"
        for r in result["rows"]
    ]
    return table.ruled(head, lines)


# -- cuHinesBatch's figures 2 and 7 ------------------------------------------------------------

SYSTEMS, ELEMENTS, BLOCK = 4, 3, 2  # figure 2; systems per block
LAYOUTS: dict[str, tuple[str, dict[str, Any]]] = {
    "Flat": ("flat", {}),
    "Full-Interleaved": ("interleaved", {}),
    "Block-Interleaved": ("block_interleaved", {"block_size": BLOCK, "vector_width": 1}),
}
NEURONS, BRANCH_LEVELS = 3, 3  # figure 7


def measure_2(run: Run) -> dict[str, Any]:
    """Where each element in each system is in memory, as our plans have it."""
    forest = clhines.Forest.repeat([np.arange(-1, ELEMENTS - 1)], SYSTEMS)
    rows = []
    for name, (method, options) in LAYOUTS.items():
        gather = clhines.make_plan(forest, method, **options).gather
        places = [divmod(int(node), ELEMENTS) for node in gather if node >= 0]
        first = [k for k, (_, element) in enumerate(places) if element == 0]
        lanes = BLOCK if "Block" in name else SYSTEMS
        rows.append({"panel": name, "places": places, "apart": first[1] - first[0], "lanes": lanes})
    setup = {"systems": f"{SYSTEMS} of {ELEMENTS} elements, blocks of {BLOCK}, as in the paper"}
    return {"dtype": "float64", "setup": setup, "scaled": [], "missing": [], "rows": rows}


def draw_2(figure: Any, result: dict[str, Any]) -> None:
    rows = result["rows"]
    for axes, r in zip(pictures.panels(figure, len(rows), 1), rows):
        for k, (system, element) in enumerate(r["places"]):
            color = pictures.SHADES[system]
            axes.barh(0, 0.94, left=k, height=0.8, color=color, ec="black", lw=0.6)
            axes.text(k + 0.47, 0, f"{system},{element}", ha="center", va="center", fontsize=8)
        axes.set(yticks=[], title=r["panel"], xlabel="place in memory: system, element")
        axes.set_xticks([])
    figure.set_size_inches(8, 1 + 1.3 * len(rows))


def table_2(result: dict[str, Any]) -> str:
    lines = []
    for r in result["rows"]:
        places = " ".join(f"{system}{'abcdefgh'[element]}" for system, element in r["places"])
        lines.append(f"{r['panel']:<18} {r['apart']:>5}  {places}")
    return table.ruled(f"{'layout':<18} {'apart':>5}  system and element in each place", lines)


def measure_7(run: Run) -> dict[str, Any]:
    trees = [tree_of_levels(n) for n in range(1, BRANCH_LEVELS + 1)]
    rows = []
    for name, method, cells in (
        ("mono-morphology", "interleaved", [trees[-1]] * NEURONS),
        ("multi-morphology", "levels", trees),
    ):
        forest = clhines.Forest.from_parents(cells)
        plan = clhines.make_plan(forest, method)
        launches = sum(len(part.launches) for part in plan.parts)
        row = {"panel": name, "method": method, "launches": launches, "cells": len(cells)}
        rows.append(row | {"trees": [tree.tolist() for tree in cells]})
    setup = {"cells": f"branch levels: {BRANCH_LEVELS} each, and 1 to {BRANCH_LEVELS}"}
    return {"dtype": "float64", "setup": setup, "scaled": [], "missing": [], "rows": rows}


def tree_of_levels(levels: int) -> np.ndarray:
    return (np.arange(-1, (1 << levels) - 2) // 2).astype(np.int32)


def draw_7(figure: Any, result: dict[str, Any]) -> None:
    for axes, r in zip(pictures.panels(figure, 1, 2), result["rows"]):
        for cell, parent in enumerate(r["trees"]):
            depth = [int(np.log2(k + 1)) for k in range(len(parent))]
            across = [(k + 1.5) / 2**n - 1 + 1.4 * cell for k, n in enumerate(depth)]
            for k, above in enumerate(parent):
                shade = cell if r["method"] == "interleaved" else depth[k]
                color = pictures.SHADES[shade]
                axes.plot(across[k], -depth[k], "o", ms=9, color=color, zorder=3)
                if above >= 0:
                    ends = [across[above], across[k]], [-depth[above], -depth[k]]
                    axes.plot(*ends, color=color, lw=2)
        launches = f"{r['launches']} launch{'es' * (r['launches'] > 1)}"
        title = f"{r['panel']}: {r['method']}, {launches}"
        axes.set(xticks=[], yticks=range(1 - BRANCH_LEVELS, 1), title=title)
        axes.set_yticklabels(range(BRANCH_LEVELS - 1, -1, -1))
        axes.set_ylabel("branch level")
        shared = "cell" if r["method"] == "interleaved" else "level"
        axes.set_xlabel(f"a colour for each {shared}")


def table_7(result: dict[str, Any]) -> str:
    head = f"{'cells':<18} {'number':>6} {'method':<12} {'launches':>8}"
    lines = [
        f"{r['panel']:<18} {r['cells']:>6} {r['method']:<12} {r['launches']:>8}"
        for r in result["rows"]
    ]
    return table.ruled(head, lines)
