"""Recorded quantities, from the device to arrays and files.

`requests`: the checked arguments of `Simulation.record`. `records`: `Record`, and the chunks of a
run. `columns`: names of records and columns. `writer`: files of rows. `reduced`: reductions of
rows. `features`: features of voltages. `membrane`: currents of membranes from voltages.
"""
