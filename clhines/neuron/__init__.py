"""Models of NEURON: from its memory to a `Network`, and results back into it.

Any script, hoc or Python, builds the model as ever; then NEURON's memory is read, with the source
texts of mechanisms that it holds. Words: *tree*, the compartments of all sections; *instances*, all
of one mechanism; *origin*, a source of events; *place*, where a variable is in memory; *rejected*,
what cannot be simulated.

Who owns what
    Reading: `session` (NEURON itself), `catalogue` (mechanisms and their texts), `tree`,
    `contents` (instances, ions), `objects`, `memory` (lists that the interpreter does not show,
    by ctypes, found by example and never assumed; `raw`: its words and records; `statics`: lists
    of the library), `hooks` (what acts in each step beside the model), `names`, `places`
    (variables by place), `styles` (of ions), `wiring` (sources, NetCons), `queue` (events on their
    way), `played` (vectors that record or play), `gaps` (ParallelContext's transfers), `trains`
    (VecStim), `patterns` (PatternStim), `bins` (events of a step), `hidden` (variables that hoc
    does not see). `model`: all of it, and what is rejected.
    Converting: `convert` (texts to mechanisms), `importer` (a model to a network).
    Running: `states` (values in and out), `records`, `counters` (APCount), `writeback` (events),
    `entry`: `run`, `from_neuron`, `check`.

>>> from neuron import h  # doctest: +SKIP
>>> import clhines
>>> soma = h.Section(name="soma")  # doctest: +SKIP
>>> soma.insert("hh")  # doctest: +SKIP
>>> v = h.Vector().record(soma(0.5)._ref_v)  # doctest: +SKIP
>>> h.finitialize(-65)  # doctest: +SKIP
>>> clhines.neuron.check()  # doctest: +SKIP
[]
>>> clhines.neuron.run(100)  # in place of h.continuerun(100)  # doctest: +SKIP
>>> sim, at = clhines.from_neuron()  # doctest: +SKIP
>>> sim.record("v", at(soma(0.5)))  # doctest: +SKIP

To add something that NEURON keeps: read it in a module here, with its `Rejected` where it cannot
be simulated, and give it to the network in `importer`.
"""

from clhines.neuron.convert import Rejected, RejectedError
from clhines.neuron.entry import At, check, from_neuron, run
from clhines.neuron.session import interpreter

__all__ = ["At", "Rejected", "RejectedError", "check", "from_neuron", "interpreter", "run"]
