"""Time calls with NumPy arrays on a kept solver, beside enqueue and wait, and SciPy.

    python -m bench calls [--device SPEC] [--cells 1 256 2560] [--nodes 512] [--out FOLDER]

Systems are trees with 64 shapes, and chains. All calls of a row take turns, so that other load
slows them alike. Times are the least wall time in microseconds; the JSON file also has medians. The
aim is 1.5 times `+ wait` on a CPU, which can read the host's arrays in place, and 1.5 times (`+
wait` + bus) + 20 us elsewhere. Every timed solution is checked.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from tqdm import tqdm

import clhines
from bench import record, systems, table
from clhines.solver import reference
from clhines.solver.device import copies

CALLS = ("solve", "solve out", "factor", "f.solve", "f.solve out")
PEERS = ("solve_banded", "ptsv")
FACTOR, LATENCY = 1.5, 20e-6  # terms in the aim
LEAST, MOST, SECONDS = 15, 300, 4.0  # rounds, and time for one row
Call = Callable[[], object]


def in_turns(calls: dict[str, Call]) -> dict[str, list[float]]:
    """Wall times for calls that take turns [s]; a call may return its own time."""
    for call in calls.values():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + SECONDS
    while len(seconds[next(iter(calls))]) < LEAST or (
        time.perf_counter() < end and len(seconds[next(iter(calls))]) < MOST
    ):
        for name, call in calls.items():
            begin = time.perf_counter()
            outcome = call()
            wall = time.perf_counter() - begin
            seconds[name].append(outcome if isinstance(outcome, float) else wall)
            del outcome  # before the next call makes a result
    return seconds


def in_device_order(solver: clhines.Solver, d: Any, u: Any, b: Any) -> dict[str, Call]:
    """Return the calls `enqueue`, until it returns, and `wait`, until it is done."""
    queue = solver.queue
    packed = [solver.to_device_order(a) for a in (d, u, b)]
    out = cla.zeros_like(packed[2])

    def enqueue() -> float:
        begin = time.perf_counter()
        solver.enqueue(*packed, out=out)
        seconds = time.perf_counter() - begin
        queue.finish()
        return seconds

    def wait() -> None:
        solver.enqueue(*packed, out=out)
        queue.finish()

    return {"enqueue": enqueue, "wait": wait}


def bus(queue: cl.CommandQueue, size: int) -> dict[str, Call]:
    """Return calls that write and read the bytes that each solver call moves, in pinned memory."""
    flags = cl.mem_flags
    both, pinned = cl.map_flags.READ | cl.map_flags.WRITE, []
    pairs = []
    for _ in range(4):
        host = cl.Buffer(queue.context, flags.READ_WRITE | flags.ALLOC_HOST_PTR, size)
        pinned.append(host)
        piece, _ = cl.enqueue_map_buffer(queue, host, both, 0, (size,), np.uint8)
        piece[:] = 1
        pairs.append((piece, cl.Buffer(queue.context, flags.READ_WRITE, size)))

    def moves(writes: int, reads: int) -> Call:
        def move(keep: Any = pinned) -> None:
            events = []  # dropping one would wait for it
            for piece, buffer in pairs[:writes]:
                events.append(cl.enqueue_copy(queue, buffer, piece, is_blocking=False))
            for piece, buffer in pairs[3 : 3 + reads]:
                events.append(cl.enqueue_copy(queue, piece, buffer, is_blocking=False))
            queue.finish()

        return move

    return {"bus solve": moves(3, 1), "bus factor": moves(2, 0), "bus f.solve": moves(1, 1)}


def scipy_calls(d: np.ndarray, u: np.ndarray, b: np.ndarray) -> dict[str, Call]:
    """SciPy's solvers on the chains as one tridiagonal matrix; empty without SciPy."""
    try:
        from scipy.linalg import lapack, solve_banded
    except ImportError:
        return {}
    off = np.ascontiguousarray(u[1:])
    bands = np.stack((np.append(0, off), d, np.append(off, 0))).astype(d.dtype)
    ptsv = lapack.get_lapack_funcs(("ptsv",), (d, b))[0]
    return {
        "solve_banded": lambda: solve_banded((1, 1), bands, b),
        "ptsv": lambda: ptsv(d, off, b),
    }


