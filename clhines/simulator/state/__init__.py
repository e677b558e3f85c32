"""State of a run: values on the host and on the device, saved files, copies.

`variables`: every value that changes, in NumPy; the reference works on it. `decisions`: choices
made once for the whole network. `sources`: which events reach which instance, and when.
`host_grid`: events in whole steps. `plays`: Vectors that play values. `chunk`: results of some
steps. `saved`: files, checked against `Model.schema`. `arena`: named regions of one array on the
device. `changes`: new parameters and weights on the device. `ranges`: limits of a precision.

Words: *one copy* is a network of which `Model.copies` are simulated side by side. A *field* is an
array of the saved state (`Model.schema`). A *rank* is an MPI process, which may have only a part of
the cells. The *ring* of a source is a ring buffer of its events' times.
"""
