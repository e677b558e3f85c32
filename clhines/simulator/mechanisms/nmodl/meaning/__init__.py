"""Statements of NMODL as expressions.

`solve`: the methods of SOLVE; `kinetic`: the method of KINETIC blocks. `functions`: C's functions;
`function_table`: values between knots.
"""
