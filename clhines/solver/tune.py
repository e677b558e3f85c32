"""Time candidates of `auto` on a device, and make the engine of the fastest."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from numpy.typing import DTypeLike

from clhines.core.errors import BuildError, DeviceMemoryError
from clhines.solver import reference
from clhines.solver.device import copies, trust
from clhines.solver.device.timing import TimedRun, seconds_in_turns
from clhines.solver.engines.engine import SolveEngine
from clhines.solver.engines.lanes import ChainKernels, LanesEngine
from clhines.solver.engines.memory import Room, no_memory
from clhines.solver.engines.whole import Whole
from clhines.solver.forest import Forest
from clhines.solver.plan.auto import Candidate
from clhines.solver.plan.by_cell.lanes import ChainBlocks, blocks_of
from clhines.solver.plan.methods import candidate_plans, make_plan
from clhines.solver.plan.plan import Option, Plan

_TIE = 0.01  # the cost model's choice wins if it is slower than the fastest by at most this share


@dataclass(frozen=True)
class Tuning:
    rows: tuple[tuple[Candidate, float], ...]  # s per solve, in the cost model's order
    heuristic: Candidate  # the cost model's choice
    best: Candidate  # the fastest, or `heuristic` if it is slower by at most `_TIE`


def random_system(forest: Forest, dtype: DTypeLike, seed: int) -> list[np.ndarray]:
    """Return random d, u, b, (n,) each; d exceeds the row's other magnitudes by 0.5 to 1.5."""
    rng = np.random.default_rng(seed)
    n = forest.num_nodes
    u = -rng.uniform(0.1, 1.0, n)
    d = rng.uniform(0.5, 1.5, n) + reference.multiply(forest, np.zeros(n), -u, np.ones(n))
    return [a.astype(dtype) for a in (d, u, rng.uniform(-1.0, 1.0, n))]


def measure(
    queue: cl.CommandQueue,
    candidates: Sequence[tuple[Candidate, Plan]],
    prepare: Callable[[Plan], TimedRun],
    keep: bool = True,
) -> Tuning:
    """Time the candidates; return their seconds and the fastest one.

    The cost model's choice comes first. Plans that do not fit into memory or do not build are left
    out. ``prepare(plan)`` returns the run to time: once per plan with `keep`, otherwise again in
    each round.
    """
    ready: list[Callable[[], TimedRun]] = []
    able: list[Candidate] = []
    refused: DeviceMemoryError | BuildError | None = None
    for candidate, plan in candidates:
        try:
            launch = prepare(plan)
        except (DeviceMemoryError, BuildError) as error:
            refused = refused or error
            continue
        able.append(candidate)
        ready.append(partial(lambda made: made, launch) if keep else partial(prepare, plan))
        del launch
    if refused is not None and not able:
        raise refused
    rows = tuple(zip(able, seconds_in_turns(queue, ready), strict=True))
    least = min(seconds for _, seconds in rows)
    near = [candidate for candidate, seconds in rows if seconds <= least * (1 + _TIE)]
    heuristic, fastest = candidates[0][0], min(rows, key=lambda row: row[1])[0]
    return Tuning(rows, heuristic, heuristic if heuristic in near else fastest)


_log = logging.getLogger(__name__)
trust.register("solve", "solves in vectors", "clhines.solver.known_answers")
_Any = TypeVar("_Any", bound=SolveEngine)
_USABLE = 0.9  # share of device memory that a batch may use


