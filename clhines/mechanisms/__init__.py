"""Mechanisms of the membrane from equations as text: channels, synapses, clamps.

From text to kernel, each step in a module that imports only those above it:

- `units` converts units to NEURON's; `exact` has numbers: fractions of bounded size.
- `expressions`: a `Graph` of immutable nodes, each distinct expression once; derivatives and
  substitutions are kept by node. `forms` sees expressions as polynomials, linear forms or sums of
  multiples; `singular` removes 0/0.
- `parser` reads one expression, `reader` the text, statement by statement. `equations` holds them:
  a list of assignments to names, and `Scope`, which executes them with given values. `advance`
  makes one step of the states: exponential Euler, explicit and implicit methods. `meaning` checks
  what may depend on what, and which method takes which state.
- `simplify` lifts constants, shares exponentials and common factors; `blocks` chooses local
  variables; `printer`, `exponentials` and `helpers` write OpenCL or NumPy; `source` the functions
  of a mechanism, which `generated` keeps by text: OpenCL, and NumPy twins to call.
- `program` says what executors see of a mechanism, and what each function takes; `formula` has
  expressions of values that are recorded.
- `builtin` has texts, `mechanism` the class that users see (`described` its base), `noise` normal
  numbers, `random123` NEURON's streams of random numbers.

Names: a text's names are printed as they are. Generated names begin with an underscore or have two
in a row, which no name of a text does.

>>> from clhines.mechanisms import Mechanism
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

To add a function of the language: a row in `parser.FUNCTIONS`, its value in `exact.FUNCTIONS`, its
derivative in `expressions.Graph.slope`. To add a method: a name in `meaning.METHODS` and a branch
in `advance`. The language of NEURON, NMODL, is read by the subpackage `nmodl` on the same `Graph`.
"""

from clhines.mechanisms.builtin import BUILT_IN
from clhines.mechanisms.mechanism import Mechanism, mechanism
from clhines.mechanisms.noise import normal, normal_source, philox

__all__ = ["BUILT_IN", "Mechanism", "mechanism", "normal", "normal_source", "philox"]
