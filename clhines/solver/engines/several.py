"""The engine of several devices, each with a queue and a plain solver of its own cells."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.core.checks import shown
from clhines.core.errors import (
    BuildError,
    DeviceError,
    DeviceMemoryError,
    DeviceShareError,
    InputError,
)
from clhines.solver.device import devices
from clhines.solver.engines.engine import DeviceOrder, SolveEngine
from clhines.solver.engines.memory import Memory
from clhines.solver.engines.pivots import BadPivots
from clhines.solver.factors import Factors
from clhines.solver.forest import Forest

OneDevice: TypeAlias = cl.Device | cl.CommandQueue | str
PlainSolver: TypeAlias = Any  # a `Solver`, which imports this module
_T = TypeVar("_T")


class Several(SolveEngine):
    """Engine: ranges of cells on several devices at the same time, from NumPy to NumPy.

    ``make(part, queue)`` is the solver of some cells on one device; `shares` are fractions of the
    nodes, default equal, in the end 0 for a device without cells.
    """

    def __init__(
        self,
        forest: Forest,
        devices: Sequence[OneDevice],
        dtype: np.dtype,
        shares: Sequence[float] | None,
        make: Callable[[Forest, cl.CommandQueue], PlainSolver],
    ) -> None:
        self.forest = forest
        self._queues = _queues(devices, dtype)
        self._threads: ThreadPoolExecutor | None = None
        self.seconds: list[float] = []
        edges = cut(forest, _numbers(shares, len(self._queues)))
        nodes = np.diff(forest.cell_offsets[edges])
        self.shares = (nodes / forest.num_nodes).tolist()
        used = np.flatnonzero(nodes)
        self._place = used.tolist()  # of each solver among the devices given
        self.cells = np.append(edges[:-1][used], forest.num_cells)
        self.nodes = forest.cell_offsets[self.cells]
        self.solvers = [self._solver(k, make) for k in range(len(used))]
        self.plan, self.queue = self.solvers[0].plan, self.solvers[0].queue
        self.num_slices = max(solver.num_slices for solver in self.solvers)

    def _solver(
        self, k: int, make: Callable[[Forest, cl.CommandQueue], PlainSolver]
    ) -> PlainSolver:
        first, end = (int(c) for c in self.cells[k : k + 2])
        whole = end - first == self.forest.num_cells
        part = self.forest if whole else self.forest.subset(np.arange(first, end))
        try:
            return make(part, self._queues[self._place[k]])
        except BuildError as error:  # its source has numbers of its own
            raise BuildError(f"{self._name(k)}: {error}") from error
        except DeviceError as error:
            text = self._of_the_batch(str(error), first)
            raise type(error)(f"{self._name(k)}: {text}") from error
        except InputError as error:
            raise InputError(self._of_the_batch(str(error), first)) from error

    def _of_the_batch(self, text: str, first: int) -> str:
        offsets = {"cell": first, "node": int(self.forest.cell_offsets[first])}
        return re.sub(
            r"\b(cell|node) (\d+)\b", lambda m: f"{m[1]} {int(m[2]) + offsets[m[1]]}", text
        )

    def _name(self, k: int) -> str:
        first, end = self.cells[k : k + 2]
        device = self._queues[self._place[k]].device
        return f"devices[{self._place[k]}], {devices.label(device)}, cells {first} to {end - 1}"

    @property
    def memory(self) -> list[Memory]:
        return [one for solver in self.solvers for one in solver.memory]

    @property
    def source(self) -> str:
        return "\n".join(dict.fromkeys(solver.source for solver in self.solvers))

    @property
    def kernel_events(self) -> list[cl.Event]:  # type: ignore[override]
        return [event for solver in self.solvers for event in solver.kernel_events]

    @property
    def may_lose(self) -> bool:
        return any(solver.engine.may_lose for solver in self.solvers)

    def describe(self) -> str:
        """See `SolveEngine`; a line for each device: share, cells, nodes, method, slices."""
        lines = [f"{len(self.solvers)} devices)"]
        for k, (queue, share) in enumerate(zip(self._queues, self.shares, strict=True)):
            what = "left out: its share is less than a cell"
            if k in self._place:
                s = self._place.index(k)
                solver = self.solvers[s]
                what = f"{solver.forest.num_cells} cells, {solver.forest.num_nodes} nodes"
                what += f", {solver.plan.method}"
                what += f", {solver.num_slices} slices" if solver.num_slices > 1 else ""
            lines.append(f"{share:6.1%}  {what}, {devices.label(queue.device)}")
        return "\n".join(lines)

    # -- all devices at once -------------------------------------------------------------------

    def each(
        self, work: Callable[[int], _T], threads: bool = False, solves: bool = False
    ) -> list[_T]:
        """Do ``work(k)`` for every solver, even if others fail; `threads`: all at the same time."""

        def caught(k: int) -> _T | Exception:
            try:
                return work(k)
            except Exception as error:
                return error

        if threads and len(self.solvers) > 1:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(len(self.solvers), "clhines-share")
            done = list(self._threads.map(caught, range(len(self.solvers))))
        else:
            done = [caught(k) for k in range(len(self.solvers))]
        failed = {k: one for k, one in enumerate(done) if isinstance(one, Exception)}
        if failed:
            self._raise(failed, done, solves)
        return cast("list[_T]", done)

    def _raise(self, failed: dict[int, Exception], done: Sequence[object], solves: bool) -> None:
        if all(isinstance(error, InputError) for error in failed.values()):
            k, error = next(iter(failed.items()))
            raise InputError(f"{self._name(k)}: {error}") from error
        if len(failed) == len(done):
            k, error = next(iter(failed.items()))
            if all(isinstance(error, DeviceMemoryError) for error in failed.values()):
                raise DeviceMemoryError(f"{self._name(k)}: {error}") from error
        solved = np.ones(self.forest.num_cells, bool)
        for k in failed:
            solved[slice(*self.cells[k : k + 2])] = False
        text = "; ".join(
            f"{self._name(k)}: " + f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
            for k, error in failed.items()
        )
        left = int(solved.sum())
        if solves and left:
            text += f"; the other {left} cells of {len(solved)} are solved: see .result and .solved"
            text += " of this error"
        raise DeviceShareError(
            text,
            {self._place[k]: error for k, error in failed.items()},
            [None if k in failed else one for k, one in enumerate(done)],
            solved & solves,
        ) from next(iter(failed.values()))

    def of(self, k: int, a: np.ndarray) -> np.ndarray:
        return a[..., self.nodes[k] : self.nodes[k + 1]]

    # -- natural order -------------------------------------------------------------------------

    def device_order(self, what: str) -> DeviceOrder:
        raise InputError(
            f"{what} works on one device, not on {len(self._queues)}; use those of the solvers in "
            "solver.parts"
        )

    def solve_host(self, arrays: dict[str, np.ndarray], target: np.ndarray) -> None:
        def work(k: int) -> float:
            begin = time.perf_counter()
            system: dict[str, Any] = {name: self.of(k, a) for name, a in arrays.items()}
            out = system["b"] if target is arrays["b"] else self.of(k, target)
            self.solvers[k].solve(**system, out=out, check=False)
            return time.perf_counter() - begin

        self.seconds = self.all_solved(work, target)

    def all_solved(self, work: Callable[[int], _T], target: np.ndarray) -> list[_T]:
        """Do solves that end in a NumPy array, which gets NaN where it is not solved."""
        try:
            return self.each(work, threads=True, solves=True)
        except DeviceShareError as error:
            target[..., np.repeat(~error.solved, self.forest.sizes)] = np.nan
            error.result = target
            raise

    def bad_pivots(self) -> BadPivots:
        return self.joined(self.each(lambda k: self.solvers[k].bad_pivots(), threads=True))

    def joined(self, parts: list[BadPivots]) -> BadPivots:
        starts = zip(parts, self.cells.tolist(), self.nodes.tolist(), strict=False)
        return BadPivots.joined([part.moved(cell, node) for part, cell, node in starts])

    def factor(self, arrays: dict[str, np.ndarray | cla.Array]) -> Any:
        def work(k: int) -> Factors:
            system = {name: self.of(k, a) for name, a in arrays.items()}
            return self.solvers[k].factor(**system, check=False)

        return SeveralFactors(self, self.each(work, threads=True))


class SeveralFactors:
    """`EliminatedMatrix` of `Several`, not in device order: one of `factors` per used device."""

    def __init__(self, engine: Several, factors: list[Factors]) -> None:
        self.engine, self.factors = engine, factors

    def transposed(self) -> SeveralFactors:
        return SeveralFactors(self.engine, [one.transposed() for one in self.factors])

    def quick(self, b: object, out: object, shape: tuple[int, ...]) -> None:
        return None

    def solve_host(self, b: np.ndarray, target: np.ndarray) -> None:
        def work(k: int) -> None:
            part = self.engine.of(k, target)
            here = part if target is b else self.engine.of(k, b)
            self.factors[k].solve(here, out=part, check=False)

        self.engine.all_solved(work, target)

    def solve_device(self, b: cla.Array, target: cla.Array) -> None:
        self.engine.device_order("solve() with device arrays")

    def bad_pivots(self) -> BadPivots:
        return self.engine.joined(
            self.engine.each(lambda k: self.factors[k].bad_pivots(), threads=True)
        )

    def matrix_on_host(self) -> dict[str, np.ndarray]:
        matrices = [one.eliminated.matrix_on_host() for one in self.factors]
        return {name: np.concatenate([one[name] for one in matrices]) for name in matrices[0]}


def _queues(chosen: Sequence[OneDevice], dtype: np.dtype) -> list[cl.CommandQueue]:
    if not isinstance(chosen, (list, tuple)) or not chosen:
        raise InputError(
            f"devices={shown(chosen)}; expected a list of one or more pyopencl devices, index "
            "pairs like '0:1', parts of names, or queues"
        )
    queues: list[cl.CommandQueue] = []
    places: dict[cl.Device, int] = {}
    for k, one in enumerate(chosen):
        if isinstance(one, cl.CommandQueue):
            if one in queues:
                raise InputError(f"devices[{queues.index(one)}] and devices[{k}] are one queue")
            queues.append(devices.given_queue(one, None, dtype))
            continue
        device = devices.choose(one, dtype)
        if device in places:
            name = devices.label(device)
            raise InputError(f"devices[{places[device]}] and devices[{k}] are both {name}")
        places[device] = k
        queues.append(devices.make_queue(device))
    return queues


def _numbers(shares: Sequence[float] | None, count: int) -> np.ndarray:
    if shares is None:
        return np.ones(count)
    try:
        numbers = np.array(shares, np.float64)
    except (TypeError, ValueError):
        numbers = np.array(np.nan)
    good = numbers.shape == (count,) and np.isfinite(numbers).all() and (numbers >= 0).all()
    if not good or not numbers.any():
        raise InputError(
            f"shares={shown(shares)}; expected {count} finite numbers, 0 or more and not all 0"
        )
    return numbers / numbers.max()  # so that no sum of them overflows


def cut(forest: Forest, shares: np.ndarray) -> np.ndarray:
    """First cell of each range, and the end, of a batch cut by shares of the nodes."""
    targets = np.cumsum(shares)[:-1] * (forest.num_nodes / shares.sum())
    offsets = forest.cell_offsets
    after = np.clip(np.searchsorted(offsets, targets), 1, forest.num_cells)
    nearer = targets - offsets[after - 1] < offsets[after] - targets
    cells = np.where(nearer, after - 1, after)
    return np.concatenate(([0], cells, [forest.num_cells]))
