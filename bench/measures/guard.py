"""Compare a short list of times with the record of this device; 1 where one is slower.

    python -m bench guard [--device SPEC] [--rows NAME ...] [--record]

Each time is divided by the time of a yardstick that runs just before it: the memory floor, a kernel
of exponentials, copies of the same arrays, or NEURON's building of the model. GPUs are timed by
events, CPUs by processor time, which other work on the machine changes least. Rows take turns in
rounds. The lower quartile of a round is its time, and the ratio is between the best rounds of row
and yardstick. A row more than 5 % above the record is measured again, up to three times, and the
best rounds of all count. Only ``--record`` changes the record, ``guard-<device>.json``, so that
small losses do not add up.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

import clhines
from bench import MissingError, neurons, record, ring, systems, table
from clhines.core.errors import ClhinesError
from clhines.solver import reference
from clhines.solver.device import devices, timing

BOUND = 0.05  # how much slower a row may be, as a share of the record's ratio
AGAIN = 3  # times that a row above the bound is measured again
ROUNDS, SECONDS = 8, 0.25  # rounds over all rows; time for a row and its yardstick in a round
LEAST = 3  # runs per row in a round
NODES, SHAPES = 512, 64
EXPONENTIALS = """
#define real REAL
__kernel void yardstick(__global real *values) {
    real x = values[get_global_id(0)];
    for (int k = 0; k < 128; ++k) x = exp(-x);
    values[get_global_id(0)] = x;
}
"""


@dataclass(frozen=True)
class Sizes:
    """Row sizes on one kind of device.

    Cells in solves and in the ring, copies of the pyramidal cell, steps in a piece, and cells in
    NEURON.
    """

    cells: int
    ring: int
    copies: int
    steps: int
    neuron: int = 100


GPU, CPU = Sizes(25_600, 1024, 1000, 400), Sizes(2560, 64, 4, 50)
TINY = Sizes(16, 2, 1, 50, 2)  # for tests


@dataclass
class Timed:
    """Something whose runs are timed; `run` returns one run's seconds, `seconds` has rounds."""

    name: str
    run: Callable[[], float]
    seconds: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        return min(self.seconds)


@dataclass
class Row(Timed):
    """A table row: its timed run, and its yardstick, which several rows may share."""

    beside: Timed = field(kw_only=True)

    @property
    def ratio(self) -> float:
        return self.best / self.beside.best

    def measure(self) -> None:
        """Time both in turns for one round, whose lower quartiles count."""
        begin, pairs = time.perf_counter(), []
        while len(pairs) < LEAST or time.perf_counter() - begin < SECONDS:
            pairs.append((self.beside.run(), self.run()))
        beside, seconds = np.quantile(pairs, 0.25, axis=0).tolist()
        self.beside.seconds.append(beside)
        self.seconds.append(seconds)


# -- the rows --------------------------------------------------------------------------------


def timed(queue: cl.CommandQueue, launch: timing.TimedRun) -> Callable[[], float]:
    """Return a function that times one launch: by events on a GPU, by processor time on a CPU."""
    count = itertools.count()

    def wait() -> None:
        launch(next(count))
        queue.finish()

    if devices.is_cpu(queue.device):
        return called(wait, time.process_time)
    return lambda: timing.median_seconds(queue, lambda _: launch(next(count)), 1, warmup=0)


def called(run: Callable[[], object], clock: Callable[[], float]) -> Callable[[], float]:
    def seconds() -> float:
        begin = clock()
        run()
        return clock() - begin

    return seconds


