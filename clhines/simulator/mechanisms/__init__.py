"""Membrane mechanisms from equations as text: channels, synapses, clamps.

From text to kernel; each folder imports only the folders above it:

- `ir`: expressions and passes over them; `ir.compiled` has the `Compiled` mechanism: a `Program`,
  which engines see, and its blocks' expressions.
- `text` compiles the language of equations, `nmodl` NEURON's language; both give a `Compiled`.
- `emit` prints a mechanism's functions in OpenCL, for one instance or several, or in NumPy.
- `builtin` has texts, `mechanism` the class for users, which caches printed source and calls the
  NumPy functions with values by name.
- `library`: mechanisms from the literature, with their texts in ``library_texts``.

A text's names are printed unchanged. Generated names begin with an underscore or have two in a row,
which a text's names must not.

>>> from clhines.simulator.mechanisms import Mechanism
>>> m = Mechanism('''
... point decay
... parameter tau = 2 ms
... state g = 0 nS
... dg/dt = -g/tau
... current i = g*v
... on event: g += weight
... ''')
>>> print(m.describe())
decay: point mechanism
  parameter tau = 2 ms
  state g [uS]: exponential Euler
  currents: i
  an event changes: g
>>> float(m.event(0.5, None, {"g": 0.0})["g"])
0.5

An importer uses `Mechanism`, its `Program` and names in it (`GENERATOR`, `UNLESS`, `SET`), texts
for parts of an imported model (`GIVEN_CURRENT`, `KEPT_NUMBER`), random numbers, and expression
values (`is_beside`, `value_of`).

To add a function to the language: a row in `text.parser.FUNCTIONS`, its name in
`ir.expressions.FUNCTIONS`, its derivative in `ir.expressions.Graph.slope`. To add a method: a name
in `text.checks.METHODS` and a branch in `text.language`.
"""

from clhines.simulator.mechanisms.builtin import BUILT_IN, GIVEN_CURRENT, KEPT_NUMBER
from clhines.simulator.mechanisms.emit import random123, scop
from clhines.simulator.mechanisms.emit.noise import normal, normal_source, philox
from clhines.simulator.mechanisms.ir.program import (
    GENERATOR,
    SET,
    SET_AT,
    UNLESS,
    Program,
    Quantity,
)
from clhines.simulator.mechanisms.ir.singular import is_beside, value_of
from clhines.simulator.mechanisms.mechanism import Mechanism, mechanism

__all__ = [
    "BUILT_IN",
    "GENERATOR",
    "GIVEN_CURRENT",
    "KEPT_NUMBER",
    "SET",
    "SET_AT",
    "UNLESS",
    "Mechanism",
    "Program",
    "Quantity",
    "is_beside",
    "mechanism",
    "normal",
    "normal_source",
    "philox",
    "random123",
    "scop",
    "value_of",
]
