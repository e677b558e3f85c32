"""Values and results, from NEURON and back.

`states`: values in and out; `records`: what Vectors record, `counters`: what those of APCount keep;
`events`: events on their way; `runaways`: warnings of voltages that run off.
"""
