"""Time every candidate of `auto` over shapes and batch sizes, and fit its cost model.

    python -m bench tune [--device SPEC] [--dtype float64 float32] [--max-nodes N]
    python -m bench tune --fit tune-gpu.json tune-cpu.json

The first command times five batch sizes of each shape in natural order: on a CPU from NumPy to
NumPy, by wall time; on other devices with arrays on the device, by events. `h` marks the choice of
the heuristic, `m` the earlier choice of `Solver(tune="measure")`. `--fit` writes
``clhines/solver/plan/costs.json`` again for the kinds of device in the files, and prints the
quality of the model on them, and on each shape when fitted to the others.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from os import environ
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
from scipy.optimize import nnls
from tqdm import tqdm

import clhines
from bench import made as shapes
from bench import record, systems
from clhines.solver import reference, tune
from clhines.solver.device import devices, timing
from clhines.solver.plan import auto
from clhines.solver.plan.auto import CANDIDATES, Candidate, Statistics
from clhines.solver.plan.plan import Limits

BUDGET = 0.2  # s, counted solves for each candidate; twice the budget in `measure`
BATCHES = 5
WEIGHT = 0.5  # cases count in the fit as their time over the best to this power, inverted
PACE_ROUNDS = 5
COSTS = Path(auto.__file__).parent / auto.COSTS_FILE
Rows = list[dict[str, Any]]


def random_cells(nodes: int, branches: int, count: int) -> list[np.ndarray]:
    seeds = range(record.SEED, record.SEED + count)
    return [shapes.random_binary_tree(nodes, branches, seed) for seed in seeds]


def discretised(folder: str | None) -> list[np.ndarray]:
    return [clhines.discretise(cell).parent for cell in systems.real_cells(folder)]


# Name -> the trees that the cells take in turn; None stands for as many as there are cells.
SHAPES: dict[str, Any] = {
    "chain 128": lambda _, __: [shapes.chain(128)],
    "chain 1500": lambda _, __: [shapes.chain(1500)],
    "small 64, 16 shapes": lambda _, __: random_cells(64, 9, 16),
    "random 512, one shape": lambda _, __: random_cells(512, 50, 1),
    "random 512, 64 shapes": lambda _, __: random_cells(512, 50, 64),
    "random 512, different": lambda cells, _: random_cells(512, 50, cells),
    "real cells": lambda _, folder: discretised(folder),
    "star, caterpillar": lambda _, __: [shapes.star(200), shapes.caterpillar(400)],
    "large 20000, 4 shapes": lambda _, __: random_cells(20_000, 400, 4),
}
DIFFERENT = 8  # all-different trees are slow to plan: a so much smaller batch at the most


def batches(name: str, args: argparse.Namespace) -> list[int]:
    """Return the cell counts of one shape's batches, evenly spread from 1 to `--max-nodes`."""
    trees = SHAPES[name](64, args.morphologies)
    mean = sum(map(len, trees)) / len(trees)
    most = args.max_nodes / mean / (DIFFERENT if "different" in name else 1)
    most = max(BATCHES, min(65_536, most))
    return [round(float(n)) for n in np.geomspace(1, most, BATCHES)]


def time_case(
    queue: cl.CommandQueue, forest: clhines.Forest, dtype: str, name: str
) -> dict[str, Any]:
    begin = time.perf_counter()
    measured = clhines.Solver(forest, "auto", dtype, queue=queue, tune="measure").tuning
    measure_seconds = time.perf_counter() - begin
    assert measured is not None
    limits = devices.limits(queue.device)
    begin = time.perf_counter()
    auto.ranked(forest, dtype, limits)
    ranking_seconds = time.perf_counter() - begin
    candidates = [c for c, _ in measured.rows]
    seconds = time_candidates(queue, forest, dtype, candidates)
    return {
        "shape": name,
        "dtype": dtype,
        "cells": forest.num_cells,
        "nodes": forest.num_nodes,
        "statistics": asdict(auto.statistics(forest)),
        "seconds": {str(c): s for c, s in zip(candidates, seconds, strict=True)},
        "floor_seconds": timing.floor_seconds(queue, forest.num_nodes, dtype),
        "heuristic": str(measured.heuristic),
        "measured": str(measured.best),
        "measure_seconds": measure_seconds,
        "ranking_seconds": ranking_seconds,
    }


