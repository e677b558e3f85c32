"""NEURON's memory, read by ctypes: places found by example, never assumed.

`session`: NEURON itself. `memory`: lists that the interpreter does not show; `sources`: sources of
events, NetCons; `raw`: words and records; `fields`: sections, nodes and data of mechanisms, all at
once; `columns`: values of mechanisms; `places`: variables by place; `objects`: objects of hoc.
"""
