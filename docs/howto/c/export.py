"""Writes a solver for C: ``solve.cl``, and all that its kernel is given, in ``solve.bin``."""

from pathlib import Path

import numpy as np

import clhines

forest = clhines.Forest.repeat([np.array([-1, 0, 1, 1, 3])], 1000)
solver = clhines.Solver(forest, "interleaved", dtype="float64")  # or flat: one kernel, one launch
(part,) = solver.plan.parts
((units, groups),) = part.launches  # the kernel's first argument, and its work-groups
sizes = forest.num_nodes, solver.plan.packed_size, forest.num_cells
tables = [part.tables[name] for name in part.spec.roles()]  # in the order of its arguments

Path("solve.cl").write_text(solver.source)
with open("solve.bin", "wb") as file:
    np.array([*sizes, units, groups, part.spec.work_group, len(tables)], np.int32).tofile(file)
    for table in (forest.parent, solver.plan.gather, *tables):
        np.array([len(table), *table], np.int32).tofile(file)
