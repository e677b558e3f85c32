"""Time every method on one mix of reconstructed cells, and compare with the reference.

    python -m bench methods [--device SPEC] [--morphologies FOLDER] [--nodes 1e6] [--out F]

The mix is all SWC files of a folder (else the sample cells of the package), a node a sample,
repeated and shuffled. Methods that take chains only get chains of the same sizes, which the
column `systems` says. `error` is the largest difference from the reference in float64 over the
largest value of the solution, `residual` the largest componentwise backward error, `extra` the
device memory beyond d, u, b and x in natural order, index tables and padding included.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl
from tqdm import tqdm

import clhines
from bench import made as shapes
from bench import record, systems, table
from clhines import reference
from clhines.device import timing


def chains_of_the_sizes(forest: clhines.Forest) -> clhines.Forest:
    """Return a chain for every cell, of as many nodes."""
    sizes, which = np.unique(forest.sizes, return_inverse=True)
    parents = [shapes.chain(int(n)) for n in sizes]
    return clhines.Forest.from_parents([parents[k] for k in which])


def time_method(solver: clhines.Solver, method: str, dtype: str) -> dict[str, Any]:
    """One row of the table."""
    forest = solver.forest
    values = [[a.astype(dtype) for a in systems.system(forest, record.SEED + k)] for k in (0, 1)]
    launch, result = systems.in_device_order(solver, values)
    seconds = timing.median_seconds(solver.queue, launch)
    x, truth = result(0), reference.solve_serial(forest, *values[0])
    itemsize = np.dtype(dtype).itemsize
    plain = 4 * forest.num_nodes * itemsize
    return {
        "method": method,
        "dtype": dtype,
        "cells": forest.num_cells,
        "nodes": forest.num_nodes,
        "kernels": len(solver.plan.parts),
        "seconds": seconds,
        "error": float(np.abs(x - truth).max() / np.abs(truth).max()),
        "residual": reference.residual(forest, *values[0], x),
        "extra_bytes": solver.plan.bytes_needed(itemsize, 4 + solver.plan.needs_factor) - plain,
    }


def rows_of(
    queue: cl.CommandQueue, forest: clhines.Forest, dtypes: list[str], methods: list[str]
) -> list[dict[str, Any]]:
    """All methods, on chains of the same sizes where they take nothing else."""
    rows = []
    chains = chains_of_the_sizes(forest)
    for dtype in dtypes:
        floor = timing.floor_seconds(queue, forest.num_nodes, dtype)
        for method in tqdm(methods, dtype, disable=None):
            known = clhines.METHODS.get(method)
            kind = "chains" if known and known.chains_only else "cells"
            cells = chains if kind == "chains" else forest
            solver = clhines.Solver(cells, method, dtype, queue=queue)
            row = time_method(solver, method, dtype)
            good = row["residual"] < systems.TOLERANCE[dtype]
            rows.append({"systems": kind, **row, "x_floor": row["seconds"] / floor, "good": good})
    return rows


def text(result: dict[str, Any]) -> str:
    """Return the rows as text."""
    head = (
        f"{'method':<18} {'dtype':<7} {'systems':<7} {'kernels':>7} {'solve us':>10} "
        f"{'x floor':>8} {'error':>9} {'residual':>9} {'extra B/node':>12} good"
    )
    lines = []
    for r in result["rows"]:
        lines.append(
            f"{r['method']:<18} {r['dtype']:<7} {r['systems']:<7} {r['kernels']:>7} "
            f"{r['seconds'] * 1e6:>10.1f} {r['x_floor']:>8.2f} {r['error']:>9.1e} "
            f"{r['residual']:>9.1e} {r['extra_bytes'] / r['nodes']:>12.1f} "
            f"{table.verdict(r['good'])}"
        )
    return table.ruled(head, lines)


def mix(
    args: argparse.Namespace, make: Callable[[cl.CommandQueue, clhines.Forest], list[dict]]
) -> tuple[cl.CommandQueue, list[dict[str, Any]]]:
    """Return the queue, and the rows of the mix that is asked for."""
    queue = record.queue(args.device, args.dtype)
    return queue, make(queue, systems.real_mix(args.morphologies, args.nodes))


def parser(name: str, doc: str) -> argparse.ArgumentParser:
    """Return the parser of a measure of the mix."""
    found = record.parser(name, doc)
    found.add_argument("--morphologies", metavar="FOLDER", help="of SWC files")
    found.add_argument("--nodes", type=float, default=1e6)
    found.add_argument("--dtype", nargs="+", default=["float64", "float32"])
    return found


def main(arguments: Sequence[str]) -> int:
    """Write ``methods-<device>.*``; 1 where a solution is wrong."""
    asked = parser("methods", __doc__)
    asked.add_argument("--methods", nargs="+", default=["auto", *clhines.METHODS])
    args = asked.parse_args(arguments)
    queue, rows = mix(args, lambda q, forest: rows_of(q, forest, args.dtype, args.methods))
    result = {"record": record.record(queue, "methods", arguments), "rows": rows}
    record.write("methods", queue, result, text(result), args.out)
    return 0 if all(row["good"] for row in rows) else 1
