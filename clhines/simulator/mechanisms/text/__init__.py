"""Compile the language of equations to a `Compiled` mechanism.

- `parser` reads an expression, `statements` a text line by line.
- `reader` has a mechanism's `Equations`, a list of assignments to names; `scope` evaluates
  the names.
- `checks` refuses wrong dependences, and finds each state's method.
- `spikes` has threshold and reset: the current moves v to the reset, so engines need no support.
- `propagator` has exact steps of linear point neurons, in which the current moves v, too.
- `language` has steps by exponential Euler, explicit and implicit methods; `Text` is the language
  that a `Mechanism` uses.
- `rules` has plasticity rules, which use the same statements and expressions.
"""
