"""Linear equations that voltages are part of, in the steps of a device: see `LinearSystems`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyopencl.array as cla

from clhines.arrays import offsets
from clhines.device import devices, program
from clhines.device.arrays import to_device
from clhines.errors import InputError
from clhines.model.linear import STATE, LinearSystems
from clhines.plan.kernel_spec import TemplateSpec
from clhines.plan.plan import real_name
from clhines.simulate.engines.arena_run import ArenaRun
from clhines.simulate.kinds.spec import check_range

# Elimination takes n³/3 multiplications and additions in each step, some ms of a core
MOST = 512  # nodes and unknowns of a system
_GROUP = 256  # work-items for a system


@dataclass(frozen=True)
class LinearSpec(TemplateSpec):
    """``linear.mako``: `group` work-items, a power of 2, solve a system."""

    template: ClassVar[str] = "simulate/linear"
    kernels: ClassVar[dict[str, tuple[str, ...]]] = {
        "solve_systems": (
            "int num_places, int num_trees, const int *restrict first",
            "const int *restrict scratch_first, const int *restrict begin",
            "const int *restrict entry, const int *restrict place, const int *restrict outer",
            "const int *restrict tree",
            "const int *restrict column, const int *restrict near",
            "const real *restrict implicit_g, const real *restrict explicit_g",
            "const real *restrict b, const real *v, const real *x",
            "real *force, real *z, real *scratch, real *current, real *mem",
        ),
        "add_currents": (
            "int num_places, int num_trees, int num_columns, const int *restrict tree_of",
            "const real *restrict current, real *x",
        ),
    }
    real: str
    group: int


class LinearKernels:
    """The kernels that add to the solution of cells alone what linear equations change in it."""

    def __init__(self, run: ArenaRun, systems: LinearSystems) -> None:
        if systems.largest > MOST:
            raise InputError(
                f"linear equations join {systems.largest} nodes and unknowns in one system; "
                f"expected at most {MOST}, or engine='reference'"
            )
        self._run, self._systems = run, systems
        size = np.diff(systems.first).astype(np.int64)
        self._scratch_first = offsets(size * (size + 1))
        if self._scratch_first[-1] >= 1 << 31:
            raise InputError("linear equations need more than 2**31 numbers; expected fewer")
        for values in (systems.implicit, systems.explicit, systems.b):
            check_range("a value of linear equations", values, run.dtype)

    def bind(self, place: np.ndarray, gather: np.ndarray, x: cla.Array) -> None:
        """Put all on the device; `x` is the solution, with a row for each column after it."""
        run, s, queue = self._run, self._systems, self._run.queue
        own, is_node, count = place[s.node], s.node >= 0, len(s.node)
        most = 1 if devices.is_cpu(queue.device) else min(_GROUP, run.limits.max_work_group)
        group = 1 << (most.bit_length() - 1)
        near = np.arange(count)
        near[1:][s.tree[1:] == s.tree[:-1]] = 0
        tables = {
            "first": s.first, "scratch_first": self._scratch_first, "begin": s.begin,
            "entry": s.entry, "place": np.where(is_node, own, -1 - self._places()),
            "outer": np.where(s.outer < 0, -1, place[s.outer]),
            "tree": s.tree, "column": s.column, "near": np.maximum.accumulate(near),
            "tree_of": np.where(gather < 0, -1, s.tree_of[gather]),
        }  # fmt: skip
        numbers = {"implicit_g": s.implicit, "explicit_g": s.explicit, "b": s.b}
        rooms = {
            "force": count, "z": count, "scratch": int(self._scratch_first[-1]),
            "current": max(s.columns * s.trees, 1),
        }  # fmt: skip
        given: dict[str, Any] = {
            "num_places": np.int32(len(gather)), "num_trees": np.int32(s.trees),
            "num_columns": np.int32(s.columns), "x": x, "mem": run.mem,
            **{name: to_device(queue, a, np.int32) for name, a in tables.items()},
            **{name: to_device(queue, a, run.dtype) for name, a in numbers.items()},
            **{name: cla.zeros(queue, size, run.dtype) for name, size in rooms.items()},
        }  # fmt: skip
        spec = LinearSpec(real_name(run.dtype), group)
        self._built = program.build(queue.context, spec), spec
        self._given, self._group = given, group

    def launches(self, v: cla.Array) -> list[Callable[[], object]]:
        """Return what a step launches after its solve; `v` are the voltages at its begin."""
        queue, s = self._run.queue, self._systems
        given = {**self._given, "v": v}
        solve, add = (program.bind(*self._built, name, given) for name in LinearSpec.kernels)
        (total,), (group,) = devices.small_groups(queue.device, int(given["num_places"]))
        systems = (len(s.first) - 1) * self._group
        return [
            partial(solve.launch, queue, systems, self._group),
            partial(add.launch, queue, total, group),
        ]

    def _places(self) -> np.ndarray:
        """(rows,) int64: where in ``mem`` the unknowns are; 0 of nodes."""
        run, s = self._run, self._systems
        layout, offset = run.kernels.layout, run.arenas["mem"].offset
        found = np.zeros(len(s.node), np.int64)
        for k in np.unique(s.kind[s.kind >= 0]).tolist():
            states, some = [*run.variables.states[k]], np.flatnonzero(s.kind == k)
            columns = layout.columns(k, run.model.kinds[k])
            at = columns.at(s.instance[some], states.index(STATE), len(states))
            found[some] = offset[f"states_{k}"] + at
        return found
