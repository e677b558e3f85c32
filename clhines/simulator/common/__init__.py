"""Tools that networks, models and states share, below all of them.

`deferred`: objects and values that are made on demand. `npz`: files of arrays, checked when read.
"""
