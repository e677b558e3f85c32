"""Code that runs with each step: a model's own `advance()` and `step()`, and loops' bodies.

`code`: procedures as the interpreter has them; `following`: what they read, set and call; `reads`:
whether that only reads the model, and which variables; `replay`: calls them after a block of steps,
with the values of each; `bmtk`: what BMTK's code, which is in Python, reads and sets; `gathered`:
functions that NEURON calls within each step.

Of loops around ``fadvance``: `taken`, which is that function meanwhile; `loop_run`: blocks of steps
that the loop gets one by one; `everything`: what of a model a step changes; `late`: events at a
step's end; `watch`: whether the body has changed anything; `asked`: what Python asks for.
"""
