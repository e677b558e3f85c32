"""Time a network on one and more MPI ranks: strong and weak scaling, the exchange.

    python -m bench scale [--device SPEC] [--ranks 1 2] [--strong 4096] [--weak 2048]
                          [--plan CELLS ...]

The network is the ring network with an event from outside to each cell now and then, so that all
cells spike. The script starts ``mpiexec`` (or ``$MPIEXEC``) again for each row. On a CPU each rank
has one core, also the single rank of the baseline; each rank has its own GPU. Every row of one
network must have the same spikes. ``--plan`` measures the time and memory of networks until their
first step. Writes ``scale-<device>.json``, ``.txt`` and, with matplotlib, ``.svg``.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import itertools
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl.array as cla

from bench import MissingError, child, plot, record, ring, table
from clhines import Simulation
from clhines.simulator import simulation
from clhines.simulator.ranks import mpi
from clhines.simulator.state.decisions import MAX_EPOCH
from clhines.solver.device import devices

RATE, EVENT_WEIGHT = 10.0, 0.05  # Hz, µS: for the events from outside
PIECES = 5
PLANNED = "float32"


# -------------------------------------------------------------------------------- one rank


def network(cells: int, delay: float, duration: float) -> Any:
    """Ring with 64 different trees, and random events from outside for so many ms."""
    cables = ring.ring_cables(min(SHAPES, cells), seed=record.SEED)
    net = ring.ring_network(cables, cells, delay=delay)
    rng = np.random.default_rng(record.SEED)
    count = int(rng.poisson(RATE * 1e-3 * duration * cells))
    at, when = rng.integers(0, cells, count), rng.uniform(0, duration, count)
    net.add_event(net.groups[-1], at, when, EVENT_WEIGHT)
    return net


def measure_rank(asked: dict[str, Any], out: str) -> None:
    """Simulate on this rank; rank 0 writes all ranks' measurements."""
    comm = mpi.world()
    if comm.size != asked["ranks"]:  # mpiexec of one MPI library, mpi4py of another
        raise MissingError(f"mpi4py counts {comm.size} ranks, mpiexec started {asked['ranks']}")
    simulation.OVERLAP = {"auto": None, "yes": True, "no": False}[asked["overlap"]]
    begin, used = time.perf_counter(), time.process_time()
    length = asked["duration"] / PIECES
    net = network(asked["cells"], asked["delay"], asked["duration"] + length)
    described = time.perf_counter()
    # one rank: on a device that is chosen as the others' are
    queue = mpi.own_queue(mpi.Ranks(comm, "bench scale"), asked["device"], asked["dtype"])
    sim = Simulation(net, dtype=asked["dtype"], queue=queue, comm=comm, engine=asked["engine"])
    before = bytes_on_device()
    made = time.perf_counter()
    row = {
        "device_bytes": before,
        "described_s": described - begin,
        "made_s": made - described,
        "cpu_s": time.process_time() - used,
        "where": sim.device_label,
        "engine": sim.engine.partition("-")[0],
    }
    if asked["kind"] == "plan":
        every = comm.gather({**row, "host_bytes": host_bytes()})
        if comm.rank == 0:
            Path(out).write_text(json.dumps({"every": every}), "utf-8")
        return
    results = [sim.run(length)]  # some drivers compile for the device only now
    received, exchanges = counted(sim)
    pieces = []
    for _ in range(PIECES):
        comm.Barrier()
        results.append(sim.run(length))
        pieces.append(results[-1].cost)
    bytes_in, count = (b - a for a, b in zip((received, exchanges), counted(sim), strict=True))
    ran = {"pieces": pieces, "received": bytes_in, "exchanges": count, "host_bytes": host_bytes()}
    every = comm.gather({**row, **ran})
    if comm.rank == 0:  # all ranks have all results
        times, cells = (np.concatenate([getattr(r, n) for r in results]) for n in SPIKES)
        order = np.lexsort((cells, times))
        spikes = times[order].tobytes() + cells[order].tobytes()
        written = {
            "every": every,
            "steps": round(length / 0.025),
            "digest": hashlib.sha256(spikes).hexdigest(),
            "compartments": int(np.count_nonzero(net.area)),
            "spikes": sum(len(r.spike_time) for r in results[1:]),
        }
        Path(out).write_text(json.dumps(written), "utf-8")


SPIKES = ("spike_time", "spike_cell")
SHAPES = 64


def counted(sim: Simulation) -> tuple[int, int]:
    return sim.ranks.received, sim.ranks.exchanges


def bytes_on_device() -> int:
    return sum(a.nbytes for a in gc.get_objects() if isinstance(a, cla.Array))


def host_bytes() -> int:
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# ---------------------------------------------------------------------------------- all cases


