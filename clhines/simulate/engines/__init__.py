"""The engines: what advances a network, and the choice of one.

`table`: the engines, which networks their kernels take and what makes them. `choose` takes the
first that takes all that a model needs. `run`: the protocols, the job of making a run, and what
runs on a device share; `arena_run`, whose variables are in arenas, and `cells_run`, which keeps
whole cells, events in whole steps. `steps`: a few kernels per step, around the solve, cells of any
size. `reference`: the same in NumPy, the oracle; `variables`: all that changes in it, also of
copies. A new engine is a row of the table, and a function that makes its run of a `Job`; until then
Simulation takes the function as `engine`, see `Job.of_user`.
"""
