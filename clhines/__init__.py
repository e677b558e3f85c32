"""Simulate neurons, and solve batches of Hines matrices, on any OpenCL device.

The map. Each part imports only the parts above it::

    core        errors, arrays, checks, files, progress, pictures; NumPy only
    solver      numbers in, numbers out: forest > plan > device > solve
    simulator   cells, mechanisms > network > model > run > result
    neuron      NEURON's memory > network, and results back; the switch for scripts
    cli         the command line

========================  ========================================================================
`solver.forest`           `Forest`: trees of cells, their shapes, branches, levels and heights
`solver.reference`        the oracle in NumPy: serial Hines, dense, residuals, pivot errors
`solver.plan`             forest -> `Plan`: methods, layouts, schedules; without a device
`solver.device`           OpenCL: devices, queues, programs, copies, times
`solver`                  plan, queue and arrays -> x: `Solver`, `Factors`, `Tridiagonal`
`simulator.cells`         files -> `Morphology` -> `Cable` -> matrix
`simulator.mechanisms`    channels, synapses and clamps from equations: `Mechanism`
`simulator.network`       the user's description: `Network`, `Pairs`, `Rule`
`simulator.model`         the arrays of a network
`simulator`               a network in time: `Simulation`, `Population`
`simulator.analysis`      results: features of voltages by eFEL's definitions
`neuron`                  models in NEURON's memory: `from_neuron`, `run`, `check`
`cli`                     the command line
========================  ========================================================================

Public modules have short names: `clhines.analysis`, `clhines.cells`, `clhines.device`,
`clhines.draw`, `clhines.fields`, `clhines.library`, `clhines.plan`, `clhines.reference`,
`clhines.torch`, `clhines.jax`.

Each package's docstring defines its words, lists its modules, and says how to add to it.

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

Inputs are not changed unless the caller allows it. NumPy arrays in give NumPy arrays out; pyopencl
arrays in give pyopencl arrays out, asynchronously, on the caller's queue. Cells have 1 to 10^7
nodes with any number of children. The same input gives the same bits in every run. A pivot that is
zero, negative or not finite is reported with its cell and node.

The logger ``clhines`` reports at INFO which method was chosen and why; it is silent by default.

Names are imported when first used: forests, cells, networks and plans work without pyopencl.
"""

import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

__version__ = "0.2.0"
# The module of each public name; `__init__.pyi` lists them for type checkers.
_HOMES = {
    "simulator.cells.cable": "Cable discretise discretize",
    "simulator.cells.morphology": "Morphology",
    "simulator.cells.swc": "read_swc",
    "simulator.cells.synthetic": "sample_cells sample_swc",
    "core.errors": "AccuracyWarning BuildError CableError CacheWarning ClhinesError DeviceError"
    " DeviceMemoryError ForestError HostMemoryError InputError MorphologyError PivotError RankError"
    " RepairWarning RunInterrupt SimulationError SpikeOverflowError",
    "solver.forest": "Forest",
    "simulator.mechanisms.mechanism": "Mechanism",
    "simulator.network.network": "Network",
    "simulator.network.pairs": "Drawn Pairs",
    "simulator.network.plasticity": "STDP Rule",
    "neuron.entry": "from_neuron",
    "solver.plan.methods": "METHODS make_plan",
    "solver.plan.plan": "Plan",
    "solver.plan.transforms": "Rerooted reroot",
    "simulator.population.population": "Population",
    "simulator.simulation": "Simulation",
    "simulator.thresholds": "Thresholds find_thresholds",
    "solver.factors": "Factors",
    "solver.solver": "Solver",
    "solver.tridiagonal": "Tridiagonal solve_tridiagonal",
}
logging.getLogger(__name__).addHandler(logging.NullHandler())
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
_MODULES = {
    name.rpartition(".")[2]: name
    for name in (
        "cli core jax neuron simulator simulator.analysis simulator.analysis.draw simulator.cells"
        " simulator.fields simulator.mechanisms simulator.mechanisms.library simulator.model"
        " simulator.network solver solver.device solver.plan"
        " solver.reference torch"
    ).split()
}
__all__ = sorted(_HOME_OF)


class _SameModule:
    """Loader that gives a loaded module a second name, and keeps its ``__spec__``."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


class _PublicModules:
    """Finder that imports ``clhines.device.timing`` from ``clhines.solver.device``, and so on."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, rest = name.partition(".")
        head, _, tail = rest.partition(".")
        if package != __name__ or _MODULES.get(head, head) == head:
            return None
        module = import_module(".".join(filter(None, (package, _MODULES[head], tail))))
        return ModuleSpec(name, _SameModule(module), is_package=hasattr(module, "__path__"))


sys.meta_path.insert(0, _PublicModules())  # a package below a public name has a path of its own


def __dir__() -> list[str]:
    # Completion in a terminal loads each name: leave out modules that need optional packages.
    return sorted({*_HOME_OF, *_MODULES, "__version__"} - {"jax", "torch"})


def __getattr__(name: str) -> object:
    if name in _HOME_OF:
        home = import_module(f"clhines.{_HOME_OF[name]}")
        public = globals()[name] = _errors.suggest_keywords(home, name)
        return public
    if name in _MODULES:
        return import_module(f"clhines.{_MODULES[name]}")
    from clhines.core.errors import meant

    near = meant(name, [*_MODULES, *_HOME_OF])
    raise AttributeError(f"module 'clhines' has no attribute {name!r}{near}")


_errors = import_module("clhines.core.errors")
if _errors.launched():  # before the first use of MPI, possibly on another rank only
    import_module("clhines.simulator.common.launchers").stop_all_on_errors()
if os.environ.get("CLHINES_NEURON", "0") not in ("", "0"):
    import_module("clhines.neuron.switch.enabled").enable_as(os.environ["CLHINES_NEURON"])
