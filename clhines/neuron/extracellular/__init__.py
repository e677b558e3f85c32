"""Potentials outside of NEURON's cells.

`outside`: extracellular, and what reads or sets its potentials; `layers`: that with layers of its
own; `drivers`: mechanisms that set potentials in each step.
"""
