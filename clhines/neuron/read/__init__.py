"""From NEURON's memory to a model.

`catalogue`: mechanisms and their texts; `tree`: compartments; `contents`: instances, ions;
`wiring`: sources, NetCons; `played`: vectors that record or play; `gaps`: ParallelContext's
transfers; `trains`: VecStim; `patterns`: PatternStim; `counters`: APCount. `hooks`: what acts in
each step beside the model; `statics`: lists of the library; `names`.
"""
