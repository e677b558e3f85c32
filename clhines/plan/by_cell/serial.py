"""Method `serial`: no kernel; the reference on the host, behind the same interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from clhines.forest import Forest
from clhines.plan.contract import KernelSpec
from clhines.plan.plan import Limits, Part, Plan, as_int32


@dataclass(frozen=True)
class SerialSpec(KernelSpec):
    """What stands for a kernel's numbers where there is none; `real` is that of the values."""

    needs_factor: ClassVar[bool] = False
    phase: str = "host"


def plan_serial(
    forest: Forest, method: str, real: str, limits: Limits, options: dict[str, Any]
) -> Plan:
    """Plan `serial`: `clhines.reference` on the host; device order is natural order."""
    statistics: dict[str, int | float] = {"dependent_steps": 2 * int(forest.sizes.max())}
    tables = as_int32({}, forest.num_nodes)
    part = Part(SerialSpec(real, True, 1, 1), tables, forest.num_cells, 0, statistics)
    return Plan(forest, method, np.arange(forest.num_nodes, dtype=np.int32), (part,))
