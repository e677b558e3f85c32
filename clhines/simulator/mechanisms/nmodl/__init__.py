"""Compiler of NMODL, the language of NEURON's .mod files, to a `Compiled` mechanism.

- `reading` parses a file.
- A block is executed once, with symbols as inputs; the results are expressions on a `Graph`.
  `execute` executes statements, `loops` WHILE and FROM, `meaning` methods of SOLVE and other large
  statements; `evaluate` has expressions and RANDOM variables, `values` the variables' values.
- `bodies` executes all blocks of a file. `blocks` holds them for `passes`, which find parameters,
  states and outputs, and rewrite bodies. `build` makes a `Program`; `Nmodl` has a file's options.

>>> from clhines.simulator.mechanisms import Mechanism
>>> m = Mechanism.from_nmodl('''
... NEURON { SUFFIX leaky  NONSPECIFIC_CURRENT i  RANGE g }
... PARAMETER { g = 1e-4 (S/cm2) }
... ASSIGNED { v (mV)  i (mA/cm2) }
... BREAKPOINT { i = g*(v + 65) }
... ''')
>>> [(a.role, a.name) for a in m.calls("current")]
[('v', 'v'), ('parameter', 'g'), ('i', 'i'), ('g', 'g')]
>>> [float(x) for x in m.twin("current")(-60.0, 1e-4)]
[0.0005, 0.0001]

An importer uses a file's tree (`parse`, `File`, `Statement`, `set_by`, `uses`), refusals
(`Refused`, `Rejection`, `NmodlError`), `read`, changes of a file (`FileChanges`), tables
(`FunctionTable`), and names of values that it finds in NEURON's memory (`MADE`, `GIVEN`, `PICKED`).
"""

from clhines.simulator.mechanisms.nmodl.build import MAX_QUEUE, FunctionTables, read
from clhines.simulator.mechanisms.nmodl.evaluate import ONE_GENERATOR
from clhines.simulator.mechanisms.nmodl.reading.changes import FileChanges
from clhines.simulator.mechanisms.nmodl.reading.keywords import KEYWORDS
from clhines.simulator.mechanisms.nmodl.reading.lexer import Includes
from clhines.simulator.mechanisms.nmodl.reading.macros import statics_in
from clhines.simulator.mechanisms.nmodl.reading.parse import parse
from clhines.simulator.mechanisms.nmodl.reading.tree import (
    GIVEN,
    PICKED,
    Block,
    File,
    FunctionTable,
    NmodlError,
    Refused,
    Rejection,
    Statement,
    all_of,
    set_by,
    uses,
)
from clhines.simulator.mechanisms.nmodl.reading.verbatim import VECTOR_OF_COUNTER, counts_crossings
from clhines.simulator.mechanisms.nmodl.values import MADE

__all__ = [
    "GIVEN",
    "KEYWORDS",
    "MADE",
    "MAX_QUEUE",
    "ONE_GENERATOR",
    "PICKED",
    "VECTOR_OF_COUNTER",
    "Block",
    "File",
    "FileChanges",
    "FunctionTable",
    "FunctionTables",
    "Includes",
    "NmodlError",
    "Refused",
    "Rejection",
    "Statement",
    "all_of",
    "counts_crossings",
    "parse",
    "read",
    "set_by",
    "statics_in",
    "uses",
]
