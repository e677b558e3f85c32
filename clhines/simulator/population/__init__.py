"""One network with many sets of parameters.

`population`: `Population`, which simulates batches of them;
`shares` gives the sets to workers of an executor.
"""
