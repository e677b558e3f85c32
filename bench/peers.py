"""Time clhines beside other solvers, on the same systems and in the same run.

    python bench/peers.py [--device SPEC] [--cells 1 16 256 2560 25600] [--shapes 1 64 all]

The systems are trees of one shape, of 64 shapes and all different, and chains. Peers that are not
there get a line that says so. Every solution that is timed is checked. Writes the tables
``peers-<device>.json`` and ``.txt`` and, with matplotlib, the picture ``peers-<device>.svg``.
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "20000")  # idle OpenMP threads leave the cores to others

import common
import cuda_peers
import host_peers
import numpy as np
import plot
import pyopencl as cl
import pyopencl.array as cla
from common import Candidate, Case, MissingError
from tqdm import tqdm

import clhines
from clhines import reference
from clhines.device import devices, timing
from clhines.errors import ClhinesError, DeviceMemoryError

BOUND = 32  # largest componentwise backward error, in units of the dtype's eps
CACHED = 1 << 26  # bytes of d, u, b and x up to which caches are warmed before each timed run
CHECKED = 2_000_000  # nodes above which only the first solution of a case gets its residual
SLOW = 1.0  # s; what takes longer is run three times, not seven or more
FLOOR = "memory floor"

PEERS: dict[str, Callable[[Case], Iterable[Candidate]]] = {
    "cuSPARSE gtsv2StridedBatch": cuda_peers.strided,
    "cuSPARSE gtsvInterleavedBatch": cuda_peers.interleaved,
    "C, one thread": host_peers.c_serial,
    "C/OpenMP, equal trees in lanes": host_peers.c_equal,
    "C/OpenMP, any trees in lanes": host_peers.c_different,
    "Numba, one thread": host_peers.numba_serial,
    "Numba, prange": host_peers.numba_parallel,
    "SciPy, banded": host_peers.scipy_banded,
    "SciPy splu": host_peers.scipy_sparse,
    "Jaxley": host_peers.jaxley_tree,
}


def floor(case: Case) -> Candidate:
    """Return the kernel that reads three arrays and writes one, as a candidate."""

    def launch(k: int, repeats: int = 9) -> float:
        return timing.floor_seconds(case.queue, case.forest.num_nodes, case.dtype, repeats)

    if common.on_host(case.queue.device):  # its share of every round
        return Candidate(FLOOR, lambda k: launch(k, 1))
    return Candidate(FLOOR, launch, clock="device", most=1)


def own(case: Case, method: str, name: str = "", **options: Any) -> Candidate:
    """Return a method of clhines as a candidate, with values in device order.

    `options` may have ``reroot``, too.
    """
    queue = case.queue
    wall = common.on_host(queue.device)
    forest, options, couplings = common.rooted(case.forest, options)
    solver = clhines.Solver(forest, method, case.dtype, queue=queue, **options)
    sets = [tuple(solver.pack(a) for a in (d, couplings(u), b)) for d, u, b in case.sets]
    out = [cla.zeros_like(s[2]) for s in sets]
    queue.finish()

    def launch(k: int) -> float | None:
        solver.enqueue(*sets[k], out=out[k])
        queue.finish()
        events = solver.kernel_events
        return None if wall else (events[-1].profile.end - events[0].profile.start) * 1e-9

    chosen = f"auto ({solver.plan.method})" if method == "auto" else method
    return Candidate(
        name or f"clhines {chosen}",
        launch,
        lambda k: solver.unpack(out[k]).get(),
        clock="wall" if wall else "device",
    )


def candidates(case: Case, methods: list[str], missing: list[dict]) -> Iterator[Candidate]:
    """Give every solver that can run here; the others become entries of `missing`."""
    yield floor(case)
    refused = set(clhines.METHODS) - set(common.methods_for(case.forest))
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
    """Return the entry of a peer that could not be timed."""
    reason = str(error) if isinstance(error, MissingError) else f"{type(error).__name__}: {error}"
    return {"name": name, **about(case), "reason": (reason.splitlines() or ["no reason"])[0]}


def about(case: Case) -> dict[str, Any]:
    """Return what every row says of its case."""
    shapes = case.forest.trees.num_trees
    return {"kind": case.kind, "shapes": shapes, "cells": case.cells, "dtype": case.dtype.name}


def check(case: Case, candidate: Candidate, truth: dict[int, np.ndarray]) -> None:
    """Solve every set and look at the solution; `MissingError` where it is wrong.

    The error is the residual; in large batches that of the first solver only, and the largest
    difference from its solution for the others.
    """
    if candidate.result is None:
        return
    errors = []
    for k, values in enumerate(case.sets):
        candidate.run(k)
        x = candidate.result(k)
        if k in truth and x.size > CHECKED:
            errors.append(float(np.max(np.abs(x - truth[k])) / np.max(np.abs(truth[k]))))
        else:
            errors.append(reference.residual(case.forest, *values, x))
            truth.setdefault(k, np.array(x))
    candidate.error = float(np.max(errors))
    bound = BOUND * np.finfo(case.dtype).eps
    if not candidate.error < bound:
        raise MissingError(f"wrong, so not timed: error {candidate.error:.3g}, bound {bound:.3g}")


def checked(case: Case, found: Iterable[Candidate], missing: list[dict]) -> Iterator[Candidate]:
    """Pass on the solvers that are right; a wrong method of clhines ends the run."""
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
    """Time a group of solvers in rounds, so that noise hits all alike."""
    turns = len(case.sets)
    first = [c.run(0) for c in group]
    rounds = int(np.clip(budget / sum(first), 7, 25))
    most = [min(rounds, c.most, 3 if t > SLOW else rounds) for c, t in zip(group, first)]
    small = 4 * case.sets[0][0].nbytes < CACHED
    for r in range(rounds):
        for candidate in (c for c, n in zip(group, most) if r < n):
            if small and candidate.result is not None:
                candidate.run((r + 1) % turns)
            candidate.seconds.append(candidate.run(r % turns))


def time_case(case: Case, methods: list[str], budget: float, missing: list[dict]) -> list[dict]:
    """Return a row for each solver of one case, fastest first.

    On a CPU all solvers take turns; on other devices one comes after another, so that only one
    has its arrays on the device.
    """
    return time_all(case, candidates(case, methods, missing), budget, missing)


def time_all(
    case: Case, given: Iterable[Candidate], budget: float, missing: list[dict]
) -> list[dict]:
    """Return a row for each of the given solvers, among them the floor, fastest first."""
    found = checked(case, given, missing)
    groups = [list(found)] if common.on_host(case.queue.device) else ([c] for c in found)
    rows = []
    for group in groups:
        interleave(case, group, budget * len(group) / 12)
        rows += [row(case, candidate) for candidate in group]
    floor_seconds = next(r["seconds"] for r in rows if r["name"] == FLOOR)
    for each in rows:
        each["x_floor"] = each["seconds"] / floor_seconds
    return sorted(rows, key=lambda r: r["seconds"])


def row(case: Case, candidate: Candidate) -> dict[str, Any]:
    """Return one line of the results."""
    taken = candidate.seconds
    return {
        "name": candidate.name,
        **about(case),
        "nodes": case.nodes,
        "clock": candidate.clock,
        "seconds": float(np.median(taken)),
        "best_seconds": min(taken),
        "rounds": len(taken),
        "error": candidate.error,
    }


def cases(queue: cl.CommandQueue, args: argparse.Namespace) -> Iterator[Case]:
    """Give every batch once: one cell has one shape, however many were asked for."""
    for cells in args.cells:
        counts = [cells if s == "all" else min(int(s), cells) for s in args.shapes]
        for shapes in [*dict.fromkeys(counts), 0]:
            if shapes:
                forest = common.batch(cells, args.nodes, args.branches, shapes)
            else:
                forest = common.chains(cells, args.nodes)
            for dtype in args.dtype:
                yield Case(
                    queue, forest, kind(shapes, cells), np.dtype(dtype), values(forest, dtype)
                )


def kind(shapes: int, cells: int) -> str:
    """Name the systems of a case."""
    if not shapes:
        return "chains"
    if shapes == 1:
        return "1 shape"
    return "all different" if shapes == cells else f"{shapes} shapes"


def values(forest: clhines.Forest, dtype: str) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return two sets of d, u, b that take turns, or one where it is far above any cache."""
    size = timing.FLOOR_ARRAYS * forest.num_nodes * np.dtype(dtype).itemsize
    sets = [common.system(forest, common.SEED + k) for k in range(2 if size < 1 << 29 else 1)]
    for _, u, _ in sets:
        u[forest.parent < 0] = 0
    return [(d.astype(dtype), u.astype(dtype), b.astype(dtype)) for d, u, b in sets]


