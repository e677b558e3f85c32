"""Tools that networks, models and runs share, below all of them.

`arrays`: operations on flat arrays. `checks`: checks of arguments. `deferred`: objects and values
that are made on demand. `npz`: files of arrays, checked when read. `units`: units of NEURON and
their arithmetic; a new unit is a row there. `launchers`: ends of processes that an MPI launcher has
started.
"""
