"""The language of equations: from a text to `Compiled`.

`parser` reads one expression, `reader` the text, statement by
statement. `equations`: a list of assignments to names, and `Scope`, which executes them with given
values. `advance` makes one step of the states: exponential Euler, explicit and implicit methods.
`language` checks what may depend on what, and which method takes which state; its `Text` puts the
blocks together.
"""