def table(rows: list[dict[str, Any]], missing: list[dict[str, Any]]) -> str:
    """Return the rows as text, at most 100 columns wide, and then what is missing."""
    head = (
        f"{'cells':>6} {'systems':<13} {'dtype':<7} {'solver':<37} {'clock':<6} {'us':>9} "
        f"{'x floor':>7} {'ns/node':>8}"
    )
    lines = [head, "-" * len(head)]
    last = None
    for r in rows:
        key = r["cells"], r["kind"], r["dtype"]
        lines += [""] if last not in (None, key) else []
        last = key
        lines.append(
            f"{r['cells']:>6} {r['kind']:<13} {r['dtype']:<7} {r['name']:<37} {r['clock']:<6} "
            f"{common.narrow(r['seconds'] * 1e6, 9, 1)} {common.narrow(r['x_floor'], 7, 2)} "
            f"{common.narrow(r['seconds'] / r['cells'] / r['nodes'] * 1e9, 8, 3)}"
        )
    return "\n".join([*lines, "", *missing_lines(missing)])


def missing_lines(missing: list[dict[str, Any]]) -> list[str]:
    """Return an entry for each peer and reason, with the cases that it holds for."""
    where: dict[tuple[str, str], list[str]] = {}
    for m in missing:
        text = f"{m['cells']} cells ({m['kind']}, {m['dtype']})"
        where.setdefault((m["name"], m["reason"]), []).append(text)
    lines = []
    for (name, reason), at in where.items():
        more = f" and {len(at) - 1} more" if len(at) > 1 else ""
        text = f"missing: {name}: {reason}; {at[0]}{more}"
        lines += textwrap.wrap(text, 100, subsequent_indent="  ")
    return lines


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device")
    parser.add_argument("--cells", type=int, nargs="+", default=[1, 16, 256, 2560, 25600])
    parser.add_argument("--nodes", type=int, default=512)
    parser.add_argument("--branches", type=int, default=50)
    parser.add_argument("--shapes", nargs="+", default=["1", "64", "all"])
    parser.add_argument("--dtype", nargs="+", default=["float64", "float32"])
    parser.add_argument("--methods", nargs="+", default=["auto", *common.METHODS])
    parser.add_argument(
        "--budget", type=float, default=3.0, help="seconds of rounds a case of 12 solvers"
    )
    parser.add_argument("--out", default=str(common.RESULTS))
    args = parser.parse_args()
    for s in args.shapes:
        if s != "all" and not (s.isdigit() and int(s)):
            parser.error(f"--shapes {s}: expected a whole number of 1 or more, or all")
    return args


def main() -> None:
    """Run all cases and write the tables and the picture."""
    args = arguments()
    needed = np.float64 if "float64" in args.dtype else np.float32
    rows: list[dict[str, Any]] = []
    missing: list[dict[str, Any]] = []
    try:
        queue = devices.make_queue(devices.choose(args.device, needed))
        for case in tqdm(cases(queue, args), disable=None):
            rows += time_case(case, args.methods, args.budget, missing)
    except ClhinesError as error:
        sys.exit(f"peers.py: {error}")
    record = common.record(queue, common.command_line())
    record["peers"] = host_peers.versions()
    result = {"record": record, "rows": rows, "missing": missing}
    common.write("peers", queue, result, table(rows, missing), args.out, plot.draw)


if __name__ == "__main__":
    main()
