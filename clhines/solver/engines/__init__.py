"""The engines: ways to solve one batch, of which `Solver` has one.

`engine`: their base class. `whole`: a batch by its plan. `lanes`: chains on a CPU. `memory`: the
memory of a device and the needs of a batch. `repeated`: calls with the same arrays. The engines
share `loaded`, a plan on a queue, with its tables and kernels; `hosted`, calls with NumPy arrays,
prepared for their number of rows, and copies; `many`, lanes over many right-hand sides; `pivots`,
the reports of kernels. `tune`, beside this package, chooses an engine and makes it.
"""