def time_candidates(
    queue: cl.CommandQueue, forest: clhines.Forest, dtype: str, candidates: list[Candidate]
) -> list[float]:
    """Seconds per candidate; a wrong solution ends the run."""
    values = [tune.random_system(forest, dtype, record.SEED + k) for k in range(2)]
    ready: list[Any] = []
    first: np.ndarray | None = None
    for c in candidates:
        solver = clhines.Solver(forest, c.method, dtype, queue=queue, **c.options)
        x = solver.solve(*values[0])
        if first is None:
            first = x
            worst = reference.residual(forest, *values[0], x)
        else:  # cheaper than the residual
            worst = float(np.abs(x - first).max() / np.abs(first).max())
        if not worst < systems.TOLERANCE[dtype]:
            sys.exit(f"{c}, {dtype}, {forest}: error {worst:.3g}: wrong, so not timed")
        ready.append(partial(same, tune.natural_solves(solver.engine, values)))
    return timing.seconds_in_turns(queue, ready, BUDGET, progress=False)


def same(launch: Any) -> Any:
    return launch


def measure_all(args: argparse.Namespace, arguments: Sequence[str]) -> None:
    queue = record.queue(args.device)
    limits = devices.limits(queue.device)
    if args.max_nodes is None:
        args.max_nodes = 3_000_000 if limits.is_cpu else 8_000_000
    cases = [(s, n) for s in args.shapes for n in batches(s, args)]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        environ["CLHINES_CACHE_DIR"] = folder  # the user's own winners stay as they are
        for name, cells in tqdm(cases, disable=None):
            forest = clhines.Forest.repeat(SHAPES[name](cells, args.morphologies), cells)
            rows += [time_case(queue, forest, dtype, name) for dtype in args.dtype]
    result = {"limits": asdict(limits), "rows": rows}
    record.write("tune", queue, arguments, result, text, args.out)


def text(result: dict[str, Any]) -> str:
    rows, lines = result["rows"], []
    for row in rows:
        best = min(row["seconds"].values())
        lines.append(
            f"{row['shape']}, {row['dtype']}: {row['cells']} cells, {row['nodes']} nodes, floor "
            f"{row['floor_seconds'] * 1e6:.1f} us, best {best / row['floor_seconds']:.2f} x floor"
        )
        for label, seconds in sorted(row["seconds"].items(), key=lambda pair: pair[1]):
            marks = "h" * (label == row["heuristic"]) + "m" * (label == row["measured"])
            lines.append(
                f"  {marks:<2} {label:<34} {seconds * 1e6:>10.1f} us {seconds / best:>7.2f}"
            )
    return "\n".join([*lines, "", *summary(rows)])


def summary(rows: Rows) -> list[str]:
    lines = []
    for name in ("heuristic", "measured"):
        ratios = [regret(row, row[name]) for row in rows]
        lines.append(f"{name}: {grade(ratios)}")
    ranking = np.median([row["ranking_seconds"] for row in rows]) * 1e6
    measure = np.median([row["measure_seconds"] for row in rows])
    lines.append(f"ranking takes {ranking:.0f} us, measuring {measure:.2f} s (medians)")
    lines.append("cases in which a candidate is the best / within 3 % of it:")
    for label in dict.fromkeys(label for row in rows for label in row["seconds"]):
        ratios = [regret(row, label) for row in rows if label in row["seconds"]]
        near = sum(r <= 1.03 for r in ratios)
        lines.append(f"  {label:<34} {sum(r == 1 for r in ratios):>4} {near:>4}")
    return lines


def regret(row: dict[str, Any], label: str) -> float:
    return row["seconds"][label] / min(row["seconds"].values())


def grade(ratios: list[float]) -> str:
    a = np.array(ratios)
    return (
        f"within 3 % of the best in {np.mean(a <= 1.03):.0%}, within 10 % in "
        f"{np.mean(a <= 1.1):.0%} of {len(a)} cases; {np.mean(a):.3f} x on average, worst "
        f"{a.max():.2f} x"
    )


# --------------------------------------------------------------------------------------- the fit


