"""Engines: how one batch is solved on a device. A `Solver` has one engine.

`engine`: the interface of engines. `whole`: a batch by its plan. `lanes`: chains on a CPU.
`memory`: the memory of a device and the needs of a batch. `repeated`: calls with the same arrays.
Both engines use `loaded`, a plan on a queue, with its tables and kernels; `hosted`, prepared solves
from NumPy to NumPy; `many`, a lane per right-hand side; and `pivots`, the reports of kernels.
`solver.tune` chooses an engine and makes it.
"""
