"""NMODL, the language of NEURON's .mod files: from text to `Program` and functions.

- `tree` has the parts of a file and what is refused of it; `lexer` makes tokens and follows
  INCLUDE; `cursor` reads expressions, `statements` statements, `parse` the declarations;
  `constants` has numbers that UNITS blocks take from units; `verbatim` knows C that says nothing
  or that NMODL can say; `loops` turns FROM with ``break`` into IF.
- `names` has the variables of a file; `values` those of one execution; `netcons` what a FOR_NETCONS
  changes of the weights of the event itself; `functions` the
  mathematical functions; `draws` RANDOM variables; `evaluate`
  expressions; `execute` statements: a block is executed once,
  with symbols, and leaves expressions on a `Graph`.
- `solve` has the methods of SOLVE, `kinetic` that of KINETIC blocks.
- `bodies` executes the blocks of a file, `build` finds what is a parameter, a state, an output;
  `source` prints functions in OpenCL and NumPy; `model` is what `Mechanism` uses.

>>> from clhines.mechanisms import Mechanism
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
"""

from clhines.mechanisms.nmodl.build import rejections
from clhines.mechanisms.nmodl.tree import NmodlError, Rejection

__all__ = ["NmodlError", "Rejection", "rejections"]
