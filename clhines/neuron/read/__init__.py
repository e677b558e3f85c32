"""From NEURON's memory to a model.

`catalogue`: mechanisms and their texts; `tree`: compartments; `places`: variables by place;
`queue`: NEURON's event queue; `contents`: instances, ions; `wiring`: sources, NetCons; `played`:
Vectors that record or play, and ParallelContext's transfers; `draws`: Randoms that are played;
`written`: what POINTERs point to; `trains`: VecStim; `patterns`: PatternStim. `hooks`: what acts in
each step beside the model, and settings of steps and threads.
"""