def start(case: dict[str, Any], most: float) -> dict[str, Any]:
    launcher = child.mpiexec(case["ranks"])
    result = child.run("measures.rank", [json.dumps(case)], most, launcher)
    return {**case, **result} if "reason" in result else row_of(case, result)


def row_of(case: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Merge all ranks' measurements; a piece takes as long as its slowest rank."""
    every = found.pop("every")
    most = ("device_bytes", "host_bytes", "described_s", "made_s", "cpu_s")
    found |= {name: max(r[name] for r in every) for name in most}
    found |= {"where": [r["where"] for r in every], "engine_taken": every[0]["engine"]}
    if case["kind"] == "plan":
        return {**case, **found, "seconds": found["described_s"] + found["made_s"]}
    walls = [max(r["pieces"][k]["all"] for r in every) for k in range(PIECES)]
    exchange = [
        float(np.mean([r["pieces"][k].get("exchange", 0.0) for r in every])) / walls[k]
        for k in range(PIECES)
    ]
    seconds = float(np.median(walls)) / found["steps"]
    simulated = found["steps"] * PIECES * 0.025e-3
    return {
        **case,
        **found,
        "pieces_s": walls,
        "seconds": seconds,
        "ns_per_compartment": seconds / found["compartments"] * 1e9,
        "exchange_share": float(np.median(exchange)),
        "exchanges": every[0]["exchanges"],
        "bytes_per_cell": sum(r["received"] for r in every) / case["cells"] / simulated,
        "rate_hz": found["spikes"] / case["cells"] / simulated,
    }


def cases(args: argparse.Namespace) -> list[dict[str, Any]]:
    base = {
        name: getattr(args, name) for name in ("device", "engine", "duration", "pin", "overlap")
    }
    all_cases = []
    for dtype, delay in itertools.product(args.dtype, args.delay):
        common_part = {**base, "dtype": dtype, "delay": delay}
        for kind in ("strong", "weak"):
            for cells, count in itertools.product(getattr(args, kind), args.ranks):
                total = cells if kind == "strong" else cells * count
                row = {**common_part, "kind": kind, "cells": total, "ranks": count}
                all_cases.append(row)
            if args.pin and kind == "strong":  # one process with all cores
                all_cases += [
                    {**common_part, "kind": "threads", "cells": cells, "ranks": 1, "pin": False}
                    for cells in args.strong
                ]
    for cells, count in itertools.product(args.plan, args.ranks):
        row = {**base, "dtype": PLANNED, "delay": args.delay[0], "kind": "plan", "cells": cells}
        all_cases.append({**row, "ranks": count})
    return all_cases


def against_first(rows: list[dict[str, Any]]) -> None:
    """Add speed-up and efficiency over the row with fewest ranks; stop if spikes differ."""
    digests: dict[tuple[Any, ...], tuple[str, str]] = {}
    first: dict[tuple[Any, ...], dict[str, Any]] = {}
    for r in rows:
        key = r["cells"], r["dtype"], r["delay"]
        name = f"{r['ranks']} ranks"
        of, digest = digests.setdefault(key, (name, r["digest"]))
        if digest != r["digest"]:
            sys.exit(f"{r['cells']} cells, {r['dtype']}: other spikes with {name} than with {of}")
        kind = "weak" if r["kind"] == "weak" else "strong"
        each = r["cells"] // r["ranks"] if kind == "weak" else r["cells"]
        one = first.setdefault((kind, each, r["dtype"], r["delay"]), r)
        more = r["ranks"] / one["ranks"]
        gain = one["seconds"] / r["seconds"]
        r["speed_up"] = gain * more if kind == "weak" else gain
        r["efficiency"] = r["speed_up"] / more


def text(result: dict[str, Any]) -> str:
    rows, planned = result["rows"], result.get("planned", [])
    head = (
        f"{'':<10} {'dtype':<7} {'delay':>5} {'ranks':>5} {'cells':>7} {'step us':>8} "
        f"{'ns/comp.':>8} {'faster':>7} {'effic.':>6} {'exch.':>6} {'Hz':>5} "
        f"{'B/cell/s':>8} {'MiB':>6}"
    )
    lines = []
    for r in rows:
        lines.append(
            f"{r['kind']:<10} {r['dtype']:<7} {r['delay']:>5g} {r['ranks']:>5} {r['cells']:>7,} "
            f"{r['seconds'] * 1e6:>8.1f} {r['ns_per_compartment']:>8.3g} {r['speed_up']:>6.2f}x "
            f"{r['efficiency']:>6.0%} {r['exchange_share']:>6.1%} {r['rate_hz']:>5.1f} "
            f"{r['bytes_per_cell']:>8.0f} {r['device_bytes'] / 2**20:>6.0f}"
        )
    groups = [(r["kind"], r["dtype"], r["delay"]) for r in rows]
    lines = [
        table.ruled(head, lines, groups),
        "",
        "threads: one process on all cores, without MPI; else a rank has a core, or a GPU.",
        "delay: of all connections, ms; an exchange in each, on GPUs two.",
        "step us: median of the pieces, each as long as its slowest rank took.",
        "faster, effic.: than the row of fewest ranks.",
        "exch.: share of the time that a rank is in exchanges, waiting for slower ranks included.",
        "Hz: spikes of a cell and second. B/cell/s: bytes that all ranks get, for each cell and",
        "second simulated. MiB: of arrays on a rank's device.",
    ]
    for m in result["missing"]:
        lines.append(f"missing: {m['kind']}, {m['ranks']} ranks, {m['cells']} cells: {m['reason']}")
    return "\n".join([*lines, "", extended(rows), *plans(planned)])


def plans(rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    head = (
        f"{'dtype':<7} {'cells':>9} {'ranks':>5} {'describe s':>10} "
        f"{'plan s':>7} {'CPU s':>7} {'GB':>6} {'kB/cell':>8}"
    )
    lines = [
        f"{r['dtype']:<7} {r['cells']:>9,} {r['ranks']:>5} "
        f"{r['described_s']:>10.2f} "
        f"{r['made_s']:>7.2f} {r['cpu_s']:>7.1f} {r['host_bytes'] / 1e9:>6.2f} "
        f"{r['host_bytes'] / r['cells'] / 1e3:>8.1f}"
        for r in rows
    ]
    return [
        "",
        table.ruled(head, lines, [(r["dtype"], r["cells"]) for r in rows]),
        "",
        "describe: until the network is there; plan: until its first step; CPU: of both. GB: most",
        "memory of a rank, also of its device if that is the host; kB/cell: for each of all cells.",
    ]


def extended(rows: list[dict[str, Any]]) -> str:
    """Extrapolate the measurements to more cells than the machines here can hold."""
    strong = [r for r in rows if r["kind"] == "strong" and r["dtype"] == "float64"]
    delay = max((r["delay"] for r in strong), default=0)
    sizes = {r["cells"] for r in strong if r["delay"] == delay}
    some = {(r["cells"], r["ranks"]): r for r in strong if r["delay"] == delay}
    few, more = min(sizes, default=0), max(sizes, default=0)
    if few == more or not {(few, 1), (few, 2), (more, 1), (more, 2)} <= set(some):
        return "extended: needs rows of 1 and 2 ranks, float64, of two numbers of cells"

    def on_host(count: int) -> float:
        grown = some[more, count]["host_bytes"] - some[few, count]["host_bytes"]
        return float(grown / (more - few))

    one = some[more, 1]
    # bytes for a cell on its rank: none if half the network takes as much as the whole; the other
    # bytes are on all ranks
    local = max(0.0, 2 * (on_host(1) - on_host(2)))
    each = on_host(2) - local / 2
    on_device, step = one["device_bytes"] / more, one["seconds"] / more
    describe = one["described_s"] / more
    steps, decode = min(MAX_EPOCH, max(1, round(delay / 0.025))), decode_seconds()
    head = f"{'cells':>13} {'ranks':>6} " + " ".join(f"{name:>12}" for name in EXTENDED)
    lines = [
        f"a cell: {on_device / 1e3:.1f} kB on its device, {local / 1e3:.1f} kB on its rank's host",
        f"and {each / 1e3:.1f} kB on that of every rank, {step * 1e9:.1f} ns a step on one rank,",
        f"{describe * 1e6:.0f} us to describe on every rank; a spike: 4 B to every",
        f"rank, {decode * 1e9:.0f} ns on its host; {RATE:g} Hz, an exchange every {steps} steps,",
        f"{WIRE / 1e9:g} GB/s into a machine",
        "",
        head,
        "-" * len(head),
    ]
    for cells, count in ((10**6, 1), (10**6, 8), (10**9, 1000), (10**9, 10000)):
        spikes = cells * RATE * steps * 0.025e-3
        values = (
            f"{on_device * cells / count / 1e9:.3g} GB",
            f"{(each + local / count) * cells / 1e9:.3g} GB",
            f"{step * cells / count * steps:.3g} s",
            f"{4 * spikes / 1e6:.3g} MB",
            f"{4 * spikes / WIRE * 1e3:.3g} ms",
            f"{decode * spikes * 1e3:.3g} ms",
        )
        lines.append(f"{cells:>13,} {count:>6,} " + " ".join(f"{v:>12}" for v in values))
    return "\n".join(lines)


EXTENDED = ("device", "host", "epoch", "got", "on the wire", "decoded")  # columns for one rank
WIRE = 25e9  # bytes a second into a machine, in a 200 Gbit/s network


def decode_seconds(count: int = 10**6) -> float:
    """Seconds that a rank's host takes for a spike that it gets."""
    codes = [np.random.default_rng(0).integers(0, 2**26, count).astype(np.uint32)]
    sources = [np.arange(2**20)]
    seconds = []
    for _ in range(5):
        begin = time.perf_counter()
        source, step = mpi.decode(codes, sources, 0, 64)
        source.astype(np.int32), step.astype(np.int32)
        seconds.append(time.perf_counter() - begin)
    return float(np.median(seconds)) / count


def draw(result: dict[str, Any], path: Path) -> None:
    with plot.picture(path) as figure:
        figure.set_size_inches(10, 4.2)
        for axes, kind in zip(figure.subplots(1, 2), ("strong", "weak")):
            panel(axes, [r for r in result["rows"] if r["kind"] == kind], kind)
        record = result["record"]
        figure.suptitle(f"{record['device']} ({record['platform']})")


def panel(axes: Any, rows: list[dict[str, Any]], kind: str) -> None:
    is_strong = kind == "strong"
    counts = sorted({r["ranks"] for r in rows})
    lines: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for r in rows:
        each = r["cells"] if is_strong else r["cells"] // r["ranks"]
        lines.setdefault((each, r["dtype"], r["delay"]), []).append(r)
    for marker, ((each, dtype, delay), some) in zip("os^DvP*X" * 4, lines.items()):
        points = [(r["ranks"], r["speed_up"] if is_strong else r["seconds"] * 1e6) for r in some]
        label = f"{each:,} cells{' a rank' * (not is_strong)}, {dtype}, {delay:g} ms"
        axes.plot(*zip(*points), marker=marker, label=label)
    if is_strong:
        axes.plot(counts, [c / counts[0] for c in counts], "k--", lw=1, label="ideal")
        axes.set(title="Strong: one network", ylabel="times as fast")
    else:
        axes.set(title="Weak: cells with ranks", ylabel="step, µs", ylim=(0, None))
    axes.set_xticks(counts)
    axes.set(xlabel="ranks")
    axes.grid(True, **plot.GRID)
    if lines:
        axes.legend(frameon=False, fontsize=8)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = record.parser("scale", __doc__)
    add = parser.add_argument
    add("--ranks", type=int, nargs="+", help="default: 1, 2, 4 ... as there are cores or GPUs")
    add("--strong", type=int, nargs="*", default=[1024, 4096], help="cells")
    add("--weak", type=int, nargs="*", default=[2048], help="cells of a rank")
    add("--delay", type=float, nargs="+", default=[5.0, 0.5], help="ms, of the connections")
    add("--dtype", nargs="+", default=["float64"])
    add("--plan", type=int, nargs="*", default=[], help="cells of networks that are not run")
    add("--engine", default="auto")
    add("--duration", type=float, default=100.0, help="ms that are timed, in five pieces")
    add("--overlap", choices=["auto", "yes", "no"], default="auto",
        help="exchange during the next epoch, half as long, or between full ones")  # fmt: skip
    add("--rounds", type=int, default=1, help="of which the fastest run of a row counts")
    add("--most", type=float, default=180.0, help="seconds of a row at most")
    args = parser.parse_args(arguments)
    chosen = devices.choose(args.device, np.float32)
    args.pin = devices.is_cpu(chosen)
    if args.ranks is None:
        most = record.cores() if args.pin else len(devices.alike(chosen, np.float32))
        args.ranks = [1 << k for k in range(most.bit_length())]
    return args


def main(arguments: Sequence[str]) -> None:
    args = parsed(arguments)
    queue = record.queue(args.device)
    every = cases(args)
    best: list[dict[str, Any] | None] = [None] * len(every)
    for k in list(range(len(every))) * args.rounds:  # in turns, as noise comes and goes
        row, before = start(every[k], args.most), best[k]
        if before is None or "reason" in row or row["seconds"] < before["seconds"]:
            best[k] = row if before is None or "reason" not in before else before
        print(*(every[k][name] for name in ("kind", "cells", "ranks", "delay")), file=sys.stderr)
    rows: list[dict[str, Any]] = []
    missing: list[dict[str, Any]] = []
    for row in best:
        assert row is not None
        (missing if "reason" in row else rows).append(row)
    if not rows:
        raise MissingError(f"nothing ran: {missing[0]['reason']}")
    planned = [r for r in rows if r["kind"] == "plan"]
    rows = [r for r in rows if r["kind"] != "plan"]
    against_first(rows)
    result = {"record": {"rate_hz": RATE}, "rows": rows, "planned": planned, "missing": missing}
    record.write("scale", queue, arguments, result, text, args.out, draw)
