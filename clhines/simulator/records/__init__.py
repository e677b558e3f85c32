"""Recorded quantities, from the device to arrays.

`requests`: checks the arguments of `Simulation.record`. `records`: `Record`, and a run's chunks.
`columns`: names of records and columns. `rows`: memory for rows on a device. `reduced`: reductions
of rows. `features`: features of voltages. `membrane`: membrane currents from voltages.
"""
