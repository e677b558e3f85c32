"""Method `serial`: no kernel; the reference on the host, behind the same interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from clhines.forest import Forest
from clhines.plan.plan import KernelSpec, Limits, Options, Part, Plan, as_int32


@dataclass(frozen=True)
class SerialSpec(KernelSpec):
    """What stands for a kernel's numbers where there is none; `real` is that of the values."""

    needs_factor: ClassVar[bool] = False
    real: str
    phase: str = "host"


def plan_serial(forest: Forest, method: str, real: str, limits: Limits, options: Options) -> Plan:
    """Plan `serial`: `clhines.reference` on the host; device order is natural order."""
    statistics: dict[str, int | float] = {"dependent_steps": 2 * int(forest.sizes.max())}
    tables = as_int32({}, forest.num_nodes)
    part = Part(SerialSpec(real), tables, forest.num_cells, 0, statistics)
    return Plan(forest, method, np.arange(forest.num_nodes, dtype=np.int32), (part,))
