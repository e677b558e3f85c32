"""Read NEURON models from NEURON's memory as a `Network`, and write results back.

A script, in hoc or Python, builds its model as usual. clhines then reads NEURON's memory, including
the NMODL texts that NEURON keeps. Words: *tree*, the compartments of all sections; *instances*, all
copies of one mechanism; *origin*, a source of events (a voltage with a threshold, a point process
or an artificial cell); *place*, the address of a variable (`memory.raw.Place`); *rejected*, a
construct that is not supported; *stretch*, steps that the device takes at once, and one more step,
which NEURON takes; *kept model*, a model that clhines stores from one call of `run` to the next.

Who owns what
    `memory`: NEURON's private memory, by ctypes. `read`: the parts of a model; `model`: the whole
    model; `reading` assembles it and lists the rejections. `mechanisms`: mechanisms and the
    targets of their POINTERs; `extracellular`: potentials outside of cells. `convert` (NMODL texts
    to mechanisms), `importer` (model to network), `connections` (sources and NetCons). `back`:
    results into NEURON's memory.
    `kept`: a model between two calls of `run`; its `fingerprint` detects changes in NEURON.
    `stepping`: hoc and Python code that runs in each step; `frameworks`: adapters for BMTK, LFPy,
    NetPyNE and PyFibers. `entry`: `run`, `from_neuron`, `check`; `rank_calls`: agreements of MPI
    ranks; `calls`: how many steps a call takes.
    `switch`: `enable` and `disable`, which redirect hoc's functions by `memory.redirect`, and the
    estimate of who ends a call sooner.

>>> from neuron import h  # doctest: +SKIP
>>> import clhines
>>> soma = h.Section(name="soma")  # doctest: +SKIP
>>> soma.insert("hh")  # doctest: +SKIP
>>> v = h.Vector().record(soma(0.5)._ref_v)  # doctest: +SKIP
>>> h.finitialize(-65)  # doctest: +SKIP
>>> clhines.neuron.check()  # doctest: +SKIP
[]
>>> clhines.neuron.run(100)  # in place of h.continuerun(100)  # doctest: +SKIP
>>> model = clhines.from_neuron()  # doctest: +SKIP
>>> model.simulation.record("v", model[soma(0.5)])  # doctest: +SKIP

To support another NEURON construct, read it in a module of `read`, reject the forms that are not
supported, and add it to the network in `importer`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clhines.neuron.convert import Rejected, RejectedError
    from clhines.neuron.entry import ImportedModel, check, from_neuron, run
    from clhines.neuron.memory.session import interpreter, load_stdrun
    from clhines.neuron.switch import disable, enable

# Each public name's module: a script that NEURON runs need not import the readers.
_HOMES = {
    "convert": "Rejected RejectedError",
    "entry": "ImportedModel check from_neuron run",
    "memory.session": "interpreter load_stdrun",
    "switch": "disable enable",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = [
    "ImportedModel",
    "Rejected",
    "RejectedError",
    "check",
    "disable",
    "enable",
    "from_neuron",
    "interpreter",
    "load_stdrun",
    "run",
]


def __getattr__(name: str) -> object:
    if name in _HOME_OF:
        public = globals()[name] = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        return public
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
