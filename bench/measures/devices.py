"""Time several devices beside one, and batches beyond memory beside their copies.

    python -m bench devices [--device SPEC --device SPEC] [--cells 102400 409600]

*Devices*: cells of 64 random trees on one device and on the first two, three ... of the list; in
device order, one solve after another without waiting (`stream`) and one by one (`single`), and from
NumPy to NumPy. *Slices*: the largest batch with a limit of a part of its size, with and without the
solves, and the solves without the copies.

Without ``--device`` it takes all GPUs of the first platform that has any; without a GPU, a CPU in
two parts (sub-devices), which only shows that it works: PoCL gives both all cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

import clhines
from bench import record, systems, table
from bench.made import random_binary_tree
from clhines.solver import reference
from clhines.solver.device import copies as device_copies
from clhines.solver.device import devices

SHAPES = 64
SLICED_ROUNDS = 7
NAMES = ("d", "u", "b")


def find_queues(specs: Sequence[str] | None) -> list[cl.CommandQueue]:
    """Return queues on the devices named, or else found; see above."""
    if specs:
        return [devices.make_queue(devices.choose(spec, np.float32)) for spec in specs]
    real = [d for _, d in devices.all_devices() if not devices.is_simulator(d)]
    gpus = [d for d in real if not devices.is_cpu(d)]
    if gpus:
        same = [d for d in gpus if d.platform == gpus[0].platform]
        return [devices.make_queue(d) for d in same]
    parts = real[0].create_sub_devices([cl.device_partition_property.EQUALLY, 1])
    return [devices.make_queue(part) for part in parts[:2]]


class Case:
    """The same `SHAPES` cells again and again, with the same values."""

    def __init__(self, cells: int, nodes: int, branches: int, dtype: str) -> None:
        trees = [random_binary_tree(nodes, branches, record.SEED + k) for k in range(SHAPES)]
        once = clhines.Forest.from_parents(trees)
        self.times, self.dtype = max(1, cells // SHAPES), np.dtype(dtype)
        shift = np.arange(self.times, dtype=np.int64)[:, None] * once.num_nodes
        parent = np.where(once.parent < 0, -1, once.parent + shift)
        offsets = np.arange(self.times * SHAPES + 1, dtype=np.int64) * nodes
        self.forest = clhines.Forest(parent.reshape(-1).astype(np.int32), offsets)
        values = [a.astype(dtype) for a in systems.system(once)]
        self.truth = reference.solve_serial(once, *values)
        self.arrays = {n: np.tile(a, self.times) for n, a in zip(NAMES, values, strict=True)}
        self.out = np.ones_like(self.arrays["b"])  # its pages are there before the clock runs

    def error(self, x: np.ndarray) -> float:
        """Largest difference from the reference over the largest value, over all cells."""
        worst = max(np.abs(row - self.truth).max() for row in x.reshape(self.times, -1))
        return float(worst / np.abs(self.truth).max())


def wall(work: Callable[[], Any], repeats: int, warmup: int = 1) -> float:
    """Median wall time, s."""
    taken = []
    for k in range(-warmup, repeats):
        begin = time.perf_counter()
        work()
        if k >= 0:
            taken.append(time.perf_counter() - begin)
    return float(np.median(taken))


def on_devices(case: Case, queues: list[cl.CommandQueue], method: str) -> dict[str, Any]:
    """Time one batch on some devices, together; on one as without this feature."""
    begin = time.perf_counter()
    several = len(queues) > 1
    given: dict[str, Any] = {"devices": queues} if several else {"queue": queues[0]}
    solver = clhines.Solver(case.forest, method, case.dtype, **given)
    made = time.perf_counter() - begin
    row = {
        "devices": len(queues),
        "cells": case.forest.num_cells,
        "nodes": case.forest.num_nodes,
        "method": solver.plan.method,
        "shares": solver.shares,
        "make_seconds": made,
        **in_device_order(case, solver),
    }
    numpy_s = wall(lambda: solver.solve(**case.arrays, out=case.out, check=False), 5, 1)
    row["numpy_shares"] = solver.shares
    row["numpy_device_seconds"] = solver.engine.seconds if several else [numpy_s]
    return row | {"numpy_seconds": numpy_s, "numpy_error": case.error(case.out)}


def in_device_order(case: Case, solver: clhines.Solver) -> dict[str, Any]:
    """Time solves of arrays on the devices, without copies."""
    packed = []
    for part in solver.parts:
        arrays = [part.solver.to_device_order(case.arrays[name][part.nodes]) for name in NAMES]
        packed.append((part.solver, arrays, cla.zeros_like(arrays[-1])))

    def enqueue() -> None:
        for one, arrays, x in packed:
            one.enqueue(*arrays, out=x)
            one.queue.flush()

    def solves(count: int) -> None:
        for _ in range(count):
            enqueue()
        for queue in solver.queues:
            queue.finish()

    def ends() -> list[float]:
        begin = time.perf_counter()
        enqueue()
        with ThreadPoolExecutor(len(solver.queues)) as pool:
            waits = [
                pool.submit(lambda q: (q.finish(), time.perf_counter())[1], q)
                for q in solver.queues
            ]
            return [wait.result() - begin for wait in waits]

    single = wall(lambda: solves(1), 15, 3)
    each = np.median([ends() for _ in range(15)], axis=0)
    count = int(np.clip(0.2 / single, 4, 200))
    stream = wall(lambda: solves(count), 5) / count
    values = [one.from_device_order(x).get() for one, _, x in packed]
    return {
        "single_seconds": single,
        "device_seconds": each.tolist(),
        "stream_seconds": stream,
        "stream_solves": count,
        "packed_error": case.error(np.concatenate(values)),
    }


def in_slices(
    case: Case, queue: cl.CommandQueue, method: str, times: float, pinned: bool
) -> dict[str, Any]:
    """Time a batch so many times the memory allowed: all, copies alone, solves alone."""
    values = 4 * case.out.nbytes
    limit = int(values / times)
    begin = time.perf_counter()
    solver = clhines.Solver(case.forest, method, case.dtype, queue=queue, max_memory=limit)
    made = time.perf_counter() - begin
    if solver.num_slices == 1:
        raise SystemExit(
            f"--times {times:g} allows {limit} bytes, into which the batch fits; expected more"
        )
    usual, device_copies.helps = device_copies.helps, lambda _: pinned

    def solve() -> None:
        solver.solve(**case.arrays, out=case.out, check=False)

    try:
        solve()
        error = case.error(case.out)
        pipeline = solver.engine.pipeline
        assert pipeline is not None
        both, copies = [], []
        for _ in range(SLICED_ROUNDS):  # in turn, as whatever else runs disturbs both
            both.append(wall(solve, 1, 0))
            pipeline.compute = False
            copies.append(wall(solve, 1, 0))
            pipeline.compute = True
    finally:
        device_copies.helps = usual
    compute = solves_alone(case, queue, solver)
    both_s, copy_s = float(np.median(both)), float(np.median(copies))
    return {
        "cells": case.forest.num_cells,
        "nodes": case.forest.num_nodes,
        "method": solver.plan.method,
        "pinned": pinned,
        "values_bytes": values,
        "limit_bytes": limit,
        "pinned_bytes": pipeline.pinned_bytes,
        "slices": solver.num_slices,
        "make_seconds": made,
        "seconds": both_s,
        "seconds_of_rounds": both,
        "copy_seconds_of_rounds": copies,
        "copy_seconds": copy_s,
        "compute_seconds": compute,
        "ratio": both_s / max(copy_s, compute),
        "gb_per_s": values / both_s * 1e-9,
        "error": error,
    }


def solves_alone(case: Case, queue: cl.CommandQueue, sliced: clhines.Solver) -> float:
    """Time of the solves of all slices, of values that are on the device, s."""
    part = sliced.plan.forest
    solver = clhines.Solver(part, sliced.plan.method, case.dtype, queue=queue)
    arrays = [cla.to_device(queue, case.arrays[name][: part.num_nodes]) for name in NAMES]
    x = cla.empty_like(arrays[-1])

    def solve() -> None:
        solver.solve(*arrays, out=x, check=False)
        queue.finish()

    return wall(solve, 9, 2) * case.forest.num_nodes / part.num_nodes


def bus_seconds(queue: cl.CommandQueue, size: int) -> dict[str, float]:
    """Rates of copies of one array by the three ways to do it, GB/s."""
    host = np.ones(size // 8)
    buffer = cla.empty(queue, size // 8, np.float64)
    pinned, direct = device_copies.PinnedCopies(queue), device_copies.DirectCopies(queue)
    piece = pinned._pieces[0][0][:size]

    def bare(back: bool) -> None:
        for first in range(0, size - len(piece) + 1, len(piece)):
            place = {"src_offset" if back else "dst_offset": first, "is_blocking": False}
            pair = (piece, buffer.base_data) if back else (buffer.base_data, piece)
            cl.enqueue_copy(queue, *pair, **place)
        queue.finish()

    def sent(way: Any) -> None:
        way.start([([host], buffer.base_data)])()
        queue.finish()

    whole = size // len(piece) * len(piece)
    return {
        "pinned_in": whole / wall(lambda: bare(False), 3) * 1e-9,
        "pinned_out": whole / wall(lambda: bare(True), 3) * 1e-9,
        "staged_in": size / wall(lambda: sent(pinned), 3) * 1e-9,
        "staged_out": size / wall(lambda: pinned.fetch(buffer.base_data, [host]), 3) * 1e-9,
        "direct_in": size / wall(lambda: sent(direct), 3) * 1e-9,
        "direct_out": size / wall(lambda: direct.fetch(buffer.base_data, [host]), 3) * 1e-9,
    }


def text(result: dict[str, Any]) -> str:
    """Return both tables, the shares and the rates of copies as text."""
    head = (
        f"{'cells':>7} {'nodes':>10} {'devices':>7} {'single us':>9} {'x one':>5} "
        f"{'stream us':>9} {'x one':>5} {'numpy ms':>8} {'x one':>5} {'error':>8}"
    )
    lines = []
    for r in result["rows"]:
        one = next(o for o in result["rows"] if o["cells"] == r["cells"])
        texts = [f"{r['cells']:>7} {r['nodes']:>10} {r['devices']:>7}"]
        for name, scale, width in (("single", 1e6, 9), ("stream", 1e6, 9), ("numpy", 1e3, 8)):
            seconds, alone = r[f"{name}_seconds"], one[f"{name}_seconds"]
            texts.append(f"{table.narrow(seconds * scale, width, 1)} {alone / seconds:>5.2f}")
        lines.append(" ".join([*texts, f"{max(r['packed_error'], r['numpy_error']):>8.1e}"]))
    found = [table.ruled(head, lines)]
    for r in result["rows"]:
        if r["devices"] > 1:
            found.append(shares_of(r))
    head = (
        f"{'values':>9} {'memory':>9} {'slices':>6} {'copies':<7} {'all ms':>8} {'copy ms':>8} "
        f"{'solve ms':>8} {'x larger':>8} {'GB/s':>6} {'error':>8}"
    )
    lines = [
        f"{r['values_bytes'] / 1e6:>6.0f} MB {r['limit_bytes'] / 1e6:>6.0f} MB {r['slices']:>6} "
        f"{'pinned' if r['pinned'] else 'direct':<7} {r['seconds'] * 1e3:>8.1f} "
        f"{r['copy_seconds'] * 1e3:>8.1f} {r['compute_seconds'] * 1e3:>8.1f} {r['ratio']:>8.2f} "
        f"{r['gb_per_s']:>6.1f} {r['error']:>8.1e}"
        for r in result["slices"]
    ]
    found.append(table.ruled(head, lines))
    rates = [f"{k.replace('_', ' ')} {v:.1f}" for k, v in result["gb_per_s"].items()]
    found.append(f"copies, GB/s, {result['copy_threads']} threads: " + ", ".join(rates[:4]))
    found[-1] += "\n  " + ", ".join(rates[4:])
    return "\n\n".join(found)


def shares_of(row: dict[str, Any]) -> str:
    """Return the shares of the devices, and when each of them ended."""
    kinds = ("on the devices", "shares", "device_seconds"), (
        "from NumPy", "numpy_shares", "numpy_device_seconds",
    )  # fmt: skip
    texts = [
        f"{what} {', '.join(f'{s:.1%}' for s in row[shares])} in "
        f"{', '.join(f'{t * 1e3:.3g}' for t in row[seconds])} ms"
        for what, shares, seconds in kinds
    ]
    return "\n  ".join([f"{row['cells']} cells, {row['devices']} devices:", *texts])


def main(arguments: Sequence[str]) -> None:
    """Run the cases and write ``devices-<device>.json`` and ``.txt``."""
    parser = record.parser("devices", __doc__, device=False)
    add = parser.add_argument
    add("--device", action="append", help="once for each device; default: see above")
    add("--cells", type=int, nargs="+", default=[102_400, 409_600])
    add("--nodes", type=int, default=512)
    add("--branches", type=int, default=50)
    add("--dtype", default="float64")
    add("--method", default="auto")
    add("--times", type=float, default=3.0, help="of the memory allowed, for slices")
    add("--copy-bytes", type=float, default=1e9, help="of the copies whose rate is measured")
    add("--threads", type=int, help="that copy in one direction")
    add("--piece-mib", type=float, help="of pinned memory that a thread fills at a time")
    args = parser.parse_args(arguments)
    if args.threads:
        device_copies.threads = lambda: args.threads
    if args.piece_mib:
        device_copies.PIECE_BYTES = int(args.piece_mib * 2**20) // 8 * 8
        device_copies.LEAST_PIECE = min(device_copies.LEAST_PIECE, device_copies.PIECE_BYTES)
    queues = find_queues(args.device)
    rows, sliced = [], []
    for cells in args.cells:
        case = Case(cells, args.nodes, args.branches, args.dtype)
        for count in range(1, len(queues) + 1):
            rows.append(on_devices(case, queues[:count], args.method))
            print(rows[-1], flush=True)
    helps = device_copies.helps(queues[0].device)
    for pinned in (True, False) if helps else (False, True):
        sliced.append(in_slices(case, queues[0], args.method, args.times, pinned))
        print(sliced[-1], flush=True)
    size = int(args.copy_bytes) // 8 * 8
    result = {
        "record": record.record(queues[0], "devices", arguments),
        "devices": [devices.label(queue.device) for queue in queues],
        "copy_threads": device_copies.threads(),
        "piece_bytes": device_copies.PIECE_BYTES,
        "rows": rows,
        "slices": sliced,
        "gb_per_s": bus_seconds(queues[0], size),
    }
    record.write("devices", queues[0], result, text(result), args.out)
