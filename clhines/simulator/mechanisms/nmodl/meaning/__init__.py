"""Meaning of large NMODL statements, as expressions.

`solve`: methods of SOLVE; `kinetic`: KINETIC blocks. `netcons`: the order of an event and its
FOR_NETCONS. `functions`: C's functions; `function_table`: FUNCTION_TABLE.
"""