class Pick:
    def __init__(
        self,
        forest: Forest,
        method: str,
        dtype: np.dtype,
        queue: cl.CommandQueue,
        tune: str,
        options: dict[str, Option],
    ) -> None:
        self.forest, self.dtype, self.queue, self.options = forest, dtype, queue, options
        self.limits = trust.limits(queue.device, "solve", dtype)
        device = queue.device
        memory = int(device.global_mem_size * _USABLE)
        self.room = Room(device.name.strip(), memory, device.max_mem_alloc_size, dtype)
        self.tuning: Tuning | None = None
        self._chosen = method == "auto"
        why = "as given"
        if method == "auto" and tune == "measure":
            self.tuning = self._measure()
            best = self.tuning.best
            for candidate, seconds in self.tuning.rows:
                _log.info("measured %s: %.3f ms", candidate, seconds * 1e3)
            method, options = best.method, {**best.options, **options}
            why = f"auto, measured: {best}"
        elif method == "auto":
            why = "auto, by the cost model"
        self.plan = make_plan(forest, method, dtype, self.limits, **options)
        self.room.check(self.plan)
        _log.info("method %s (%s): %s", self.plan.method, why, self.plan.summary)

    def engine(self) -> Whole:
        limits = self.limits if self._chosen else None
        return Whole(self.plan, self.queue, self.dtype, self.room, limits).build()

    def _measure(self) -> Tuning:
        plans = list(candidate_plans(self.forest, self.dtype, self.limits, **self.options))
        most = max(self.room.needed(plan) for _, plan in plans)
        sets = 2 if 2 * most <= self.room.memory else 1
        systems = [random_system(self.forest, self.dtype, seed) for seed in range(sets)]
        keep = sets * most * len(plans) <= self.room.memory // 4
        return measure(self.queue, plans, lambda plan: self.ready_to_time(plan, systems), keep)

    def ready_to_time(self, plan: Plan, systems: list[list[np.ndarray]]) -> TimedRun:
        """Return a function of k that solves system k, by a new engine for the plan."""
        self.room.check(plan)
        engine = Whole(plan, self.queue, self.dtype, self.room).build()
        try:
            return natural_solves(engine, systems)
        except cl.MemoryError as error:
            raise no_memory(self.queue, engine.memory) from error


def natural_solves(engine: SolveEngine, systems: list[list[np.ndarray]]) -> TimedRun:
    """Return a function that solves system ``k % len(systems)``, d, u, b in natural order.

    On a CPU it solves from NumPy to NumPy, and waits. On other devices the arrays are on the
    device, as copies over the bus take the same time with every method.
    """
    queue, count = engine.queue, len(systems)
    if copies.shares_memory(queue.device):
        out = [np.empty_like(b) for _, _, b in systems]

        def solve(k: int) -> list[cl.Event]:
            d, u, b = systems[k % count]
            engine.solve_host({"d": d, "u": u, "b": b}, out[k % count])
            return []

        return solve
    sets = [[cla.to_device(queue, a) for a in (*one, np.zeros_like(one[-1]))] for one in systems]

    def enqueue(k: int) -> list[cl.Event]:
        d, u, b, x = sets[k % count]
        engine.solve_device({"d": d, "u": u, "b": b}, x)
        return engine.kernel_events

    return enqueue


def engine_for(
    forest: Forest,
    method: str,
    dtype: np.dtype,
    queue: cl.CommandQueue,
    tune: str,
    options: dict[str, Option],
) -> tuple[SolveEngine, Tuning | None]:
    is_free = method == "auto" and not options
    blocks = _chain_blocks(forest, dtype, queue.device) if is_free else None
    pick = partial(Pick, forest, method, dtype, queue, tune, options)

    def in_lanes(blocks: ChainBlocks, make: Callable[[], SolveEngine], lazy: bool) -> LanesEngine:
        limits = trust.limits(queue.device, "solve", dtype)
        kernels = ChainKernels(forest, blocks, limits, dtype, queue)
        return logged(LanesEngine(kernels, make, lazy))

    if blocks is not None and tune == "heuristic" and blocks.are_long:
        return in_lanes(blocks, lambda: logged(pick().engine()), True), None
    picked = pick()
    engine = logged(picked.engine())
    if blocks is None:
        return engine, picked.tuning
    return in_lanes(blocks, lambda: engine, False), picked.tuning


def _chain_blocks(forest: Forest, dtype: np.dtype, device: cl.Device) -> ChainBlocks | None:
    blocks = blocks_of(forest) if copies.shares_memory(device) else None
    if blocks is None or blocks.size * dtype.itemsize > device.max_mem_alloc_size:
        return None
    return blocks


def logged(engine: _Any) -> _Any:
    if _log.isEnabledFor(logging.INFO):  # the memory takes time to add up
        name = type(engine).__name__.removesuffix("Engine").lower()
        _log.info("engine %s: %s", name, engine.memory)
    return engine
