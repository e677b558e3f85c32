"""What large NMODL statements compute, as expressions.

`solve` has the methods of SOLVE, `kinetic` KINETIC blocks, `functions` C's functions,
`function_table` FUNCTION_TABLE. `netcons` checks the order of an event and its FOR_NETCONS.
"""
