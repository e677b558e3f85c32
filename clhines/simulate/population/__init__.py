"""One network with many sets of parameters.

`population`: `Population`; `protocols` checks what it is given, a `batch` simulates some.
"""