def non_negative(A: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Least-squares solution to A x = y with x >= 0; of several solutions one without large x."""
    scale = np.sqrt((A * A).sum(axis=0)) + 1e-300
    small = np.sqrt(1e-6) * np.eye(len(scale))
    solution, _ = nnls(np.vstack([A / scale, small]), np.append(y, np.zeros(len(scale))))
    return solution / scale


def fit_candidate(
    rows: Rows, limits: Limits, dtype: str, candidate: Candidate, pace: np.ndarray
) -> dict[str, float]:
    """Costs per term, from times over each case's pace.

    Cases in which the candidate is far behind count less.
    """
    label = str(candidate)
    here = np.array([label in row["seconds"] for row in rows])
    if here.sum() < 8:
        return {}
    rows = [row for row in rows if label in row["seconds"]]
    table = [auto.terms(statistics_of(row), limits, dtype, candidate.options) for row in rows]
    names = list(table[0])
    A = np.array([[t[name] for name in names] for t in table])
    seconds = np.array([row["seconds"][label] for row in rows]) / pace[here]
    weight = np.array([regret(row, label) for row in rows]) ** -WEIGHT
    coefficients = non_negative(A * (weight / seconds)[:, None], weight)
    costs = {name: float(f"{c:.4g}") for name, c in zip(names, coefficients, strict=True)}
    return {name: c for name, c in costs.items() if c > 0}


def statistics_of(row: dict[str, Any]) -> Statistics:
    statistics = row["statistics"]
    return Statistics(**{**statistics, "padded": tuple(statistics["padded"])})


def fit_all(rows: Rows, limits: Limits, dtype: str) -> dict[str, dict[str, float]]:
    """Return the costs of all candidates of a kind of device.

    An influence that slows all candidates of a case alike, such as other load or an effect without
    a term, does not change the choice. It is removed as the pace of the case.
    """
    pace = np.ones(len(rows))
    for _ in range(PACE_ROUNDS):
        costs_of = {
            str(c): fit_candidate(rows, limits, dtype, c, pace)
            for c in CANDIDATES[auto.kind_of(limits)]
        }
        costs_of = {label: costs for label, costs in costs_of.items() if costs}
        expected = [predictions(row, limits, costs_of) for row in rows]
        pace = np.array(
            [
                np.median([row["seconds"][label] / e for label, e in times.items()])
                for row, times in zip(rows, expected, strict=True)
            ]
        )
        pace = np.clip(pace / np.exp(np.log(pace).mean()), 0.5, 2.0)
    return costs_of


def predictions(
    row: dict[str, Any], limits: Limits, costs: dict[str, dict[str, float]]
) -> dict[str, float]:
    expected = {}
    for c in CANDIDATES[auto.kind_of(limits)]:
        if str(c) in costs and str(c) in row["seconds"]:
            values = auto.terms(statistics_of(row), limits, row["dtype"], c.options)
            expected[str(c)] = sum(s * values[name] for name, s in costs[str(c)].items())
    return expected


def chosen(row: dict[str, Any], limits: Limits, costs: dict[str, dict[str, float]]) -> str:
    expected = predictions(row, limits, costs)
    return min(expected, key=lambda label: expected[label])


def fit(paths: list[str]) -> None:
    table = json.loads(COSTS.read_text("utf-8"))
    groups: dict[tuple[Limits, str], Rows] = defaultdict(list)
    origins: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        result = json.loads(Path(path).read_text("utf-8"))
        limits, record = Limits(**result["limits"]), result["record"]
        for dtype in dict.fromkeys(row["dtype"] for row in result["rows"]):
            rows = [row for row in result["rows"] if row["dtype"] == dtype]
            groups[limits, dtype] += rows
            key = f"{auto.kind_of(limits)} {dtype}"
            origins[key].append(f"{record['device']}, {record['driver']}, {len(rows)} cases")
    if len(groups) > len(origins):
        sys.exit("the files are of several devices of one kind; expected one CPU and one GPU")
    for (limits, dtype), rows in groups.items():
        key = f"{auto.kind_of(limits)} {dtype}"
        table["costs"][key] = fit_all(rows, limits, dtype)
        table["fitted_to"][key] = "; ".join(origins[key])
        print("\n".join([f"{key}:", *judge(rows, limits, dtype, table["costs"][key])]))
    COSTS.write_text(json.dumps(table, indent=1) + "\n", "utf-8")


def judge(rows: Rows, limits: Limits, dtype: str, costs: dict[str, dict[str, float]]) -> list[str]:
    lines = [f"  model: {grade([regret(row, chosen(row, limits, costs)) for row in rows])}"]
    ratios = []
    for shape in dict.fromkeys(row["shape"] for row in rows):
        others = fit_all([row for row in rows if row["shape"] != shape], limits, dtype)
        ratios += [regret(r, chosen(r, limits, others)) for r in rows if r["shape"] == shape]
    lines.append(f"  each shape by a model that has not seen it: {grade(ratios)}")
    for label in costs:
        if all(label in row["seconds"] for row in rows):
            lines.append(f"  always {label}: {grade([regret(row, label) for row in rows])}")
    return lines


def main(arguments: Sequence[str]) -> None:
    parser = record.parser("tune", __doc__)
    parser.add_argument("--dtype", nargs="+", default=["float64"], choices=list(systems.TOLERANCE))
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--max-nodes", type=int, help="of a batch; default: 3e6 on a CPU, or 8e6")
    parser.add_argument("--morphologies", metavar="FOLDER", help="of SWC files, for real cells")
    parser.add_argument("--fit", nargs="+", metavar="JSON")
    args = parser.parse_args(arguments)
    if args.fit:
        fit(args.fit)
    else:
        measure_all(args, arguments)
