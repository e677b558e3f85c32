"""Layout and kernel code of the instances of each mechanism.

A *kind* is a mechanism with all its instances in the network. `kind` prints the calls of its blocks
in templates, `vectors` the calls for several instances at once, and `places` the expressions of its
values. `spec` is the spec of all kernels on arenas; `blocks` makes it from a model. An *arena* is a
device array with named regions: ``mem`` has reals, ``clock`` times, ``ints`` integers. `layouts`
orders values in arenas; `arenas` copies them there and reads them back. `played`, `diffusing` and
`locations` do so for played parameters, diffusing states and records. `event_errors` translates
error codes of kernels.
"""
