"""NEURON's private memory, read by ctypes; fields are located by an example, never assumed.

`session`: importing NEURON. `symbols`: its library, and hoc's symbols; `objects`: hoc objects,
addresses of variables, point processes; `memory`: all of these, with the lists that the interpreter
does not show. `sources`: event sources and NetCons; `raw`: words and records; `fields`: layout of
sections, nodes and mechanism data; `channels`: KSChans as NMODL; `streams`: random numbers;
`tables`: FUNCTION_TABLEs, TABLEs and LOCALs. `redirect`: replacing functions of hoc; `versions`:
self-tests of a NEURON version.
"""
