"""Values and results, from NEURON and back.

`states`: values in and out; `records`: what Vectors record, `counters`: what those of APCount keep;
`events`: pending events; `runaways`: warnings of voltages that run off. `imported`: a model as a
simulation of its own.
"""
