"""From expressions to OpenCL and NumPy.

`functions`: the functions of a mechanism; `printer`, `exponentials` and `helpers` write
expressions. `noise`: normal numbers; `random123`: NEURON's streams of random numbers. `formula`:
expressions of recorded values.
"""
