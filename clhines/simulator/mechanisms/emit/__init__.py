"""Print a `Compiled` in OpenCL and NumPy.

`functions` prints the functions of a mechanism, `printer` expressions, `lanes` expressions for
lanes of a GPU; `words` has reserved names; `helpers` and `exponentials` have functions that the
source calls. `noise`: normal numbers; `random123`: NEURON's random streams; `scop`: its one old
generator.
"""
