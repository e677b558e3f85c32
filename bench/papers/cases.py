"""Batches, solvers to time and rows of results of the papers' experiments."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyopencl as cl

import clhines
from bench import MissingError, systems, table
from bench.measures import peers
from bench.peers import cuda, host
from bench.systems import Candidate, Case
from clhines.errors import ClhinesError

SEQUENTIAL = "C, one thread"  # what every speed-up is over
PERIOD = 1024  # cells, at least, after which the random values of a batch repeat
BYTES = 200  # of device memory a node: d, u, b, x in two sets, factors and tables
MOST_NODES = {True: 4.2e6, False: 1.68e7}  # a batch at most: on a CPU, which keeps all solvers
# of a case at once, and on other devices, where it is only for the time that a run takes
QUICK_NODES = 4096


@dataclass
class Run:
    """How one command measures.

    Attributes
    ----------
    queue : pyopencl.CommandQueue
    quick : bool
        The fewest sizes that still make a figure.
    most_nodes : int
        Nodes of a batch at most.
    seconds : float
        Of timed rounds for twelve solvers of a case.
    shared : dict
        Rows that several figures take from one measurement.
    """

    queue: cl.CommandQueue
    quick: bool
    most_nodes: int
    seconds: float
    shared: dict[Any, Any] = field(default_factory=dict)

    @property
    def is_host(self) -> bool:
        """Whether the device shares the cores with the solvers in C."""
        return systems.on_host(self.queue.device)

    def some(self, values: Sequence[Any]) -> list[Any]:
        """All values, or with ``--quick`` the first and the last."""
        return list(dict.fromkeys((values[0], values[-1]))) if self.quick else list(values)

    def counts(self, asked: Sequence[int], nodes: float, scaled: list[str]) -> list[int]:
        """Numbers of cells of so many nodes that are run; what is smaller goes to `scaled`."""
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
    """Nodes of a batch at most: what was asked for, as far as the memory of the device goes."""
    usual = QUICK_NODES if quick else MOST_NODES[systems.on_host(queue.device)]
    return int(min(asked or usual, queue.device.global_mem_size / BYTES))


# -- batches -----------------------------------------------------------------------------------


def batch(
    run: Run, trees: Sequence[np.ndarray], cells: int, kind: str, dtype: str = "float64"
) -> Case:
    """Cells that take the given trees in turn, with random values that repeat after a while."""
    forest = clhines.Forest.repeated(trees, cells)
    turns = -(-PERIOD // len(trees))
    period = min(cells, turns * len(trees))
    part = forest if period == cells else forest.take(np.arange(period))
    sets = systems.values(forest, dtype, part)
    return Case(run.queue, forest, kind, np.dtype(dtype), sets)


# -- solvers -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """One line of a figure.

    Attributes
    ----------
    name : str
    make : callable
        ``make(case)`` yields the candidate, or several that a peer has.
    own : bool
        A method of clhines: a wrong solution ends the figure.
    new : bool
        Not in the paper's figure.
    """

    name: str
    make: Callable[[Case], Iterable[Candidate]]
    own: bool = False
    new: bool = False


def method(name: str, row: str, new: bool = False, **options: Any) -> Entry:
    """Return a row of clhines' methods with options, values in device order."""
    return Entry(name, lambda case: [peers.own(case, row, name, **options)], True, new)


SEQUENTIAL_ENTRY = Entry(SEQUENTIAL, host.c_serial)
MULTICORE = Entry("C/OpenMP, cell by cell", host.c_multicore)
NEW = [method("contraction", "contraction", True), method("auto", "auto", True)]
PEERS = [
    Entry("cuSPARSE gtsv2StridedBatch", cuda.strided, new=True),
    Entry("cuSPARSE gtsvInterleavedBatch, Thomas", cuda.interleaved, new=True),
    Entry("C/OpenMP, equal trees in lanes", host.c_equal, new=True),
    Entry("C/OpenMP, any trees in lanes", host.c_different, new=True),
    Entry("Numba, prange", host.numba_parallel, new=True),
]


