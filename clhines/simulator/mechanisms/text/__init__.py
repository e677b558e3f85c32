"""The language of equations: from a text to `Compiled`.

- `parser` reads one expression, `statements` a text line by line.
- `reader`: the `Equations` of a mechanism, a list of assignments to names. `scope` executes them
  with other values of names.
- `checks` finds wrong dependences, and the method of each state.
- `spikes`: a threshold, and a reset. The current moves v to the reset, so engines need no support.
- `propagator`: exact steps of linear point neurons. There, too, the current moves v.
- `language`: a step of the states by exponential Euler, explicit and implicit methods. `Text` is
  the language as `Mechanism` calls it.
- `rules`: the text of a rule of plasticity, in the same statements and expressions.
"""
