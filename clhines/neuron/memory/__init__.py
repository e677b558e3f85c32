"""NEURON's private memory, read by ctypes; fields are located by an example, never assumed.

`session`: importing NEURON. `symbols`: its library, and hoc's symbols; `objects`: hoc objects,
addresses of variables, point processes; `memory`: all of these, with the lists that the interpreter
does not show. `sources`: event sources and NetCons; `raw`: words and records; `fields`: layout of
sections, nodes and mechanism data; `channels`: KSChans as NMODL; `streams`: random numbers;
`tables`: FUNCTION_TABLEs, TABLEs and LOCALs. `redirect`: replacing functions of hoc; `versions`:
self-tests of a NEURON version.

Words: a *word* has 64 bits. A *source* is NEURON's PreSyn. NEURON stores a variable of a mechanism
in a *column*, in which each instance has a *row*; a *place* is a variable's address in this form.
*Data* of a mechanism is NEURON's Prop, its *slots* are the entries of dparam. A *handle* is
NEURON's reference to a variable. To *calibrate* is to find the offsets of fields in an object with
known contents.
"""
