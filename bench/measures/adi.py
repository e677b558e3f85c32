"""Time heat in a square plate by alternating directions, beside SciPy and LAPACK.

    python -m bench adi [--device SPEC] [--size 512] [--steps 100]

Each half step solves a tridiagonal system for each row of the plate, and then for each column. Each
line of the plate has its own conductivity, and so its own matrix, which is constant. In `one
matrix` the conductivity is the same everywhere. Seconds are for all steps and include the explicit
half steps in NumPy, which are the same for all methods; `explicit` is their time alone. The methods
take turns step by step, so that other load slows them alike; `least` is the number of steps times
the shortest step. Every plate is compared with LAPACK's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl
from tqdm import tqdm

import clhines
from bench import record, table
from bench.record import SEED

Solve = Callable[[np.ndarray], np.ndarray]  # right-hand sides as rows, (n, n)
ALONE = "explicit half steps alone"
NEAR = 1e-11  # temperatures are 0 to 1


def explicit(a: np.ndarray, r: np.ndarray) -> np.ndarray:
    out = a.copy()
    flow = r * (a[1:] - a[:-1])
    out[:-1] += flow
    out[1:] -= flow
    return out


def ways(queue: cl.CommandQueue, d: np.ndarray, off: np.ndarray, same: bool) -> dict[str, Solve]:
    """Return ways to solve for all plate rows; (n, n) and (n, n - 1), or `same` in all."""
    from scipy.linalg import lapack, solve_banded

    n = len(d)
    coupled = np.zeros((n, n))
    coupled[:, :-1] = off  # none from one row in the plate to the next
    main, between = d.reshape(-1), coupled.reshape(-1)[:-1]
    kept = lapack.dpttrf(main, between)[:2]
    bands = np.zeros((3, n * n))
    bands[0, 1:], bands[1], bands[2, :-1] = between, main, between
    calls: dict[str, Solve] = {}
    systems = clhines.Tridiagonal(np.full(n, n), queue=queue)
    factors = systems.factor(off, d, off)
    calls["clhines, factors"] = factors.solve
    calls["clhines, solve"] = lambda b: systems.solve(off, d, off, b)
    if same:
        one = clhines.Tridiagonal([n], queue=queue).factor(off[0], d[0], off[0])
        kept_one = lapack.dpttrf(d[0], off[0])[:2]
        calls["clhines, factors of one row"] = one.solve
        calls["LAPACK pttrs of one row"] = lambda b: lapack.dpttrs(*kept_one, b.T)[0].T
    calls["LAPACK pttrs"] = lambda b: lapack.dpttrs(*kept, b.reshape(-1))[0].reshape(n, n)
    calls["LAPACK ptsv"] = lambda b: lapack.dptsv(main, between, b.reshape(-1))[2].reshape(n, n)
    calls["SciPy solve_banded"] = lambda b: solve_banded((1, 1), bands, b.reshape(-1)).reshape(n, n)
    return calls


def measure(queue: cl.CommandQueue, n: int, steps: int, same: bool) -> list[dict[str, Any]]:
    rng = np.random.default_rng(SEED)
    r = np.full((n, 1), 0.8) if same else rng.uniform(0.4, 1.2, (n, 1))
    off = np.repeat(-r, n - 1, axis=1)
    d = np.ones((n, n))
    d[:, :-1] -= off
    d[:, 1:] -= off
    begin = (rng.random((n, n)) < 0.2).astype(float)
    solves = ways(queue, d, off, same)
    plates = {name: begin.copy() for name in solves}
    seconds: dict[str, list[float]] = {name: [] for name in (*solves, ALONE)}
    for _ in tqdm(range(steps + 1), disable=None):
        for name, solve in solves.items():
            start = time.perf_counter()
            heat = plates[name]
            for _ in range(2):  # rows, then columns
                heat = solve(np.ascontiguousarray(explicit(heat, r.T))).T
            plates[name] = heat
            seconds[name].append(time.perf_counter() - start)
        start = time.perf_counter()
        for _ in range(2):
            np.ascontiguousarray(explicit(begin, r.T))
        seconds[ALONE].append(time.perf_counter() - start)
    for name, plate in plates.items():
        worst = float(np.abs(plate - plates["LAPACK pttrs"]).max())
        if not worst < NEAR:
            sys.exit(f"{name}: {worst:.3g} from LAPACK: wrong")
    kind = {"matrix": "one matrix" if same else "a matrix for each row", "size": n, "steps": steps}
    rows = [
        {
            "name": name,
            **kind,
            "seconds": sum(each[1:]),
            "least_seconds": steps * min(each[1:]),
            "first_seconds": each[0],
        }
        for name, each in seconds.items()
    ]
    return sorted(rows, key=lambda row: row["seconds"])


def text(result: dict[str, Any]) -> str:
    head = f"{'matrix':<22} {'seconds':>8} {'least':>8} {'first step':>10}  way"
    lines = [
        f"{r['matrix']:<22} {r['seconds']:>8.3f} {r['least_seconds']:>8.3f} "
        f"{r['first_seconds']:>10.4f}  {r['name']}"
        for r in result["rows"]
    ]
    return table.ruled(head, lines, [r["matrix"] for r in result["rows"]])


def main(arguments: Sequence[str]) -> None:
    parser = record.parser("adi", __doc__)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args(arguments)
    queue = record.queue(args.device, ["float64"], False)
    rows = [row for same in (False, True) for row in measure(queue, args.size, args.steps, same)]
    record.write("adi", queue, arguments, {"rows": rows}, text, args.out)
