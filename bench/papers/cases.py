"""Batches, solvers to time and rows of results of the papers' experiments."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

import clhines
from bench import MissingError, systems, table
from bench.measures import peers
from bench.papers import traffic
from bench.peers import cuda, host
from bench.systems import Candidate, Case
from clhines.core.errors import ClhinesError

SEQUENTIAL = "C, one thread"  # baseline for every speed-up
PERIOD = 1024  # cells, at least, after which a batch's random values repeat
PERIOD_NODES = 1 << 20  # or so many nodes, if cells are large
BYTES = 200  # device memory per node: d, u, b, x in two sets, factors and tables
MOST_NODES = {True: 4.2e6, False: 2e8}  # a batch at most: on a CPU, which keeps all solvers
# per case at once, and on other devices: 256,000 cells, the papers' largest ones
HOST_NODES = 8.4e6  # most nodes for another device's host: far more than caches hold
QUICK_NODES = 4096


@dataclass
class Run:
    """Settings for a command's measurements."""

    queue: cl.CommandQueue
    quick: bool  # the fewest sizes that still make a figure
    most_nodes: int  # largest batch
    seconds: float  # time for rounds with a case's twelve solvers
    # most nodes for host solvers; larger batches in proportion
    host_nodes: float = float("inf")
    cells: Path | None = None  # SWC files in cuHinesBatch's Table 1
    # rows that several figures take from one measurement
    shared: dict[Any, Any] = field(default_factory=dict)

    @property
    def is_host(self) -> bool:
        return systems.on_host(self.queue.device)

    def some(self, values: Sequence[Any]) -> list[Any]:
        return list(dict.fromkeys((values[0], values[-1]))) if self.quick else list(values)

    def counts(self, asked: Sequence[int], nodes: float, scaled: list[str]) -> list[int]:
        """Return the cell counts to run; reductions are noted in `scaled`."""
        most = max(1, int(self.most_nodes / nodes))
        unit = 10 ** max(0, len(str(most)) - 2)
        most = most // unit * unit
        kept = [c for c in asked if c <= most]
        if len(kept) < len(asked):
            last = kept[-1] if kept else 0
            put = [most] if most >= 1.5 * last else []
            instead = f"{most:,}" if put else f"the {last:,} before them"
            text = f"{', '.join(f'{c:,}' for c in asked if c > most)} cells of {nodes:.0f} nodes"
            scaled.append(f"{text} scaled to {instead}")
            kept += put
        return self.some(kept)


def most_nodes(queue: cl.CommandQueue, asked: float | None, quick: bool) -> int:
    """Return the most nodes in a batch: as asked for, but at most as the device's memory holds."""
    usual = QUICK_NODES if quick else MOST_NODES[systems.on_host(queue.device)]
    return int(min(asked or usual, queue.device.global_mem_size / BYTES))


def host_nodes(queue: cl.CommandQueue) -> float:
    """Return the most nodes for host solvers; all nodes if the device is the host."""
    return float("inf") if systems.on_host(queue.device) else HOST_NODES


# -- batches -----------------------------------------------------------------------------------


