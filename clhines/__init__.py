"""clhines: batches of Hines matrices solved on any OpenCL device.

The names below are the public interface. `Solver`, `Factors` and `solve_tridiagonal` are imported
when first used, so that forests, morphologies and plans work without pyopencl.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from clhines.cells.cable import Cable, discretise
from clhines.cells.morphology import Morphology
from clhines.cells.swc import read_swc
from clhines.cells.synthetic import sample_cells
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

if TYPE_CHECKING:
    from clhines.mechanisms.mechanism import Mechanism
    from clhines.network.network import Network
    from clhines.network.plasticity import STDP
    from clhines.plan.methods import METHODS, make_plan
    from clhines.plan.plan import Plan
    from clhines.simulate.passive import PassiveCells
    from clhines.simulate.simulation import Simulation
    from clhines.solve.factors import Factors
    from clhines.solve.solver import Solver
    from clhines.solve.tridiagonal import solve_tridiagonal

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
    "PassiveCells",
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
    "METHODS": "plan.methods",
    "STDP": "network.plasticity",
    "Factors": "solve.factors",
    "Mechanism": "mechanisms.mechanism",
    "Network": "network.network",
    "PassiveCells": "simulate.passive",
    "Plan": "plan.plan",
    "Simulation": "simulate.simulation",
    "Solver": "solve.solver",
    "make_plan": "plan.methods",
    "solve_tridiagonal": "solve.tridiagonal",
}


_MODULES = {  # that help names
    "cells": "cells",
    "cli": "cli",
    "device": "device",
    "draw": "draw",
    "mechanisms": "mechanisms",
    "network": "network",
    "plan": "plan",
    "reference": "reference",
    "ring": "network.ring",
    "simulate": "simulate",
    "solve": "solve",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"clhines.{_LATER[name]}"), name)
    if name in _MODULES:
        return import_module(f"clhines.{_MODULES[name]}")
    raise AttributeError(f"module 'clhines' has no attribute {name!r}")
