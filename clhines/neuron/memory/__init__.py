"""NEURON's memory, read by ctypes: places are located by an example, never assumed.

`session`: NEURON itself. `symbols`: its library, and names of hoc; `objects`: objects of hoc,
places of variables, point processes; `memory`: all of it, with the lists that the interpreter does
not show. `sources`: sources of events, NetCons; `raw`: words and records; `fields`: sections,
nodes, data and values of mechanisms, all at once; `channels`: texts of KSChan; `streams`: random
numbers; `tables`: those of FUNCTION_TABLE, and LOCALs. `redirect`: functions of hoc that others
replace; `versions`: the self-test of a version of NEURON.
"""
