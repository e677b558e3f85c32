"""Time tridiagonal systems: `solve_tridiagonal`, a kept `Tridiagonal`, and SciPy.

    python -m bench tridiagonal [--device SPEC] [--systems 1 100 1000 10000] [--rows 64]

dl, d and du are as in LAPACK, (m, n - 1) and (m, n). SciPy's `solve_banded` solves all systems as
one, with bands that are there already; LAPACK's `gtsv` is called through SciPy. All calls of a row
take turns, so that other load slows them alike; times are the least of wall time in microseconds,
medians are beside them in the JSON file. `first` is the first call of `solve_tridiagonal`, which
plans, loads kernels and allocates; kernels may be in a cache. Every solution is compared with
SciPy's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl
from tqdm import tqdm

import clhines
from bench import record, table
from bench.measures.calls import Call, in_turns
from bench.record import SEED

CALLS = ("solve_tridiagonal", "Tridiagonal.solve", "factors.solve", "solve_banded", "gtsv")
NEAR = {"float64": 1e-14, "float32": 1e-5}  # pivots are above 2: errors do not grow


def scipy_calls(dl: np.ndarray, d: np.ndarray, du: np.ndarray, b: np.ndarray) -> dict[str, Call]:
    """SciPy's solvers on all systems as one."""
    from scipy.linalg import lapack, solve_banded

    off = np.zeros((2, *d.shape), d.dtype)  # lower and upper, in the rows of the other end
    off[0, :, :-1], off[1, :, 1:] = dl, du
    low, up = (a.reshape(-1) for a in off)
    main, rhs = d.reshape(-1), b.reshape(-1)
    bands = np.stack((up, main, low))
    gtsv = lapack.get_lapack_funcs(("gtsv",), (d, b))[0]
    return {
        "solve_banded": lambda: solve_banded((1, 1), bands, rhs),
        "gtsv": lambda: gtsv(low[:-1], main, up[1:], rhs)[3],
    }


def measure(queue: cl.CommandQueue, m: int, n: int, dtype: str) -> dict[str, Any]:
    """One row: times of all calls on m systems of n rows."""
    rng = np.random.default_rng(SEED)
    dl, du = rng.uniform(-1, 1, (2, m, n - 1)).astype(dtype)
    d, b = rng.uniform(4, 5, (m, n)).astype(dtype), rng.uniform(-1, 1, (m, n)).astype(dtype)
    begin = time.perf_counter()
    clhines.solve_tridiagonal(dl, d, du, b, queue=queue)
    first = time.perf_counter() - begin
    kept = clhines.Tridiagonal(np.full(m, n), dtype=dtype, queue=queue)
    factors = kept.factor(dl, d, du)
    outs = np.empty_like(b), np.empty_like(b)
    calls: dict[str, Call] = {
        "solve_tridiagonal": lambda: clhines.solve_tridiagonal(dl, d, du, b, queue=queue),
        "Tridiagonal.solve": lambda: kept.solve(dl, d, du, b, out=outs[0]),
        "factors.solve": lambda: factors.solve(b, out=outs[1]),
        **scipy_calls(dl, d, du, b),
    }
    solved = {name: np.asarray(call()).reshape(b.shape) for name, call in calls.items()}
    for name, x in solved.items():
        worst = np.abs(x - solved["gtsv"]).max()
        if not worst < NEAR[dtype]:
            sys.exit(f"{name}, {dtype}, {m} systems: {worst:.3g} from SciPy: wrong, so not timed")
    taken = in_turns(calls)
    return {
        "systems": m,
        "rows": n,
        "dtype": dtype,
        "method": kept.solver.plan.method,
        "first_seconds": first,
        "seconds": {name: min(some) for name, some in taken.items()},
        "median_seconds": {name: float(np.median(some)) for name, some in taken.items()},
    }


def text(result: dict[str, Any]) -> str:
    """Return the rows as text, in microseconds."""
    head = f"{'systems':>7} {'rows':>4} {'dtype':<7} {'first':>9}"
    head += "".join(f" {name:>17}" for name in CALLS) + "  method"
    lines = []
    for r in result["rows"]:
        line = f"{r['systems']:>7} {r['rows']:>4} {r['dtype']:<7} {r['first_seconds'] * 1e6:>9.0f}"
        line += "".join(f" {r['seconds'][name] * 1e6:>17.0f}" for name in CALLS)
        lines.append(f"{line}  {r['method']}")
    return table.ruled(head, lines, [r["dtype"] for r in result["rows"]])


def main(arguments: Sequence[str]) -> None:
    """Run the cases and write ``tridiagonal-<device>.json`` and ``.txt``."""
    parser = record.parser("tridiagonal", __doc__)
    parser.add_argument("--systems", type=int, nargs="+", default=[1, 100, 1000, 10_000])
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--dtype", nargs="+", default=["float64", "float32"])
    args = parser.parse_args(arguments)
    queue = record.queue(args.device, args.dtype, False)
    cases = [(m, t) for t in args.dtype for m in args.systems]
    rows = [measure(queue, m, args.rows, t) for m, t in tqdm(cases, disable=None)]
    result = {"record": record.record(queue, "tridiagonal", arguments), "rows": rows}
    record.write("tridiagonal", queue, result, text(result), args.out)
