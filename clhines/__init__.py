"""clhines: batches of Hines matrices solved on any OpenCL device.

The names below are the public interface; `Solver` is imported when first used, so that forests,
morphologies and plans work without pyopencl.
"""

from __future__ import annotations

from typing import Any

from clhines.errors import (
    BuildError,
    CableError,
    ClhinesError,
    DeviceError,
    DeviceMemoryError,
    FileFormatError,
    ForestError,
    InputError,
    MorphologyError,
    PivotError,
)
from clhines.forest import Forest
from clhines.morphology import Morphology
from clhines.plan import METHODS, Plan, make_plan

__version__ = "0.1.0"
__all__ = [
    "METHODS",
    "BuildError",
    "CableError",
    "ClhinesError",
    "DeviceError",
    "DeviceMemoryError",
    "FileFormatError",
    "Forest",
    "ForestError",
    "InputError",
    "Morphology",
    "MorphologyError",
    "PivotError",
    "Plan",
    "Solver",
    "make_plan",
]


def __getattr__(name: str) -> Any:
    if name == "Solver":
        from clhines.solver import Solver

        return Solver
    raise AttributeError(f"module 'clhines' has no attribute {name!r}")
