"""Recorded quantities, from the device to arrays and files.

`records`: what may be recorded; `recording`: what a simulation records; `columns`: what users see
of a record. `sampling`: rows on the device; `reduced`: what is kept of values, by
`features` for voltages; `streams`: rows of files. `membrane`: currents of membranes from voltages.
"""
