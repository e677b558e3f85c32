"""Time clhines beside other solvers, on the same systems and in the same run.

    python -m bench peers [--device SPEC] [--cells 1 16 256 2560 25600] [--shapes 1 64 all]

The systems are trees of one shape, of 64 shapes and all different, and chains. Peers that are not
there get a line that says so. Every solution that is timed is checked. Writes the tables
``peers-<device>.json`` and ``.txt`` and, with matplotlib, the picture ``peers-<device>.svg``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "20000")  # idle OpenMP threads leave the cores to others

import numpy as np
import pyopencl as cl
from tqdm import tqdm

import clhines
from bench import MissingError, plot, record, systems, table
from bench.peers import cuda, host, jaxley
from bench.systems import Candidate, Case, Repeats
from clhines.core.errors import DeviceMemoryError
from clhines.solver import reference
from clhines.solver.device import timing

BOUND = 32  # largest componentwise backward error, in the dtype's eps
CACHED = 1 << 26  # bytes in d, u, b and x up to which caches are warmed before each timed run
CHECKED = 2_000_000  # nodes above which only a case's first solution gets its residual
SLOW = 1.0  # s; longer solves are run three times, not seven or more
FLOOR = "memory floor"

PEERS: dict[str, Callable[[Case], Iterable[Candidate]]] = {
    "cuSPARSE gtsv2StridedBatch": cuda.strided,
    "cuSPARSE gtsvInterleavedBatch": cuda.interleaved,
    "C, one thread": host.c_serial,
    "C/OpenMP, equal trees in lanes": host.c_equal,
    "C/OpenMP, any trees in lanes": host.c_different,
    "Numba, one thread": host.numba_serial,
    "Numba, prange": host.numba_parallel,
    "SciPy, banded": host.scipy_banded,
    "SciPy splu": host.scipy_sparse,
    "Jaxley": jaxley.jaxley_tree,
}


def floor(case: Case) -> Candidate:
    def launch(k: int, repeats: int = 9) -> float:
        return timing.floor_seconds(case.queue, case.forest.num_nodes, case.dtype, repeats)

    if systems.on_host(case.queue.device):  # its share in every round
        return Candidate(FLOOR, lambda k: launch(k, 1))
    return Candidate(FLOOR, launch, clock="device", most=1)


def own(case: Case, method: str, name: str = "", **options: Any) -> Candidate:
    """Return a clhines method as a candidate, with values in device order.

    `options` may have ``reroot``, too.
    """
    queue = case.queue
    wall = systems.on_host(queue.device)
    forest, options, couplings = systems.rooted(case.forest, options)
    solver = clhines.Solver(forest, method, case.dtype, queue=queue, **options)
    sets: Iterable[Sequence[Any]] = case.on_device()
    if forest is not case.forest:
        sets = [(d, couplings(u), b) for d, u, b in case.sets]
    enqueue, result = systems.on_device(solver, sets)

    def launch(k: int) -> float | None:
        enqueue(k)
        queue.finish()
        events = solver.kernel_events
        return None if wall else (events[-1].profile.end - events[0].profile.start) * 1e-9

    chosen = f"auto ({solver.plan.method})" if method == "auto" else method
    clock = "wall" if wall else "device"
    return Candidate(
        name or f"clhines {chosen}",
        launch,
        lambda k: case.solution(result(k)),
        clock=clock,
        solver=solver,
    )


def candidates(case: Case, methods: list[str], missing: list[dict]) -> Iterator[Candidate]:
    """Give every solver that can run here; the others become entries of `missing`."""
    yield floor(case)
    refused = set(clhines.METHODS) - set(systems.methods_for(case.forest))
    for method in (m for m in methods if m not in refused):
        try:
            yield own(case, method)
        except DeviceMemoryError as error:
            missing.append(absent(case, f"clhines {method}", error))
    for name, make in PEERS.items():
        try:
            yield from make(case)
        except Exception as error:  # whatever a peer's library does, the others are timed
            missing.append(absent(case, name, error))


def absent(case: Case, name: str, error: Exception) -> dict[str, Any]:
    reason = str(error) if isinstance(error, MissingError) else f"{type(error).__name__}: {error}"
    return {"name": name, **about(case), "reason": (reason.splitlines() or ["no reason"])[0]}


def about(case: Case) -> dict[str, Any]:
    shapes = case.forest.trees.num_trees
    return {"kind": case.kind, "shapes": shapes, "cells": case.cells, "dtype": case.dtype.name}


def check(case: Case, candidate: Candidate, truth: dict[int, np.ndarray]) -> None:
    """Solve every set and check the solution; raise `MissingError` if it is wrong.

    The error is the residual. In large batches only the first solver's residual is computed, and
    the other solutions are compared with its solution. If values repeat, the error is that of the
    first cells, or the largest difference of other cells from them, if that is larger.
    """
    if candidate.result is None:
        return
    errors: list[float] = []
    for k, values in enumerate(case.values):
        candidate.run(k)
        x = candidate.result(k)
        x = x if isinstance(x, Repeats) else case.solution(x)
        if isinstance(x, Repeats):
            errors.append(x.worst / float(np.max(np.abs(x.once))))
            x = x.once
        if k in truth and x.size > CHECKED:
            errors.append(float(np.max(np.abs(x - truth[k])) / np.max(np.abs(truth[k]))))
        else:
            errors.append(reference.residual(case.part or case.forest, *values, x))
            truth.setdefault(k, np.array(x))
    candidate.error = float(np.max(errors))
    bound = BOUND * np.finfo(case.dtype).eps
    if not candidate.error < bound:
        raise MissingError(f"wrong, so not timed: error {candidate.error:.3g}, bound {bound:.3g}")


def checked(case: Case, found: Iterable[Candidate], missing: list[dict]) -> Iterator[Candidate]:
    truth: dict[int, np.ndarray] = {}
    for candidate in found:
        try:
            check(case, candidate, truth)
        except Exception as error:
            if candidate.name.startswith("clhines"):
                sys.exit(f"{candidate.name}, {about(case)}: {error}")
            missing.append(absent(case, candidate.name, error))
        else:
            yield candidate


def interleave(case: Case, group: list[Candidate], budget: float) -> None:
    turns = len(case.values)
    first = [c.run(0) for c in group]
    rounds = int(np.clip(budget / sum(first), 7, 25))
    most = [min(rounds, c.most, 3 if t > SLOW else rounds) for c, t in zip(group, first)]
    small = 4 * case.forest.num_nodes * case.dtype.itemsize < CACHED
    for r in range(rounds):
        for candidate in (c for c, n in zip(group, most) if r < n):
            if small and candidate.result is not None:
                candidate.run((r + 1) % turns)
            candidate.seconds.append(candidate.run(r % turns))


def time_case(case: Case, methods: list[str], budget: float, missing: list[dict]) -> list[dict]:
    """Return a row for each solver in one case, fastest first.

    On a CPU all solvers take turns; on other devices one comes after another, so that only one
    has its arrays on the device.
    """
    return time_all(case, candidates(case, methods, missing), budget, missing)


def time_all(
    case: Case, given: Iterable[Candidate], budget: float, missing: list[dict]
) -> list[dict]:
    candidates = checked(case, given, missing)
    groups = [list(candidates)] if systems.on_host(case.queue.device) else ([c] for c in candidates)
    rows = []
    for group in groups:
        interleave(case, group, budget * len(group) / 12)
        rows += [row(case, candidate) for candidate in group]
    floor_seconds = next(r["seconds"] for r in rows if r["name"] == FLOOR)
    for each in rows:
        each["x_floor"] = each["seconds"] / floor_seconds
    return sorted(rows, key=lambda r: r["seconds"])


def row(case: Case, candidate: Candidate) -> dict[str, Any]:
    seconds = candidate.seconds
    return {
        "name": candidate.name,
        **about(case),
        "nodes": case.nodes,
        "clock": candidate.clock,
        "seconds": float(np.median(seconds)) * candidate.stands_for,
        "best_seconds": min(seconds) * candidate.stands_for,
        "rounds": len(seconds),
        "error": candidate.error,
        **candidate.facts(),
    }


def cases(queue: cl.CommandQueue, args: argparse.Namespace) -> Iterator[Case]:
    for cells in args.cells:
        counts = [cells if s == "all" else min(int(s), cells) for s in args.shapes]
        for shapes in [*dict.fromkeys(counts), 0]:
            if shapes:
                forest = systems.batch(cells, args.nodes, args.branches, shapes)
            else:
                forest = systems.chains(cells, args.nodes)
            for dtype in args.dtype:
                yield Case(
                    queue,
                    forest,
                    kind(shapes, cells),
                    np.dtype(dtype),
                    systems.values(forest, dtype),
                )


def kind(shapes: int, cells: int) -> str:
    if not shapes:
        return "chains"
    if shapes == 1:
        return "1 shape"
    return "all different" if shapes == cells else f"{shapes} shapes"


def text(result: dict[str, Any]) -> str:
    head = (
        f"{'cells':>6} {'systems':<13} {'dtype':<7} {'solver':<37} {'clock':<6} {'us':>9} "
        f"{'x floor':>7} {'ns/node':>8}"
    )
    rows = result["rows"]
    lines = [
        f"{r['cells']:>6} {r['kind']:<13} {r['dtype']:<7} {r['name']:<37} {r['clock']:<6} "
        f"{table.narrow(r['seconds'] * 1e6, 9, 1)} {table.narrow(r['x_floor'], 7, 2)} "
        f"{table.narrow(r['seconds'] / r['cells'] / r['nodes'] * 1e9, 8, 3)}"
        for r in rows
    ]
    groups = [(r["cells"], r["kind"], r["dtype"]) for r in rows]
    missing = (
        (m["name"], m["reason"], f"{m['cells']} cells ({m['kind']}, {m['dtype']})")
        for m in result["missing"]
    )
    return "\n".join([table.ruled(head, lines, groups), "", *table.missing(missing)])


# -- the picture -------------------------------------------------------------------------------


def kinds(rows: list[dict[str, Any]]) -> list[str]:
    """Return the panels: one shape, several, all different, chains.

    Left out is a kind of which another panel has every point, as of one cell that has one shape.
    """
    order = {"1 shape": 0, "all different": 2, "chains": 3}
    names = sorted({r["kind"] for r in rows}, key=lambda k: (order.get(k, 1), k))
    points = {k: {i for i, r in enumerate(rows) if belongs(r, k)} for k in names}
    return [k for k in names if not any(points[k] < points[other] for other in names)]


def belongs(row: dict[str, Any], kind: str) -> bool:
    """Whether a row is a point in a panel: a few cells can be both 64 shapes and all different."""
    if row["kind"] == kind or "chains" in (row["kind"], kind):
        return bool(row["kind"] == kind)
    shapes = {"1 shape": 1, "all different": row["cells"]}.get(kind) or int(kind.split()[0])
    return bool(row["shapes"] == min(shapes, row["cells"]))


def lines(rows: list[dict[str, Any]], kind: str) -> dict[str, list[tuple[int, float]]]:
    points_of: dict[str, list[tuple[int, float]]] = {}
    for r in rows:
        if belongs(r, kind):
            points_of.setdefault(line_name(r["name"]), []).append((r["cells"], r["seconds"]))
    return {name: sorted(points) for name, points in points_of.items()}


def line_name(name: str) -> str:
    """Return a row's line; `auto` may choose different methods along one line."""
    return "clhines auto" if name.startswith("clhines auto") else name


