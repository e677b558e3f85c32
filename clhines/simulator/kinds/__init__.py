"""Memory layout and kernel code for each mechanism's instances.

`kind` prints block calls in templates, `vectors` the calls for several instances at once, and
`places` the expressions for an instance's values. `spec` is the spec of all kernels on arenas;
`blocks` makes it from a model. `layouts` orders values in arenas; `arenas` copies them there and
reads them back. `played`, `diffusing` and `locations` do so for played parameters, diffusing states
and records. `event_errors` translates kernels' error codes.

Words: a *kind* is a mechanism with all its instances in the network; k is its number. An *arena* is
a device array with named regions: ``mem`` has reals, ``clock`` times, ``ints`` integers. An *active
node* has instances, ions or detectors. A *sum* is a state to which several instances add by
POINTERs. A mechanism's *last instance* sets the GLOBAL variables that all instances read. A value's
*place* is its index in an array on the device.
"""
