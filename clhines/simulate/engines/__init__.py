"""Engines that take any network, the protocol of a run, and the choice of an engine.

`table`: names of the engines. `choose` makes what advances a network, with `extended_choice` for
networks with ions or exact delays. `run`: protocols, the run on one device. `steps`: a few kernels
per step, cells of any size; `extended` with exact delays. `reference`: the same in NumPy, the
oracle, and `extended_reference`; `variables`: all that changes in it; `axial`: currents between
neighbours.
"""
