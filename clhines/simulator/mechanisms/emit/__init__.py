"""From `Compiled` to OpenCL and NumPy.

`functions`: the functions of a mechanism in either language, and tables of their values; `printer`
writes expressions, `lanes` expressions for lanes of a GPU; `words` has names that variables may not
have; `helpers` and `exponentials` are functions that the source calls. `noise`: normal numbers;
`random123`: NEURON's streams of random numbers, `scop` its one old generator.
"""
