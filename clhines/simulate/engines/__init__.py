"""Engines that take any network, the protocol of a run, and the choice of an engine.

`table`: the engines, what each takes and what makes it. `choose` takes the first that takes all
that a model needs. `run`: protocols, the job of making a run, the run on one device. `steps`: a few
kernels per step, cells of any size; `steps` with events at exact times. `reference`: the same
in NumPy, the oracle, and `reference`; `variables`: all that changes in it; `axial`: currents
between neighbours. A new engine is a row of the table, and a function that makes its run of a
`Job`; until then Simulation takes the function as `engine`, see `Job.of_user`.
"""
