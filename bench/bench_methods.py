"""Run every method on one mix of reconstructed cells, and compare with the reference.

    python bench/bench_methods.py [--device SPEC] [--morphologies FOLDER] [--nodes 1e6] [--out F]

The mix is all SWC files of a folder (else the sample cells of the package), a node a sample,
repeated and shuffled. Methods that take chains only get chains of the same sizes, which the
column `systems` says. `error` is the largest difference from the reference in float64 over the
largest value of the solution, `residual` the largest row-wise backward error, `extra` the device
memory beyond d, u, b and x in natural order, index tables and padding included.
"""

from __future__ import annotations

import argparse
from typing import Any

import common
import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from tqdm import tqdm

import clhines
from clhines import device as devices
from clhines import morphology, reference, tune
from clhines.errors import ClhinesError


def chains_of_the_sizes(forest: clhines.Forest) -> clhines.Forest:
    """Return a chain for every cell, of as many nodes."""
    sizes, which = np.unique(forest.sizes, return_inverse=True)
    parents = [morphology.chain(int(n)) for n in sizes]
    return clhines.Forest.from_cells([parents[k] for k in which])


def time_method(
    queue: cl.CommandQueue, forest: clhines.Forest, method: str, dtype: str
) -> dict[str, Any]:
    """One row of the table."""
    solver = clhines.Solver(forest, method, dtype, queue=queue)
    systems = [[a.astype(dtype) for a in common.system(forest, common.SEED + k)] for k in (0, 1)]
    sets = [[solver.pack(a) for a in arrays] for arrays in systems]
    out = [cla.zeros_like(s[2]) for s in sets]
    queue.finish()

    def launch(k: int) -> list[cl.Event]:
        solver.enqueue(*sets[k % 2], out[k % 2])
        return solver.kernel_events

    seconds = tune.median_seconds(queue, launch)
    x, truth = solver.unpack(out[0]).get(), reference.solve_serial(forest, *systems[0])
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
        "residual": reference.residual(forest, *systems[0], x),
        "extra_bytes": solver.plan.bytes_needed(itemsize, 4 + solver.plan.needs_factor) - plain,
    }


def rows_of(
    queue: cl.CommandQueue, forest: clhines.Forest, dtypes: list[str], methods: list[str]
) -> list[dict[str, Any]]:
    """All methods, on chains of the same sizes where they take nothing else."""
    rows = []
    chains = chains_of_the_sizes(forest)
    for dtype in dtypes:
        floor = tune.floor_seconds(queue, forest.num_nodes, dtype)
        for method in tqdm(methods, dtype, disable=None):
            known = clhines.METHODS.get(method)
            systems = "chains" if known and known.chains_only else "cells"
            row = time_method(queue, chains if systems == "chains" else forest, method, dtype)
            good = row["residual"] < common.TOLERANCE[dtype]
            rows.append(
                {"systems": systems, **row, "x_floor": row["seconds"] / floor, "good": good}
            )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as text, at most 100 columns wide."""
    head = (
        f"{'method':<18} {'dtype':<7} {'systems':<7} {'kernels':>7} {'solve us':>10} "
        f"{'x floor':>8} {'error':>9} {'residual':>9} {'extra B/node':>12} good"
    )
    lines = []
    for r in rows:
        lines.append(
            f"{r['method']:<18} {r['dtype']:<7} {r['systems']:<7} {r['kernels']:>7} "
            f"{r['seconds'] * 1e6:>10.1f} {r['x_floor']:>8.2f} {r['error']:>9.1e} "
            f"{r['residual']:>9.1e} {r['extra_bytes'] / r['nodes']:>12.1f} "
            f"{'yes' if r['good'] else 'NO'}"
        )
    return common.ruled(head, lines)


def main() -> int:
    """Run the methods and write ``methods-<device>.json`` and ``.txt``; 1 where one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device")
    parser.add_argument("--morphologies", help="folder of SWC files")
    parser.add_argument("--nodes", type=float, default=1e6)
    parser.add_argument("--dtype", nargs="+", default=["float64", "float32"])
    parser.add_argument("--methods", nargs="+", default=["auto", *clhines.METHODS])
    parser.add_argument("--out", default=str(common.RESULTS))
    args = parser.parse_args()
    try:
        forest = common.real_mix(args.morphologies, args.nodes)
        needed = np.float64 if "float64" in args.dtype else np.float32
        queue = devices.make_queue(devices.choose(args.device, needed))
        rows = rows_of(queue, forest, args.dtype, args.methods)
    except ClhinesError as error:
        raise SystemExit(f"bench_methods.py: {error}") from error
    result = {"record": common.record(queue, common.command_line()), "rows": rows}
    common.write("methods", queue, result, table(rows), args.out)
    return 0 if all(row["good"] for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