def batch(
    run: Run, trees: Sequence[np.ndarray], cells: int, kind: str, dtype: str = "float64"
) -> Case:
    """Cells that take the given trees in turn, with random values that repeat after a while.

    Only these are made on the host, and put on the device over and over.
    """
    forest = clhines.Forest.repeat(trees, cells)
    nodes = forest.num_nodes / cells
    turns = -(-min(PERIOD, max(64, int(PERIOD_NODES / nodes))) // len(trees))
    period = turns * len(trees)
    part = clhines.Forest.repeat(trees, period) if period < cells else None
    values = systems.values(forest, dtype, part)
    return Case(run.queue, forest, kind, np.dtype(dtype), values, part)


# -- solvers -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """One line in a figure."""

    name: str
    make: Callable[[Case], Iterable[Candidate]]  # yields the candidate, or several that a peer has
    own: bool = False  # a clhines method: a wrong solution ends the figure
    new: bool = False  # not in the paper's figure
    on_host: bool = False  # on the host's cores: see `Run.host_nodes`


def method(name: str, row: str, new: bool = False, **options: Any) -> Entry:
    def make(case: Case) -> Iterator[Candidate]:
        candidate = peers.own(case, row, name, **options)
        assert candidate.solver is not None
        candidate.facts = functools.partial(traffic.facts, candidate.solver)
        yield candidate

    return Entry(name, make, True, new)


SEQUENTIAL_ENTRY = Entry(SEQUENTIAL, host.c_serial, on_host=True)
MULTICORE = Entry("C/OpenMP, cell by cell", host.c_multicore, on_host=True)
NEW = [method("contraction", "contraction", True), method("auto", "auto", True)]
PEERS = [
    Entry("cuSPARSE gtsv2StridedBatch", cuda.strided, new=True),
    Entry("cuSPARSE gtsvInterleavedBatch, Thomas", cuda.interleaved, new=True),
    Entry("C/OpenMP, equal trees in lanes", host.c_equal, new=True, on_host=True),
    Entry("C/OpenMP, any trees in lanes", host.c_different, new=True, on_host=True),
    Entry("Numba, prange", host.numba_parallel, new=True, on_host=True),
]


def timed(
    run: Run, case: Case, entries: Sequence[Entry], missing: list[dict], **labels: Any
) -> list[dict[str, Any]]:
    """Return a row for the floor and for every solver of one case, in the order of `entries`.

    Rows have the time [s] and, if the sequential solver is among them, the speed-up over it.
    `labels` identify the point of the figure.

    Raises
    ------
    MissingError
        A method of clhines is wrong, or there is no sequential solver.
    """
    absent: list[dict] = []
    timed_rows = peers.time_all(case, _candidates(run, case, entries, absent), run.seconds, absent)
    owns = {e.name for e in entries if e.own}
    for m in absent:
        if m["name"] in owns and m["reason"].startswith("wrong"):
            raise MissingError(f"{m['name']}, {peers.about(case)}: {m['reason']}")
        if m["name"] == SEQUENTIAL:
            raise MissingError(f"speed-ups are over {SEQUENTIAL}: {m['reason']}")
    missing += [m | labels for m in absent]
    first = next((r["seconds"] for r in timed_rows if r["name"] == SEQUENTIAL), None)
    olds = {e.name for e in entries if not e.new}
    place = {e.name: k for k, e in enumerate(entries)}
    rows = []
    for r in sorted(timed_rows, key=lambda r: place.get(r["name"], -1)):
        if r["name"] == peers.FLOOR:
            r["arrays"] = traffic.PLAIN
        r |= {"num_nodes": case.forest.num_nodes, "new": r["name"] not in olds, **labels}
        rows.append(r | {"speedup": first / r["seconds"] if first else None})
    return rows


def _candidates(
    run: Run, case: Case, entries: Sequence[Entry], absent: list[dict]
) -> Iterator[Candidate]:
    yield peers.floor(case)
    for entry in entries:
        try:
            part = _for_host(run, case) if entry.on_host else case
            for candidate in entry.make(part):
                if part is not case:
                    candidate.stands_for = case.forest.num_nodes / part.forest.num_nodes
                    candidate.facts = functools.partial(dict, timed_cells=part.cells)
                if not systems.on_host(case.queue.device) and candidate.clock == "wall":
                    candidate.most = 5  # solvers on the host beside a GPU, where time is short
                yield candidate
        except (ClhinesError, MissingError, cl.MemoryError) as error:
            absent.append(peers.absent(case, entry.name, error))
        except Exception as error:  # whatever a peer's library does, the others are timed
            if entry.own:
                raise
            absent.append(peers.absent(case, entry.name, error))


def _for_host(run: Run, case: Case) -> Case:
    """Return the case for host solvers: whole repeats of the batch within `host_nodes`."""
    if case.part is None or case.forest.num_nodes <= run.host_nodes:
        return case
    turns = max(1, int(run.host_nodes / case.part.num_nodes))
    return case.first(min(case.cells, turns * case.part.num_cells))


# -- text --------------------------------------------------------------------------------------


def text(result: dict[str, Any]) -> str:
    head = f"{'panel':<26} {'cells':>7} {'solver':<37} {'us':>9} {'speed-up':>8} {'x floor':>7}"
    rows, lines = result["rows"], []
    for r in rows:
        speedup = "-" if r["speedup"] is None else table.narrow(r["speedup"], 8, 2)
        mark = "*" if "timed_cells" in r else " "
        lines.append(
            f"{r['panel']:<26} {r['cells']:>7} {r['name']:<37}{mark}"
            f"{table.narrow(r['seconds'] * 1e6, 9, 1)} {speedup:>8} "
            f"{table.narrow(r['x_floor'], 7, 2)}"
        )
    ruled = table.ruled(head, lines, [(r["panel"], r["cells"]) for r in rows])
    return "\n\n".join(filter(None, [ruled, traffic.text(rows)]))


def notes(result: dict[str, Any]) -> str:
    texts = [f"{name}: {value}" for name, value in result["setup"].items()]
    if result["record"]["load_before"] > 0.3:
        texts.append(f"load of other programs when it began: {result['record']['load_before']:.1f}")
    texts += [f"scaled: {text}" for text in dict.fromkeys(result["scaled"])]
    parts = sorted({(r["panel"], r["timed_cells"]) for r in result["rows"] if "timed_cells" in r})
    if parts:
        said = "; ".join(f"{cells:,} cells of {panel}" for panel, cells in parts)
        texts.append(f"*: time of the host in proportion to that of fewer cells: {said}")
    where: dict[tuple[str, str], list[str]] = {}
    for m in result["missing"]:
        cell = f"{m['cells']:,} cells of {m.get('panel', m['kind'])}" if "cells" in m else "all"
        where.setdefault((m["name"], m["reason"]), []).append(cell)
    for (name, why), which in where.items():
        more = f" and {len(which) - 1} more" if len(which) > 1 else ""
        texts.append(f"missing: {name}: {why}; {which[-1]}{more}")
    return "\n".join(table.wrapped(texts))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
