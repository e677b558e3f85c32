"""Values and results, from NEURON and back.

`states`: values in and out; `records`: recorded values; `queue`: events on their way; `bins`:
events of a step; `writeback`: events that were sent.
"""
