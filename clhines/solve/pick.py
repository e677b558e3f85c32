"""Pick: plans a batch for one device, by the cost model or by measuring, and makes its engine."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pyopencl as cl

from clhines.device import trust
from clhines.errors import BuildError, DeviceMemoryError, InputError, StoreWarning, warn_caller
from clhines.forest import Forest
from clhines.plan.combine import with_few_programs
from clhines.plan.methods import candidate_plans, make_plan
from clhines.plan.plan import Option, Plan
from clhines.solve.engines.engine import Engine
from clhines.solve.engines.sliced import Sliced
from clhines.solve.engines.whole import Whole
from clhines.solve.memory import Room, size_text
from clhines.solve.tune import Tuning, load, measure, random_system, save, store_key

_log = logging.getLogger(__name__)
_Any = TypeVar("_Any", bound=Engine)
_USABLE = 0.9  # fraction of the device's memory that a batch may use


class Pick:
    """The plans of a batch on one device, and the engine for them; `memory` is in bytes."""

    def __init__(
        self,
        forest: Forest,
        method: str,
        dtype: np.dtype,
        queue: cl.CommandQueue,
        memory: int,
        tune: str,
        options: dict[str, Option],
    ) -> None:
        self.forest, self.dtype, self.queue, self.options = forest, dtype, queue, options
        self.limits = trust.limits(queue.device, "solve", dtype)
        name, largest = queue.device.name.strip(), queue.device.max_mem_alloc_size
        self.room = Room(name, memory, largest, dtype)
        self.tuning: Tuning | None = None
        self.heuristic = self.made = self._plans(method, options)
        self._why = "as given" if method != "auto" else "auto, by the cost model"
        if tune != "heuristic":
            self._tune(tune)
        plans, _ = self.made
        _log.info("method %s (%s): %s", plans[0].method, self._why, plans[0].summary)
        if len(plans) > 1:
            needed = size_text(sum(map(self.room.needed, plans)))
            what = "%d slices: the batch needs %s of %s"
            _log.info(what, len(plans), needed, size_text(self.room.memory))

    def engine(self) -> Whole | Sliced:
        """Return the engine of the plans; of the heuristic's plans if the others do not build."""
        try:
            return self._engine(*self.made)
        except BuildError:
            if self.made is self.heuristic:
                raise
            _log.info("the stored winner does not build; the choice of the cost model is used")
            return self._engine(*self.heuristic)  # the stored winner no longer builds

    def _engine(self, plans: list[Plan], bounds: np.ndarray) -> Whole | Sliced:
        if len(plans) > 1:
            return Sliced(self.forest, plans, bounds, self.queue, self.dtype, self.room)
        return Whole(plans[0], self.queue, self.dtype, self.room).build()

    def _plans(self, method: str, options: dict[str, Option]) -> tuple[list[Plan], np.ndarray]:
        def make(part: Forest) -> Plan:
            return make_plan(part, method, self.dtype, self.limits, **options)

        plans, bounds = self.room.plan(self.forest, make)
        return with_few_programs(plans), bounds

    def _tune(self, mode: str) -> None:
        """Plan again with the winner, stored or measured now, where it is another row."""
        key = store_key(self.queue.device, self.forest, self.dtype, self.options)
        if mode == "cached":
            winner = load(key)
            _log.info("stored winner for this batch and device: %s", winner or "none")
        else:
            self.tuning = self._measure()
            winner = self.tuning.best
            for candidate, seconds in self.tuning.rows:
                _log.info("measured %s: %.3f ms", candidate, seconds * 1e3)
            try:
                save(key, self.tuning)
            except OSError as error:
                where = f"{error.filename}: " if error.filename else ""
                message = f"the winner was not stored: {where}{error.strerror or error}"
                warn_caller(message, StoreWarning)
            if winner == self.tuning.heuristic:
                return
        if winner is None:
            return
        try:
            self.made = self._plans(winner.method, {**winner.options, **self.options})
            self._why = f"auto, {'stored' if mode == 'cached' else 'measured'}: {winner}"
        except (InputError, DeviceMemoryError):
            return  # it cannot serve this device, or one of the slices

    def _measure(self) -> Tuning:
        """Time the candidates on the forest, or on its first slice."""
        forest, (plans_made, bounds) = self.forest, self.made
        if len(plans_made) > 1:
            forest = forest.subset(np.arange(bounds[1]))
        plans = list(candidate_plans(forest, self.dtype, self.limits, **self.options))
        most = max(self.room.needed(plan) for _, plan in plans)
        sets = 2 if 2 * most <= self.room.memory else 1
        systems = [random_system(forest, self.dtype, seed) for seed in range(sets)]
        keep = sets * most * len(plans) <= self.room.memory // 4
        return measure(self.queue, plans, lambda plan: self.ready_to_time(plan, systems), keep)

    def ready_to_time(
        self, plan: Plan, systems: list[list[np.ndarray]]
    ) -> Callable[[int], list[cl.Event]]:
        """Put a plan and the systems on the device; returns a function that enqueues one solve."""
        if not self.room.fits(plan):
            raise DeviceMemoryError(f"{plan.method} needs {size_text(self.room.needed(plan))}")
        return Whole(plan, self.queue, self.dtype, self.room).ready_to_time(systems)


def engine_for(
    forest: Forest,
    method: str,
    dtype: np.dtype,
    queue: cl.CommandQueue,
    max_memory: int | None,
    tune: str,
    options: dict[str, Option],
) -> tuple[Engine, Tuning | None]:
    """Return the engine for one device, and the measured times if it was tuned."""
    memory = max_memory or int(queue.device.global_mem_size * _USABLE)
    pick = Pick(forest, method, dtype, queue, memory, tune, options)
    return logged(pick.engine()), pick.tuning


def logged(engine: _Any) -> _Any:
    if _log.isEnabledFor(logging.INFO):  # the memory takes time to add up
        needed = "; ".join(map(str, engine.memory))
        _log.info("engine %s: %s", type(engine).__name__.lower(), needed)
    return engine
