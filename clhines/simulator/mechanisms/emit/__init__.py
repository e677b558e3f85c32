"""From `Compiled` to OpenCL and NumPy.

`functions`: the functions of a mechanism, whatever language it was written in, and tables of their
values; `printer` writes expressions, `lanes` those for lanes of a GPU, `words` has names that they
may not have, `helpers` and `exponentials` what they call. `noise`: normal numbers; `random123`:
NEURON's streams of random numbers, `scop` its one generator of old.
"""
