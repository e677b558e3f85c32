"""The engines: ways to solve one batch, of which `Solver` has one.

`engine`: their base class. `whole`: a batch in one piece. `lanes`: chains on a CPU. `sliced`: in
slices, where it exceeds the memory budget. `memory`: the memory budget and the needs of a batch.
`repeated`: calls with the same arrays. `several`: several devices, each with a plain `Solver`. What
they share: `loaded`, a plan on a queue, with its tables and kernels; `hosted`, calls with NumPy
arrays, prepared for their number of rows, and copies; `many`, lanes over many right-hand sides;
`pivots`, what kernels report of them. `tune`, beside this package, chooses one and makes it.
"""
