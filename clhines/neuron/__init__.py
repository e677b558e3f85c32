"""Models of NEURON: from its memory to a `Network`, and results back into it.

Any script, hoc or Python, builds the model as ever; then NEURON's memory is read, with the source
texts of mechanisms that it holds. Words: *tree*, the compartments of all sections; *instances*, all
of one mechanism; *origin*, a source of events; *place*, where a variable is in memory; *rejected*,
what cannot be simulated.

Who owns what
    `memory`: NEURON's memory, by ctypes. `read`: parts of what is in it; `model`: all of it;
    `reading` puts that together, with what is rejected; `mechanisms`: those of a model, and what
    their POINTERs point to; `extracellular`: potentials outside of cells. `convert` (texts to
    mechanisms), `importer` (a model to a network), `connections` (its sources and NetCons). `back`:
    values in and out, records, events.
    `kept`: a model between two calls of `run`, compared with what NEURON has by its `fingerprint`.
    `stepping`: a model's own code of each step, `frameworks`: BMTK's. `entry`: `run`,
    `from_neuron`, `check`; `rank_calls`: what MPI ranks do together in these; `calls`: how many
    steps a call takes.
    `switch`: `enable`, `disable`, by hoc's functions that `memory.redirect` replaces, and the
    estimate who ends a call sooner.

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

To add something that NEURON keeps: read it in a module of `read`, with its `Rejected` where it
cannot be simulated, and give it to the network in `importer`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clhines.neuron.convert import Rejected, RejectedError
    from clhines.neuron.entry import ImportedModel, check, from_neuron, run
    from clhines.neuron.memory.session import interpreter, load_stdrun
    from clhines.neuron.switch import disable, enable

# Where each name is defined: a script whose runs NEURON takes needs none of the readers.
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
