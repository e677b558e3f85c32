"""The engines: what advances a network, and the choice of one.

`table`: the engines, the networks that their kernels support and the functions that make them;
`simulator.choose` takes the first that supports all that a model needs. `run`: the protocols and
the job of making a run. `arena_run`: the run of all devices, whose variables are in arenas; `start`
keeps its start, `step_times` the times of its steps. `steps`: a few kernels per step, around the
solve, cells of any size. `reference`: the same in NumPy, the oracle. A new engine is a row of the
table, and a function that makes its run of a `Job`; until then Simulation takes the function as
`engine`, see `Job.of_user`.
"""
