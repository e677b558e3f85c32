"""The language of equations: from a text to `Compiled`.

`parser` reads one expression, `reader` the text, statement by statement: its `Equations` are a list
of assignments to names, which a `Scope` executes with given values. `checks` says what
may depend on what, and which method takes which state. `spikes`: a threshold, and what a spike
resets: the current moves v there, so that engines need nothing for it. `propagator`: exact steps of
linear point neurons, in which the current moves v, too. `language`: one step of the states, by
exponential Euler, explicit and implicit methods; its `Text` puts the blocks together.
`rules`: the text of a rule of plasticity, in the same statements and expressions.
"""