def timed(
    run: Run, case: Case, entries: Sequence[Entry], missing: list[dict], **labels: Any
) -> list[dict[str, Any]]:
    """Return a row for the floor and for every solver of one case, in the order given.

    Rows have the time [s] and, where the sequential solver is among them, the speed-up over it.
    `labels` say which point of the figure they are.

    Raises
    ------
    MissingError
        A method of clhines is wrong, or there is no sequential solver.
    """
    absent: list[dict] = []
    found = peers.time_all(case, _candidates(case, entries, absent), run.seconds, absent)
    owns = {e.name for e in entries if e.own}
    for m in absent:
        if m["name"] in owns and m["reason"].startswith("wrong"):
            raise MissingError(f"{m['name']}, {peers.about(case)}: {m['reason']}")
        if m["name"] == SEQUENTIAL:
            raise MissingError(f"speed-ups are over {SEQUENTIAL}: {m['reason']}")
    missing += [m | labels for m in absent]
    first = next((r["seconds"] for r in found if r["name"] == SEQUENTIAL), None)
    olds = {e.name for e in entries if not e.new}
    place = {e.name: k for k, e in enumerate(entries)}
    rows = []
    for r in sorted(found, key=lambda r: place.get(r["name"], -1)):
        r |= {"num_nodes": case.forest.num_nodes, "new": r["name"] not in olds, **labels}
        rows.append(r | {"speedup": first / r["seconds"] if first else None})
    return rows


def _candidates(case: Case, entries: Sequence[Entry], absent: list[dict]) -> Iterator[Candidate]:
    """Give the floor and every solver that can run here; the others go to `absent`."""
    yield peers.floor(case)
    for entry in entries:
        try:
            for candidate in entry.make(case):
                if not systems.on_host(case.queue.device) and candidate.clock == "wall":
                    candidate.most = 5  # of the host of a GPU, where time is short
                yield candidate
        except (ClhinesError, MissingError) as error:
            absent.append(peers.absent(case, entry.name, error))
        except Exception as error:  # whatever a peer's library does, the others are timed
            if entry.own:
                raise
            absent.append(peers.absent(case, entry.name, error))


# -- text --------------------------------------------------------------------------------------


def text(result: dict[str, Any]) -> str:
    """Return the rows of one figure as text."""
    head = f"{'panel':<26} {'cells':>7} {'solver':<37} {'us':>9} {'speed-up':>8} {'x floor':>7}"
    rows, lines = result["rows"], []
    for r in rows:
        speedup = "-" if r["speedup"] is None else table.narrow(r["speedup"], 8, 2)
        lines.append(
            f"{r['panel']:<26} {r['cells']:>7} {r['name']:<37} "
            f"{table.narrow(r['seconds'] * 1e6, 9, 1)} {speedup:>8} "
            f"{table.narrow(r['x_floor'], 7, 2)}"
        )
    return table.ruled(head, lines, [(r["panel"], r["cells"]) for r in rows])


def notes(result: dict[str, Any]) -> str:
    """Say what was set up, scaled and missing."""
    texts = [f"{name}: {value}" for name, value in result["setup"].items()]
    if result["record"]["load_before"] > 0.3:
        texts.append(f"load of other programs when it began: {result['record']['load_before']:.1f}")
    texts += [f"scaled: {text}" for text in dict.fromkeys(result["scaled"])]
    where: dict[tuple[str, str], int] = {}
    for m in result["missing"]:
        where[m["name"], m["reason"]] = where.get((m["name"], m["reason"]), 0) + 1
    texts += [f"missing: {name}: {why}; {n} cases" for (name, why), n in where.items()]
    return "\n".join(table.wrapped(texts))


def say(text: str) -> None:
    """Tell what is being done."""
    print(text, file=sys.stderr, flush=True)