class Measured:
    def __init__(self, queue: cl.CommandQueue, sizes: Sizes, dtype: str) -> None:
        self.queue, self.sizes, self.dtype = queue, sizes, dtype
        cpu = devices.is_cpu(queue.device)
        self.clock = time.process_time if cpu else time.perf_counter

    @functools.cache  # noqa: B019, one per run of the program
    def floor(self, nodes: int, dtype: str) -> Timed:
        return Timed("memory floor", timed(self.queue, timing.floor(self.queue, nodes, dtype)))

    @functools.cached_property
    def exponentials(self) -> Timed:
        real = {"float64": "double", "float32": "float"}[self.dtype]
        program = cl.Program(self.queue.context, EXPONENTIALS.replace("REAL", real)).build()
        kernel = cl.Kernel(program, "yardstick")
        items = 1024 * self.queue.device.max_compute_units
        values = np.random.default_rng(1).random(items).astype(self.dtype)
        on_device = cla.to_device(self.queue, values)
        launch = lambda _: kernel(self.queue, (items,), (64,), on_device.data)  # noqa: E731
        return Timed("exponentials", timed(self.queue, launch))

    @functools.cached_property
    def trees(self) -> clhines.Forest:
        return systems.batch(self.sizes.cells, NODES, 50, SHAPES)

    def solve(self, name: str, forest: clhines.Forest, method: str, dtype: str = "") -> Row:
        dtype = dtype or self.dtype
        solver = clhines.Solver(forest, method, dtype, queue=self.queue)
        sets = [[a.astype(dtype) for a in systems.system(forest, record.SEED + k)] for k in (0, 1)]
        launch, result = systems.in_device_order(solver, sets)
        launch(0)
        worst = reference.residual(forest, *sets[0], result(0))
        if not worst < systems.TOLERANCE[dtype]:
            raise SystemExit(f"{name}: residual {worst:.3g}: wrong, so not timed")
        run = timed(self.queue, launch)
        return Row(name, run, beside=self.floor(forest.num_nodes, dtype))

    def from_numpy(self, name: str) -> Row:
        solver = clhines.Solver(self.trees, "auto", self.dtype, queue=self.queue)
        arrays = [a.astype(self.dtype) for a in systems.system(self.trees)]
        there = [cla.empty(self.queue, a.shape, a.dtype) for a in arrays]
        out = np.empty_like(arrays[2])

        def copies() -> None:
            for device_array, a in zip(there, arrays):
                cl.enqueue_copy(self.queue, device_array.data, a)
            cl.enqueue_copy(self.queue, out, there[0].data)

        run = called(lambda: solver.solve(*arrays), self.clock)
        return Row(name, run, beside=Timed("copies", called(copies, self.clock)))

    def steps(self, name: str, network: clhines.Network, v_init: float) -> Row:
        options = {"queue": self.queue, "v_init": v_init}
        simulation = clhines.Simulation(network, neurons.DT, self.dtype, **options)
        count = self.sizes.steps
        simulation.run(count * neurons.DT)
        run = called(lambda: simulation.run(count * neurons.DT), self.clock)
        return Row(name, lambda: run() / count, beside=self.exponentials)

    def ring(self, name: str, hh: str) -> Row:
        cables = ring.ring_cables(min(SHAPES, self.sizes.ring), seed=record.SEED)
        return self.steps(name, ring.ring_network(cables, self.sizes.ring, hh=hh), ring.V_INIT)

    def pyramidal(self, name: str) -> Row:
        network = neurons.neurons("l5pc", neurons.cable_of("l5pc"), self.sizes.copies)
        return self.steps(name, network, neurons.V_INIT)


def imported(name: str, sizes: Sizes) -> Row:
    """Return the import of a NEURON network, without a device, beside NEURON's building it."""
    try:
        from neuron import h
    except ImportError as error:
        raise MissingError(f"not installed: {error}") from error
    from clhines.neuron.importer import network_of
    from clhines.neuron.reading import read_model

    kept: list[Any] = []  # keeps the model alive in NEURON's memory

    def build() -> None:
        kept.clear()
        for k in range(sizes.neuron):
            soma, dend = h.Section(name=f"soma{k}"), h.Section(name=f"dend{k}")
            dend.connect(soma(1))
            dend.nseg = 15
            soma.insert("hh")
            dend.insert("pas")
            kept.append((soma, dend, h.ExpSyn(dend(0.2)), []))
        for k, (soma, *_, connections) in enumerate(kept):
            for j in range(1, 11):
                target = kept[(k + j) % len(kept)][2]
                connections.append(h.NetCon(soma(0.5)._ref_v, target, sec=soma))
        h.finitialize(-65)

    run = called(lambda: network_of(read_model(h, {})), time.process_time)
    return Row(name, run, beside=Timed("NEURON builds", called(build, time.process_time)))


def made(measured: Measured, names: Sequence[str]) -> Iterator[Row | tuple[str, str]]:
    """Yield the requested rows, or a row's name with the reason why it is missing."""
    m, sizes = measured, measured.sizes
    makers: dict[str, Callable[[str], Row]] = {
        "trees": lambda n: m.solve(n, m.trees, "auto"),
        "trees, float32": lambda n: m.solve(n, m.trees, "auto", "float32"),
        "chains": lambda n: m.solve(n, systems.chains(sizes.cells, NODES), "auto"),
        "trees, fine": lambda n: m.solve(n, m.trees, "fine"),
        "call from NumPy": m.from_numpy,
        "ring": lambda n: m.ring(n, "soma"),
        "ring, hh everywhere": lambda n: m.ring(n, "all"),
        "pyramidal cell": m.pyramidal,
        "import from NEURON": lambda n: imported(n, sizes),
    }
    for name in names or makers:
        if name not in makers:
            raise MissingError(f"--rows {name}: expected some of {', '.join(makers)}")
        try:
            yield makers[name](name)
        except (MissingError, ClhinesError) as error:
            yield name, str(error).splitlines()[0]


