"""clhines: batches of Hines matrices solved on any OpenCL device.

The names below are the public interface; `Solver`, `Factors` and `solve_tridiagonal` are imported
when first used, so that forests, morphologies and plans work without pyopencl.
"""

from __future__ import annotations

from typing import Any

from clhines.cable import Cable, discretise
from clhines.errors import (
    BuildError,
    CableError,
    ClhinesError,
    DeviceError,
    DeviceMemoryError,
    ForestError,
    InputError,
    MorphologyError,
    PivotError,
)
from clhines.forest import Forest
from clhines.morphology import Morphology, read_swc, sample_cells
from clhines.parts import Plan
from clhines.plan import METHODS, make_plan

__version__ = "0.1.0"
__all__ = [
    "METHODS",
    "BuildError",
    "Cable",
    "CableError",
    "ClhinesError",
    "DeviceError",
    "DeviceMemoryError",
    "Factors",
    "Forest",
    "ForestError",
    "InputError",
    "Morphology",
    "MorphologyError",
    "PivotError",
    "Plan",
    "Solver",
    "discretise",
    "make_plan",
    "read_swc",
    "sample_cells",
    "solve_tridiagonal",
]


def __getattr__(name: str) -> Any:
    if name in ("Factors", "Solver"):
        from clhines import solver

        return getattr(solver, name)
    if name == "solve_tridiagonal":
        from clhines import tridiagonal

        return tridiagonal.solve_tridiagonal
    raise AttributeError(f"module 'clhines' has no attribute {name!r}")
