"""Batches of Hines matrices solved on any OpenCL device, and networks of cells simulated with them.

The map, two wings and a roof::

    forest > plan > device > solve        numbers in, numbers out
    cells, mechanisms > network           what a user describes (NumPy, no OpenCL)
    simulate                              stands on both
    neuron                                models of NEURON, on network and simulate
    cli                                   on all
    ground: errors arrays hostmemory checks files forest reference

======================  ==========================================================================
`forest`                `Forest`: trees of cells, their shapes, branches, levels and heights
`reference`             the slow truth in NumPy: serial Hines, dense, residuals, pivot errors
`clhines.plan`          forest -> `Plan`: methods, layouts, schedules, `reroot`; without a device
`clhines.device`        OpenCL: devices, queues, programs, copies, times
`clhines.solve`         plan, queue and arrays -> x: `Solver`, `Factors`, `solve_tridiagonal`
`clhines.cells`         files and synthetic trees -> `Morphology` -> `Cable` -> matrix
`clhines.mechanisms`    channels, synapses and clamps from equations: `Mechanism`
`clhines.network`       what users describe: `Network`, `STDP`, the ring network
`clhines.simulate`      a network in time: `Simulation`, `PassiveCells`
`clhines.neuron`        models in NEURON's memory: `from_neuron`, `run`, `check`
`clhines.cli`           the command line
======================  ==========================================================================

Each package's docstring is its chapter: words, owners, an example, how to add one more.

The data contract. Arrays are flat over all cells, cell after cell ("natural order"):

================  ==========================  ====================================================
``parent``        (n,) integer                index of the parent node in the same array, -1 at
                                              roots; any order within a cell
``cell_offsets``  (num_cells + 1,) integer    nodes of cell c: ``cell_offsets[c]:cell_offsets[c+1]``
``d``             (n,) real                   diagonal
``u``             (n,) real                   ``A[i, parent[i]] = A[parent[i], i] = u[i]``; ignored
                                              at roots
``l``             (n,) real, optional         unsymmetric: ``A[i, parent[i]] = l[i]`` and
                                              ``A[parent[i], i] = u[i]``
``b``             (n,) or (k, n) real         right-hand sides
``x``             like ``b``                  solution
================  ==========================  ====================================================

Inputs are not destroyed unless the caller allows it. NumPy in gives NumPy out; pyopencl arrays in
give pyopencl arrays out, asynchronously, on the caller's queue. Cells have 1 to about 10^6 nodes
with any number of children. The same input gives the same bits in every run. A pivot that is zero,
negative or not finite is reported with its cell and node.

Names are imported when first used: forests, cells, networks and plans work without pyopencl.
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
    from clhines.neuron.entry import from_neuron
    from clhines.plan.methods import METHODS, make_plan
    from clhines.plan.plan import Plan
    from clhines.plan.transforms import Rerooted, reroot
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
    "Rerooted",
    "ShareError",
    "Simulation",
    "SimulationError",
    "Solver",
    "SpikeOverflowError",
    "StoreWarning",
    "discretise",
    "from_neuron",
    "make_plan",
    "read_swc",
    "reroot",
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
    "Rerooted": "plan.transforms",
    "Simulation": "simulate.simulation",
    "Solver": "solve.solver",
    "from_neuron": "neuron.entry",
    "make_plan": "plan.methods",
    "reroot": "plan.transforms",
    "solve_tridiagonal": "solve.tridiagonal",
}


_MODULES = {  # that help names
    "cells": "cells",
    "cli": "cli",
    "device": "device",
    "draw": "draw",
    "mechanisms": "mechanisms",
    "network": "network",
    "neuron": "neuron",
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
