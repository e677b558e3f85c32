"""Time tridiagonal systems: `solve_tridiagonal`, a kept `Tridiagonal`, SciPy and LAPACK.

    python -m bench tridiagonal [--device SPEC] [--systems 1 100 1000 10000] [--rows 64]

Like is compared with like: `solve` with LAPACK's `gtsv` (`ptsv` for symmetric systems), SciPy's
`solve_banded`, and, if the dense matrices fit, SciPy's batched `solve`; kept factors with LAPACK's
`gttrs` (`pttrs`). SciPy and LAPACK solve all systems as one. `launch` is an empty kernel with its
wait: no call of a device can be faster. All calls of a row take turns, so that other load slows
them alike; SciPy's batched `solve` comes after them, because its matrices leave none of their
values in the caches. Times are the least wall time in microseconds; the JSON file also has medians.
`first` is the first call of `solve_tridiagonal`, which plans, loads kernels (perhaps from a cache)
and allocates. Every solution is compared with LAPACK's.

The second table has one symmetric matrix with many right-hand sides, in float64, from NumPy and
back; `written out` is the same as a batch of equal systems, `pttrs` LAPACK's kept factors for all
right-hand sides. `device` are the same calls with arrays on the device, and a wait.

On an NVIDIA GPU a third table has arrays on the device, between events: ours in natural order,
cuSPARSE's strided batch, and its interleaved one by each algorithm. The interleaved ones start with
interleaved values or, as `from natural order`, include the transposition that a user must do.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from tqdm import tqdm

import clhines
from bench import record, systems, table
from bench.measures import peers
from bench.measures.calls import Call, in_turns
from bench.peers import cuda
from bench.record import SEED
from bench.systems import Candidate, Case

CALLS = (
    "launch",
    "solve_tridiagonal",
    "Tridiagonal.solve",
    "LAPACK",
    "solve_banded",
    "scipy solve",
    "factors.solve",
    "LAPACK kept",
)
RIGHT_HAND_SIDES = (  # rows and right-hand sides for one matrix
    (64, 4096),
    (512, 512),
    (1000, 1000),
)
DENSE = 1 << 23  # entries in all matrices, up to which SciPy's batched `solve` is called
NEAR = {"float64": 1e-14, "float32": 1e-5}  # pivots are above 2: errors do not grow


def scipy_calls(dl: np.ndarray, d: np.ndarray, du: np.ndarray, b: np.ndarray) -> dict[str, Call]:
    """SciPy's and LAPACK's solvers on all systems as one; symmetric if `dl` is `du`."""
    import scipy
    from scipy import linalg

    off = np.zeros((2, *d.shape), d.dtype)  # lower and upper, in the rows at the other end
    off[0, :, :-1], off[1, :, 1:] = dl, du
    low, up = (a.reshape(-1) for a in off)
    main, rhs = d.reshape(-1), b.reshape(-1)
    bands = np.stack((up, main, low))
    names = ("gtsv", "gttrf", "gttrs", "ptsv", "pttrf", "pttrs")
    gtsv, gttrf, gttrs, ptsv, pttrf, pttrs = linalg.lapack.get_lapack_funcs(names, (d, b))
    calls: dict[str, Call] = {"solve_banded": lambda: linalg.solve_banded((1, 1), bands, rhs)}
    if dl is du:
        kept = pttrf(main, up[1:])[:2]
        calls |= {
            "LAPACK": lambda: ptsv(main, up[1:], rhs)[2],
            "LAPACK kept": lambda: pttrs(*kept, rhs)[0],
        }
    else:
        kept = gttrf(low[:-1], main, up[1:])[:5]
        calls |= {
            "LAPACK": lambda: gtsv(low[:-1], main, up[1:], rhs)[3],
            "LAPACK kept": lambda: gttrs(*kept, rhs)[0],
        }
    m, n = d.shape
    if m * n * n <= DENSE and tuple(map(int, scipy.__version__.split(".")[:2])) >= (1, 17):
        dense = np.zeros((m, n, n), d.dtype)
        k = np.arange(n)
        dense[:, k, k], dense[:, k[1:], k[:-1]], dense[:, k[:-1], k[1:]] = d, dl, du
        calls["scipy solve"] = lambda: linalg.solve(dense, b[..., None], assume_a="tridiagonal")
    return calls


def empty_launch(queue: cl.CommandQueue) -> Call:
    kernel = cl.Program(queue.context, "__kernel void nothing(int n) {}").build().nothing
    kernel.set_args(np.int32(1))

    def launch() -> None:
        cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,)).wait()

    return launch


def measure(queue: cl.CommandQueue, m: int, n: int, dtype: str, symmetric: bool) -> dict[str, Any]:
    rng = np.random.default_rng(SEED)
    dl, du = rng.uniform(-1, 1, (2, m, n - 1)).astype(dtype)
    dl = du if symmetric else dl
    d, b = rng.uniform(4, 5, (m, n)).astype(dtype), rng.uniform(-1, 1, (m, n)).astype(dtype)
    begin = time.perf_counter()
    clhines.solve_tridiagonal(dl, d, du, b, queue=queue)
    first = time.perf_counter() - begin
    kept = clhines.Tridiagonal(np.full(m, n), dtype=dtype, queue=queue)
    factors = kept.factor(dl, d, du)
    outs = np.empty_like(b), np.empty_like(b)
    calls: dict[str, Call] = {
        "launch": empty_launch(queue),
        "solve_tridiagonal": lambda: clhines.solve_tridiagonal(dl, d, du, b, queue=queue),
        "Tridiagonal.solve": lambda: kept.solve(dl, d, du, b, out=outs[0]),
        "factors.solve": lambda: factors.solve(b, out=outs[1]),
        **scipy_calls(dl, d, du, b),
    }
    solved = {k: np.asarray(call()).reshape(b.shape) for k, call in calls.items() if k != "launch"}
    for name, x in solved.items():
        worst = np.abs(x - solved["LAPACK"]).max()
        if not worst < NEAR[dtype]:
            sys.exit(f"{name}, {dtype}, {m} systems: {worst:.3g} from LAPACK: wrong, so not timed")
    dense = calls.pop("scipy solve", None)
    seconds = in_turns(calls)
    if dense is not None:
        seconds |= in_turns({"scipy solve": dense})
    return {
        "systems": m,
        "rows": n,
        "dtype": dtype,
        "matrix": "symmetric" if symmetric else "general",
        "method": kept.solver.plan.method,
        "first_seconds": first,
        "seconds": {name: min(some) for name, some in seconds.items()},
        "median_seconds": {name: float(np.median(some)) for name, some in seconds.items()},
    }


def measure_many(queue: cl.CommandQueue, n: int, k: int) -> dict[str, Any]:
    """One row: times for one matrix with k right-hand sides, and for k equal matrices."""
    from scipy.linalg import lapack

    rng = np.random.default_rng(SEED)
    off, d, b = rng.uniform(-1, 1, n - 1), rng.uniform(4, 5, n), rng.uniform(-1, 1, (k, n))
    kept, x = lapack.dpttrf(d, off)[:2], np.empty_like(b)
    calls: dict[str, Call] = {"pttrs": lambda: lapack.dpttrs(*kept, b.T)[0].T}

    def add(name: str, count: int) -> None:
        """Add the calls for `count` systems, which have all right-hand sides."""
        host = [off, d, off] if count == 1 else [np.tile(a, (count, 1)) for a in (off, d, off)]
        there, here = [cla.to_device(queue, a) for a in host], cla.to_device(queue, b)
        out = cla.empty_like(here)
        systems = clhines.Tridiagonal([n] * count, queue=queue)
        factors, far_factors = systems.factor(*host), systems.factor(*there)

        def waited(call: Call) -> np.ndarray:
            call()
            queue.finish()
            return x

        how = {"check": False, "out": out}
        calls[name + "solve"] = lambda: systems.solve(*host, b, out=x)
        calls[name + "factors"] = lambda: factors.solve(b, out=x)
        calls["device " + name + "solve"] = lambda: waited(
            lambda: systems.solve(*there, here, **how)
        )
        calls["device " + name + "factors"] = lambda: waited(lambda: far_factors.solve(here, **how))
        for each in ("solve", "factors"):
            x[...] = 0
            calls[name + each]()
            check(name + each, x)
            calls["device " + name + each]()
            check("device " + name + each, out.get())

    def check(name: str, solved: np.ndarray) -> None:
        worst = np.abs(solved - calls["pttrs"]()).max()
        if not worst < NEAR["float64"]:
            sys.exit(f"{name}, {n} rows: {worst:.3g} from LAPACK: wrong, so not timed")

    add("", 1)
    add("written out ", k)
    seconds = in_turns(calls)
    return {
        "rows": n,
        "right_hand_sides": k,
        "seconds": {name: min(some) for name, some in seconds.items()},
        "median_seconds": {name: float(np.median(some)) for name, some in seconds.items()},
    }


def natural(case: Case) -> Candidate:
    solver = clhines.Solver(case.forest, dtype=case.dtype, queue=case.queue)
    sets = list(case.on_device())
    out = [cla.empty_like(b) for *_, b in sets]

    def launch(k: int) -> float:
        d, u, b = sets[k % len(sets)]
        solver.solve(d, u, b, out=out[k % len(sets)], check=False)
        case.queue.finish()
        events = solver.kernel_events
        return (events[-1].profile.end - events[0].profile.start) * 1e-9

    name = "clhines, natural order"
    return Candidate(name, launch, lambda k: case.solution(out[k]), clock="device", solver=solver)


def measure_device(queue: cl.CommandQueue, m: int, n: int, dtype: str) -> list[dict[str, Any]]:
    """Time arrays on an NVIDIA GPU beside cuSPARSE; return no rows for other devices."""
    if "NVIDIA" not in queue.device.platform.name:
        return []
    forest = systems.chains(m, n)
    case = Case(queue, forest, "chains", np.dtype(dtype), systems.values(forest, dtype))

    def candidates() -> Iterator[Candidate]:
        yield peers.floor(case)
        yield natural(case)
        yield peers.own(case, "auto", "clhines, device order")
        yield from cuda.strided(case)
        for algorithm in cuda.ALGORITHMS:
            for reorders in (False, True):
                yield from cuda.interleaved(case, algorithm, reorders)

    missing: list[dict] = []
    rows = peers.time_all(case, candidates(), 2.0, missing)
    for one in missing:
        print(f"{one['name']}: {one['reason']}", file=sys.stderr)
    return [{**row, "systems": m, "rows": n} for row in rows]


def text(result: dict[str, Any]) -> str:
    head = f"{'systems':>7} {'rows':>4} {'dtype':<7} {'matrix':<9} {'first':>9}"
    head += "".join(f" {name:>17}" for name in CALLS) + "  method"
    lines = []
    for r in result["rows"]:
        line = f"{r['systems']:>7} {r['rows']:>4} {r['dtype']:<7} {r['matrix']:<9}"
        line += f" {r['first_seconds'] * 1e6:>9.0f}"
        seconds = (r["seconds"].get(name) for name in CALLS)
        line += "".join(f" {'-' if s is None else format(s * 1e6, '.0f'):>17}" for s in seconds)
        lines.append(f"{line}  {r['method']}")
    whole = table.ruled(head, lines, [r["dtype"] for r in result["rows"]])
    for r in result.get("many_rows", []):
        head = f"{r['right_hand_sides']} right-hand sides of one matrix of {r['rows']} rows, us"
        lines = [f"{s * 1e6:>9.1f}  {name}" for name, s in r["seconds"].items()]
        whole += f"\n\n{table.ruled(head, lines)}"
    if not result["device_rows"]:
        return whole
    head = f"{'systems':>7} {'rows':>4} {'dtype':<7} {'us':>9} {'x floor':>8}  solver"
    lines = [
        f"{r['systems']:>7} {r['rows']:>4} {r['dtype']:<7} {r['seconds'] * 1e6:>9.1f} "
        f"{r['x_floor']:>8.2f}  {r['name']}"
        for r in result["device_rows"]
    ]
    groups = [f"{r['systems']} {r['dtype']}" for r in result["device_rows"]]
    return f"{whole}\n\n{table.ruled(head, lines, groups)}"


def main(arguments: Sequence[str]) -> None:
    parser = record.parser("tridiagonal", __doc__)
    parser.add_argument("--systems", type=int, nargs="+", default=[1, 100, 1000, 10_000])
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--dtype", nargs="+", default=["float64", "float32"])
    args = parser.parse_args(arguments)
    queue = record.queue(args.device, args.dtype, False)
    cases = [(m, args.rows, t) for t in args.dtype for m in args.systems]
    kinds = [(*case, symmetric) for case in cases for symmetric in (False, True)]
    rows = [measure(queue, *kind) for kind in tqdm(kinds, disable=None)]
    sizes = RIGHT_HAND_SIDES if "float64" in args.dtype else ()
    many_rows = [measure_many(queue, *size) for size in sizes]
    timed = record.queue(args.device, args.dtype)
    device_rows = [row for case in cases for row in measure_device(timed, *case)]
    result = {"rows": rows, "many_rows": many_rows, "device_rows": device_rows}
    record.write("tridiagonal", queue, arguments, result, text, args.out)
