"""From files to compartments and a matrix; NumPy only.

Words and units are NEURON's. A *sample* is a line in an SWC file: a point with a radius and a type.
A *section* is an unbranched chain of samples with one type. It is divided into *segments* of equal
length; each is a *node* (compartment) with its piece's membrane area. Units: µm, `Ra` in Ω·cm, `cm`
in µF/cm², matrix entries in µS.

Modules
    `morphology`: `Morphology`, one cell's samples. `swc`: a strict reader; errors give file
    and line. `samples`: the tree rooted at the soma, section rules, repairs on request.
    `sections`: `Sections`, their 3-D points and connections, and differences from NEURON's
    importer. `cable`: `Cable` (compartments: areas, resistances, regions, distances) and `System`
    (the matrix for a backward-Euler step). `synthetic`: files of sample cells.
    `around`: nodes that enclose others.

From a morphology to a passive membrane's matrix:

>>> import numpy as np
>>> from clhines import discretise, sample_cells
>>> cell = sample_cells()[0]
>>> cable = discretise(cell, max_length=20)  # µm; or d_lambda=0.1
>>> cable.num_nodes, int(cable.soma)
(210, 0)
>>> step = cable.system(dt=0.025, g_pas=1e-4, e_pas=-65.0)  # ms, S/cm², mV
>>> rest = np.full(cable.num_nodes, -65.0)

The resting voltage solves the system:

>>> from clhines import Forest
>>> from clhines.solver import reference
>>> forest = Forest(cable.parent)
>>> v = reference.solve_serial(forest, step.d, step.u, step.rhs(rest))
>>> bool(np.abs(v - rest).max() < 1e-9)
True

To add a file format: a module like `swc` that returns `Morphology`.
"""
