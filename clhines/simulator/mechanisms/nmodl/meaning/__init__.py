"""Statements of NMODL as expressions.

`solve`: the methods of SOLVE; `kinetic`: the method of KINETIC blocks. `netcons`: weights that a
FOR_NETCONS changes of the event itself. `functions`: C's functions; `function_table`: values
between knots.
"""
