"""A run's state: values on the host and on the device, saved files, copies.

`variables`: every value that changes, in NumPy; the reference works on it. `decisions`: choices
made once for the whole network. `sources`: which events reach which instance, and when.
`host_grid`: events in whole steps. `plays`: Vectors that play values. `chunk`: results of some
steps. `saved`: files, checked against `Model.schema`. `arena`: named regions in one device array.
`changes`: new parameters and weights on the device. `ranges`: a precision's limits.

Words: *one copy* is a network of which several are simulated side by side. A *field* is an array in
the saved state (`Model.schema`). A *rank* is an MPI process, which may have only a part of the
cells. A source's *ring* is a ring buffer with its events' times.
"""
