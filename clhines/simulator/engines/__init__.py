"""Engines: ways to advance a network.

`table` lists the engines and the needs that each supports; `simulator.choose` uses the first one
that supports all needs of a model. `run` has the protocols for a run, and the job from which an
engine makes one. `arena_run` is the run on all devices. Its variables are in arenas, device arrays
with named regions (`device_state`); `start` has its values at t = 0, `step_times` its steps' times,
and `detected` reads a chunk's events. `steps` launches a few kernels per step around the solve, for
cells of any size. `reference` advances a model in NumPy: the oracle.

A new engine is a row in the table, and a function that makes its run from a `Job`. To try it, pass
the function to Simulation as `engine`.
"""
