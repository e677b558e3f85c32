"""Layout and kernel code of the instances of each mechanism.

`kind` prints the calls of a mechanism's blocks in templates, `vectors` the calls for several
instances at once, and `places` the expressions of its values. `spec` is the spec of all kernels on
arenas; `blocks` makes it from a model. `layouts` orders values in arenas; `arenas` copies them
there and reads them back. `played`, `diffusing` and `locations` do so for played parameters,
diffusing states and records. `event_errors` translates error codes of kernels.

Words: a *kind* is a mechanism with all its instances in the network; k is its number. An *arena* is
a device array with named regions: ``mem`` has reals, ``clock`` times, ``ints`` integers. An *active
node* has instances, ions or detectors. A *sum* is a state to which several instances add by
POINTERs. The *last instance* of a mechanism sets the GLOBAL variables that all instances read. The
*place* of a value is its index in an array on the device.
"""
