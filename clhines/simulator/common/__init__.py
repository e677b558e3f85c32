"""Tools that networks, models and runs share.

`arrays`: operations on flat arrays. `checks`: argument checks. `npz`: array files, checked
when read. `units`: NEURON's units and their arithmetic; a new unit is a row there. `launchers`: how
to end all processes of an MPI launcher.
"""
