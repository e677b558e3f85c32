"""Print a `Compiled` mechanism in OpenCL and NumPy.

`functions` prints a mechanism's functions, `printer` expressions, `lanes` expressions for lanes of
a GPU, `series` the coefficients that these use. `words` has reserved names. `helpers` and
`exponentials` print functions that the source calls. `noise` makes normal numbers; `random123` has
NEURON's random streams, `scop` its older global generator.
"""
