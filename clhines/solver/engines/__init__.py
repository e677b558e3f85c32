"""Engines: how one batch is solved on a device. A `Solver` has one engine.

`engine`: the interface of engines. `whole`: a batch by its plan. `lanes`: chains on a CPU.
`memory`: the memory of a device and the needs of a batch. `repeated`: calls with the same arrays.
Both engines use `loaded`, a plan on a queue, with its tables and kernels; `hosted`, prepared solves
from NumPy to NumPy; `many`, a lane per right-hand side; and `pivots`, what kernels tell about
pivots. `solver.tune` chooses an engine and makes it.

Words: the *operands* of a solve are d, u, (l) and b. *Rows* are right-hand sides. The *status* has
a number for each cell, 0 if all pivots are good (`STATUS`). A host array is *lent* if the device
uses its memory in place. *Pinned* memory of the host is locked, so that devices copy it directly. A
*reduced system* has the nodes on which several parts of a large cell depend.
"""
