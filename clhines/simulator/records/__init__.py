"""Recorded quantities, from the device to arrays.

`requests`: checks the arguments of `Simulation.record`. `records`: `Record`, and a run's chunks.
`columns`: record and column names. `rows`: device memory for rows. `reduced`: reductions over rows.
`features`: features of voltages. `membrane`: membrane currents from voltages.
"""