def measure(
    queue: cl.CommandQueue, forest: clhines.Forest, kind: str, dtype: str
) -> dict[str, Any]:
    d, u, b = systems.values(forest, dtype)[0]
    solver = clhines.Solver(forest, dtype=dtype, queue=queue)
    out, factors = np.empty_like(b), solver.factor(d, u)
    solved = {
        "solve": solver.solve(d, u, b),
        "solve out": solver.solve(d, u, b, out=out).copy(),
        "f.solve": factors.solve(b),
        "f.solve out": factors.solve(b, out=out).copy(),
    }
    for name, x in solved.items():
        worst = reference.residual(forest, d, u, b, x)
        if not worst < systems.TOLERANCE[dtype]:
            sys.exit(f"{name}, {dtype}, {forest}: residual {worst:.3g}: wrong, so not timed")

    calls: dict[str, Call] = in_device_order(solver, d, u, b)
    calls |= {
        "solve": lambda: solver.solve(d, u, b),
        "solve out": lambda: solver.solve(d, u, b, out=out),
        "factor": lambda: solver.factor(d, u),
        "f.solve": lambda: factors.solve(b),
        "f.solve out": lambda: factors.solve(b, out=out),
    }
    apart = not copies.shares_memory(queue.device)
    calls |= bus(queue, b.nbytes) if apart else {}
    calls |= scipy_calls(d, u, b) if kind == "chains" else {}
    seconds = in_turns(calls)
    times = {name: min(some) for name, some in seconds.items()}
    aims = {}
    for name in CALLS:
        carried = times[f"bus {name.removesuffix(' out')}"] + LATENCY / FACTOR if apart else 0.0
        aims[name] = FACTOR * (times["wait"] + carried)
    return {
        "kind": kind,
        "cells": forest.num_cells,
        "nodes": forest.num_nodes,
        "dtype": dtype,
        "method": solver.plan.method,
        "seconds": times,
        "median_seconds": {name: float(np.median(some)) for name, some in seconds.items()},
        "aim_seconds": aims,
        "times_aim": {name: times[name] / aims[name] for name in CALLS},
    }


def text(result: dict[str, Any]) -> str:
    heads = ("enq", "+wait", "bus", "solve", "out=", "factor", "f.solve", "out=", "banded", "ptsv")
    names = ("enqueue", "wait", "bus solve", *CALLS, *PEERS)
    head = f"{'kind':<6} {'cells':>5} {'dtype':<7}" + "".join(f" {h:>7}" for h in heads)
    lines = []
    for r in result["rows"]:
        line = f"{r['kind']:<6} {r['cells']:>5} {r['dtype']:<7}"
        for name in names:
            seconds = r["seconds"].get(name)
            line += " " + (f"{'-':>7}" if seconds is None else table.narrow(seconds * 1e6, 7, 0))
        lines.append(line)
    parts = [table.ruled(head, lines, [r["kind"] for r in result["rows"]]), ""]
    head = f"{'x aim':<6} {'cells':>5} {'dtype':<7} {'method':<17}"
    head += "".join(f" {name:>11}" for name in CALLS)
    lines = []
    for r in result["rows"]:
        line = f"{r['kind']:<6} {r['cells']:>5} {r['dtype']:<7} {r['method']:<17}"
        lines.append(line + "".join(f" {r['times_aim'][name]:>11.2f}" for name in CALLS))
    parts.append(table.ruled(head, lines, [r["kind"] for r in result["rows"]]))
    if any("ptsv" not in r["seconds"] for r in result["rows"] if r["kind"] == "chains"):
        parts += ["", "missing: SciPy"]
    return "\n".join(parts)


def main(arguments: Sequence[str]) -> None:
    parser = record.parser("calls", __doc__)
    parser.add_argument("--cells", type=int, nargs="+", default=[1, 256, 2560])
    parser.add_argument("--nodes", type=int, default=512)
    parser.add_argument("--branches", type=int, default=50)
    parser.add_argument("--dtype", nargs="+", default=["float64", "float32"])
    args = parser.parse_args(arguments)
    queue = record.queue(args.device, args.dtype, False)
    rows = []
    cases = [(k, t, c) for k in ("trees", "chains") for t in args.dtype for c in args.cells]
    for kind, dtype, cells in tqdm(cases, disable=None):
        if kind == "trees":
            forest = systems.batch(cells, args.nodes, args.branches)
        else:
            forest = systems.chains(cells, args.nodes)
        rows.append(measure(queue, forest, kind, dtype))
    record.write("calls", queue, arguments, {"rows": rows}, text, args.out)
