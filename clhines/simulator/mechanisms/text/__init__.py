"""Compiler of the language of equations, to `Compiled`.

- `parser` reads an expression, `statements` a text line by line.
- `reader`: the `Equations` of a mechanism, a list of assignments to names; `scope` evaluates them.
- `checks` finds wrong dependences, and the method of each state.
- `spikes`: threshold and reset. The current moves v to the reset, so engines need no support.
- `propagator`: exact steps of linear point neurons, in which the current moves v, too.
- `language`: steps by exponential Euler, explicit and implicit methods; `Text` is the language of a
  `Mechanism`.
- `rules`: rules of plasticity, in the same statements and expressions.
"""
