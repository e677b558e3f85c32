"""Everything a template needs to know about the instances of one mechanism.

`spec`: facts, source, the calls that templates print, samples; `blocks`: those of a model. Values
of a model: `layouts`: where they lie; `arenas`: put there, and read back; `played`: those that are
played; `diffusing`: those that diffuse along cells; `locations`: those that are recorded.
`event_errors`: what was wrong with an event, by the code of a kernel.
"""
