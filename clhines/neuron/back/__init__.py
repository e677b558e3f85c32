"""Copy values from NEURON into a simulation, and results back.

`states`: values in both directions; `records`: recording Vectors, `counters`: Vectors of APCount;
`events`: pending events; `runaways`: warnings of diverging voltages. `imported`: the result of
`from_neuron`.
"""
