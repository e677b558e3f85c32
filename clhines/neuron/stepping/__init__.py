"""A model's own `advance()` and `step()`: code of hoc that runs with each step.

`code`: procedures as the interpreter has them; `following`: what they read, set and call; `reads`:
whether that only reads the model, and which variables; `replay`: calls them after a block of steps,
with the values of each; `bmtk`: what BMTK's code, which is in Python, reads and sets.
"""
