"""Recorded quantities, from the device to arrays and files.

`records`: what may be recorded, its columns and files; `reduced`: what is kept of values, by
`features` for voltages. `membrane`: currents of membranes
from voltages.
"""
