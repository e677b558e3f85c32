"""Artificial cells on a GPU: they run one launch ahead of the cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from clhines.core.arrays import offsets
from clhines.simulator.device import launches
from clhines.simulator.engines.arena_run import ArenaRun
from clhines.simulator.kinds import layouts
from clhines.simulator.kinds.kind import fields_of
from clhines.simulator.kinds.spec import ArenaSpec
from clhines.simulator.model.model import Model
from clhines.simulator.model.needs import artificial_sources
from clhines.simulator.state.decisions import MAX_EPOCH
from clhines.simulator.state.sources import steps_between, steps_of_cells
from clhines.solver.device import devices, program
from clhines.solver.device.arrays import to_device

MOST_TOGETHER = 4096  # artificial cells in one work-group, if there is a choice
_GROUP = 256


@dataclass(frozen=True)
class ArtificialSpec(ArenaSpec):
    """Spec of the kernel for artificial cells; if `together`, one work-group advances all."""

    template: ClassVar[str] = "simulator/artificial"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "artificial": (
            "int num_steps, int first_time, int record_row, int num_layers, int num_emitters",
            "const int *restrict loose_targets, const int *restrict first_of_layer",
            "const int *restrict loose_sources, const double *restrict step_begin, real dt",
            "double half_dt, int capacity, const real *v, int *restrict spike_count",
            "int *restrict spike_source, double *restrict spike_time, int num_mem",
            "const int *restrict mem_first, const int *restrict mem_column",
            "const int *restrict mem_index, real *restrict mem_rows",
            "real *mem, double *clock, int *ints, const int *at",
        )
    }
    together: bool = False

    @classmethod
    def of(cls, spec: ArenaSpec, together: bool) -> ArtificialSpec:
        kinds = tuple(kind for kind in spec.kinds if kind.kind == "artificial")
        options = {"kinds": kinds, "grid": False, "noise": "", "sets_v": False, "sums": False}
        return cls(**{**fields_of(spec), **options, "together": together})


def epoch_of(model: Model) -> tuple[int, bool]:
    """Return the steps per launch, and whether a single work-group advances all artificial cells.

    A launch is so short that its events are due in later launches. There are two exceptions: events
    from artificial cells, which are one launch ahead, and events without delay within a cell, whose
    targets are processed layer after layer.
    """
    cell_steps = steps_of_cells(model)
    loose = artificial_sources(model)[model.netcons.source]
    artificial = np.array([layouts.is_artificial(kind) for kind in model.kinds], bool)
    loose_steps = steps_between(model, loose & artificial[model.netcons.kind])
    epoch = MAX_EPOCH if cell_steps is None else min(max(cell_steps, 1), MAX_EPOCH)
    played = any(layouts.is_artificial(model.kinds[p.kind]) for p in model.played)
    if loose_steps is None or loose_steps >= epoch:
        return epoch, played
    total = sum(kind.count for kind in model.kinds if layouts.is_artificial(kind))
    if total > MOST_TOGETHER and loose_steps:
        return loose_steps, played
    return epoch, True


class Artificial:
    """Launch the kernel for artificial cells, one epoch ahead of the kernels for other cells.

    Artificial cells have no voltage: they depend only on each other and on events from earlier
    launches. A single work-group advances all of them step by step if they send each other events
    that are due within a launch, if they are recorded, or if they have played parameters.
    """

    def __init__(self, run: ArenaRun, together: bool) -> None:
        self._run, self._together = run, together
        loose = layouts.loose_targets(run.model, run.wires)
        layers = [layer[np.isin(layer, loose)] for layer in run.wires.layers]
        layers = [layer for layer in layers if len(layer)]
        self.count = len(loose)
        sources = np.flatnonzero(artificial_sources(run.model))
        tables = {
            "loose_targets": np.concatenate([np.zeros(0, np.int64), *layers]),
            "first_of_layer": offsets([len(layer) for layer in layers]),
            "loose_sources": sources,
        }
        num = np.int32
        self._arguments: dict[str, Any] = {
            "num_steps": num(0), "first_time": num(0), "record_row": num(0),
            "num_layers": num(len(layers)), "num_emitters": num(len(sources)),
            **{name: to_device(run.queue, a, num) for name, a in tables.items()},
        }  # fmt: skip

    def compile(self, spec: ArenaSpec, at: np.ndarray) -> None:
        self._spec = spec
        self._arguments["at"] = to_device(self._run.queue, at, np.int32)

    def bind(self, v: Any, arguments: dict[str, Any]) -> None:
        self._unbound: dict[str, Any] | None = {**self._arguments, **arguments, "v": v}
        kinds, records = self._run.model.kinds, self._run.rows.reducers.sources
        is_recorded = (r.kind >= 0 and layouts.is_artificial(kinds[r.kind]) for r in records)
        self._now = self._together or any(is_recorded)

    def launch(self, count: int, first_time: int, row: int) -> None:
        queue, unbound = self._run.queue, self._unbound
        if unbound is not None:
            spec, changes = ArtificialSpec.of(self._spec, self._now), tuple(self._arguments)[:3]
            built = program.build(queue.context, spec)
            self._kernel = launches.bind(built, spec, "artificial", unbound, changes)
            self._unbound = None
        self._kernel.change(count, first_time, row)
        (items,), (group,) = devices.small_groups(queue.device, self.count)
        if self._now:
            items = group = min(_GROUP, self._run.limits.max_work_group)
        self._kernel.launch(queue, items, group)
