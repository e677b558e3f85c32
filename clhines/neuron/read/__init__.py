"""Read the parts of a model from NEURON's memory.

`catalogue`: mechanisms and their texts; `tree`: compartments; `places`: variables by address;
`queue`: pending events; `contents`: instances, ions; `wiring`: sources, NetCons; `played`: Vectors
that record or play, and ParallelContext's transfers; `draws`: Random.play; `written`: targets of
POINTERs; `trains`: VecStim; `patterns`: PatternStim. `hooks`: other code that acts in each step,
and settings of steps and threads.
"""
