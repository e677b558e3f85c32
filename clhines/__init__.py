"""clhines: batches of Hines matrices solved on any OpenCL device.

The names below are the public interface. `Solver`, `Factors` and `solve_tridiagonal` are imported
when first used, so that forests, morphologies and plans work without pyopencl; plans as well, so
that ``python -m clhines.layout`` finds its module not yet imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from clhines.cable import Cable, discretise
from clhines.errors import (
    AccuracyWarning,
    BuildError,
    CableError,
    ClhinesError,
    DeviceError,
    DeviceMemoryError,
    ForestError,
    HostMemoryError,
    InputError,
    MorphologyError,
    PivotError,
    RankError,
    RefinementWarning,
    RepairWarning,
    ShareError,
    SimulationError,
    SpikeOverflowError,
    StoreWarning,
)
from clhines.forest import Forest
from clhines.morphology import Morphology, read_swc, sample_cells

if TYPE_CHECKING:
    from clhines.factors import Factors
    from clhines.mechanisms import Mechanism
    from clhines.network import Network
    from clhines.parts import Plan
    from clhines.plan import METHODS, make_plan
    from clhines.plasticity import STDP
    from clhines.simulation import Simulation
    from clhines.solver import Solver
    from clhines.tridiagonal import solve_tridiagonal

__version__ = "0.1.0"
__all__ = [
    "METHODS",
    "STDP",
    "AccuracyWarning",
    "BuildError",
    "Cable",
    "CableError",
    "ClhinesError",
    "DeviceError",
    "DeviceMemoryError",
    "Factors",
    "Forest",
    "ForestError",
    "HostMemoryError",
    "InputError",
    "Mechanism",
    "Morphology",
    "MorphologyError",
    "Network",
    "PivotError",
    "Plan",
    "RankError",
    "RefinementWarning",
    "RepairWarning",
    "ShareError",
    "Simulation",
    "SimulationError",
    "Solver",
    "SpikeOverflowError",
    "StoreWarning",
    "discretise",
    "make_plan",
    "read_swc",
    "sample_cells",
    "solve_tridiagonal",
]


_LATER = {
    "METHODS": "plan",
    "STDP": "plasticity",
    "Factors": "factors",
    "Mechanism": "mechanisms",
    "Network": "network",
    "Plan": "parts",
    "Simulation": "simulation",
    "Solver": "solver",
    "make_plan": "plan",
    "solve_tridiagonal": "tridiagonal",
}


_MODULES = ("choice", "device", "mixed", "ranks", "ring", "simulation", "tune")  # that help names


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"clhines.{_LATER[name]}"), name)
    if name in _MODULES:
        return import_module(f"clhines.{name}")
    raise AttributeError(f"module 'clhines' has no attribute {name!r}")
