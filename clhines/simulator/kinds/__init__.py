"""Layout and kernel code of the instances of each mechanism.

`kind` has the facts of a mechanism in a network and prints its calls in templates, `vectors` its
calls for several instances at once, and `places` where its values are. `spec` is the spec of all
kernels on arenas; `blocks` makes it from a model. `layouts` orders values in arenas; `arenas` puts
them there and reads them back. `played`, `diffusing` and `locations` do so for played parameters,
diffusing states and records. `event_errors` translates error codes of kernels.
"""
