"""Statements of NMODL as expressions.

`solve`: the methods of SOLVE; `kinetic`: that of KINETIC blocks. `netcons`: what a FOR_NETCONS
changes of the weights of the event itself. `functions`: what every file may call;
`function_table`: values between knots, stepforce.
"""
