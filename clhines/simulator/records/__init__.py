"""Recorded quantities, from the device to arrays and files.

`requests`: the arguments of `Simulation.record`, checked. `records`: `Record`, and the chunks of a
run. `columns`: names of records and columns. `writer`: files of rows. `reduced`: what is kept of
values, by `features` for voltages. `membrane`: currents of membranes from voltages.
"""