def title(kind: str) -> str:
    return {"chains": "Chains", "all different": "Trees, all different"}.get(
        kind, f"Trees of {kind}"
    )


def panel(axes: Any, rows: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    drawn = plot.lines(axes, lines(rows, kind))
    axes.set_title(title(kind))
    axes.xaxis.set_major_formatter(lambda v, _: f"{v:,.0f}")
    axes.xaxis.set_tick_params(labelbottom=True)
    return drawn


def draw(result: dict[str, Any], path: Path) -> None:
    dtype = result["rows"][0]["dtype"]
    rows = [r for r in result["rows"] if r["dtype"] == dtype]
    names = kinds(rows)
    with plot.picture(path) as figure:
        grid = plot.grid(figure, len(names), (4.4, 3.8), (3.9, 0.9), sharex=True, sharey=True)
        drawn: dict[str, Any] = {}
        for axes, kind in zip(grid, names):
            drawn |= panel(axes, rows, kind)
        plot.legend(figure, drawn)
        figure.supxlabel(f"number of cells, of {rows[0]['nodes']} nodes each")
        figure.supylabel(f"time of a solve, {dtype}")
        figure.suptitle(heading(result["record"], rows))


def heading(record: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    text = plot.device_name(record)
    if any(r["clock"] == "device" for r in rows):
        text += f"; C, Numba and SciPy on the {record['host_cores']} cores of its host"
    return text


# ----------------------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> None:
    parser = record.parser("peers", __doc__)
    add = parser.add_argument
    add("--cells", type=int, nargs="+", default=[1, 16, 256, 2560, 25600])
    add("--nodes", type=int, default=512)
    add("--branches", type=int, default=50)
    add("--shapes", nargs="+", default=["1", "64", "all"])
    add("--dtype", nargs="+", default=["float64", "float32"])
    add("--methods", nargs="+", default=["auto", *systems.METHODS])
    add("--budget", type=float, default=3.0, help="seconds of rounds a case of 12 solvers")
    args = parser.parse_args(arguments)
    systems.check_shapes(parser, args.shapes)
    queue = record.queue(args.device, args.dtype)
    rows: list[dict[str, Any]] = []
    missing: list[dict[str, Any]] = []
    for case in tqdm(cases(queue, args), disable=None):
        rows += time_case(case, args.methods, args.budget, missing)
    result = {"record": {"peers": host.versions()}, "rows": rows, "missing": missing}
    record.write("peers", queue, arguments, result, text, args.out, draw)