# -- the report ------------------------------------------------------------------------------


def losses(rows: Iterable[Row], before: dict[str, float], bound: float) -> list[Row]:
    return [r for r in rows if r.name in before and r.ratio > before[r.name] * (1 + bound)]


def measure(rows: Sequence[Row], before: dict[str, float], bound: float) -> list[Row]:
    """Measure all rows in turns, slow ones again; return the rows that stay above the bound."""
    slow = list(rows)
    for _ in range(1 + AGAIN):
        for _ in range(ROUNDS):
            for row in slow:
                row.measure()
        slow = losses(rows, before, bound)
        if not slow:
            break
    return slow


def text(result: dict[str, Any]) -> str:
    head = (
        f"{'row':<22} {'us':>11} {'yardstick':<14} {'us':>10} {'ratio':>8} {'record':>8} "
        f"{'change':>7}"
    )
    lines = []
    for r in result["rows"]:
        old = r.get("before")
        change = f"{r['ratio'] / old - 1:+.1%}" if old else "-"
        lines.append(
            f"{r['row']:<22} {r['seconds'] * 1e6:>11.1f} {r['beside']:<14} "
            f"{r['beside_seconds'] * 1e6:>10.1f} {r['ratio']:>8.4g} "
            f"{format(old, '.4g') if old else '-':>8} {change:>7}"
        )
    missing = table.missing((m["row"], m["reason"], "guard") for m in result["missing"])
    return "\n".join([table.ruled(head, lines), *[""][: len(missing)], *missing])


def recorded(path: Path) -> tuple[dict[str, float], str]:
    """Return a record's ratios by row, and its commit; nothing if there is no record."""
    if not path.is_file():
        return {}, ""
    result = json.loads(path.read_text("utf-8"))
    return {r["row"]: r["ratio"] for r in result["rows"]}, result["record"]["commit"]


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = record.parser("guard", __doc__)
    add = parser.add_argument
    add("--rows", nargs="+", default=[], metavar="NAME", help="some rows; default: all")
    add("--record", action="store_true", help="write the record in --out; the exit code is 0")
    add("--before", type=Path, metavar="FILE", help="record to compare with; default: in results")
    add("--bound", type=float, default=BOUND, help="a row may be slower by this part of its ratio")
    add("--size", choices=["auto", "tiny"], default="auto", help="tiny: for tests")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Measure; return 1 if a row is slower than the record, or is in the record and missing."""
    args = parsed(arguments)
    queue = record.queue(args.device)
    path = args.before or record.RESULTS / f"guard-{record.slug(queue.device)}.json"
    before, commit = recorded(path)
    dtype = "float64" if devices.has_fp64(queue.device) else "float32"
    sizes = TINY if args.size == "tiny" else CPU if devices.is_cpu(queue.device) else GPU
    measured = list(made(Measured(queue, sizes, dtype), args.rows))
    rows = [f for f in measured if isinstance(f, Row)]
    slow = measure(rows, before, args.bound)
    shown = [
        {
            "row": r.name,
            "beside": r.beside.name,
            "seconds": r.best,
            "beside_seconds": r.beside.best,
            "ratio": r.ratio,
            "rounds": len(r.seconds),
            **({"before": before[r.name]} if r.name in before else {}),
        }
        for r in rows
    ]
    missing = [{"row": f[0], "reason": f[1]} for f in measured if not isinstance(f, Row)]
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    of_run = {"sizes": vars(sizes), "load": load}
    result = {"record": of_run, "rows": shown, "missing": missing}
    if args.record:
        record.write("guard", queue, arguments, result, text, args.out)
        return 0
    print(text(result))
    print(f"\nrecord: {path.name}, commit {commit}" if before else f"\nno record: {path}")
    if load > record.cores() + 1:
        print(f"load {load:.1f} on {record.cores()} cores: memory is shared, repeat what fails")
    gone = [m["row"] for m in missing if m["row"] in before]
    for name in gone:
        print(f"{name}: in the record, and missing now")
    for r in slow:
        loss = r.ratio / before[r.name] - 1
        print(f"{r.name}: {loss:.1%} slower than the record; allowed {args.bound:.0%}")
    return 1 if slow or gone else 0
