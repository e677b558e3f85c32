"""Values and results, from NEURON and back.

`states`: values in and out; `queue`: events on their way, and those of a step; `writeback`: what is
recorded, and events that were sent.
"""
