"""Layout and kernel code of the instances of each mechanism.

`spec` has the facts of a mechanism and prints its calls in templates; `blocks` makes the spec of a
model. `layouts` orders values in arenas; `arenas` puts them there and reads them back. `played`,
`diffusing` and `locations` do so for played parameters, diffusing states and records.
`event_errors` translates error codes of kernels.
"""
