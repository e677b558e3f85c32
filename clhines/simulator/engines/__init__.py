"""Engines: ways to advance a network.

`table` lists the engines and the needs that each supports; `simulator.choose` uses the first one
that supports all needs of a model. `run` has the protocols of a run, and the job of making one.
`arena_run` is the run of all devices. Its variables are in arenas, device arrays with named regions
(`device_state`); `start` has its values at t = 0, `step_times` the times of its steps, and
`detected` reads the events of a chunk. `steps` launches a few kernels per step around the solve,
for cells of any size. `reference` advances a model in NumPy: the oracle.

A new engine is a row of the table, and a function that makes its run from a `Job`. To try it, pass
the function to Simulation as `engine`, see `Job.of_user`.
"""
