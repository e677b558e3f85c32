"""Recorded quantities, from the device to arrays.

`requests`: the checked arguments of `Simulation.record`. `records`: `Record`, and the chunks of a
run. `columns`: names of records and columns. `rows`: room for rows on a device. `reduced`:
reductions of rows. `features`: features of voltages. `membrane`: currents of membranes from
voltages.
"""
