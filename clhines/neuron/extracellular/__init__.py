"""Extracellular potentials of NEURON models.

`outside`: the mechanism extracellular, and code that reads or sets its potentials; `layers`:
extracellular layers with non-default parameters; `drivers`: mechanisms that set potentials in
each step.
"""
