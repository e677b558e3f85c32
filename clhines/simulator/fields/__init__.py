"""Potentials outside of cells: electrodes that stimulate, and electrodes that record.

`geometry`: where segments lie. `potentials`: the potential of electrodes and of segments in a
volume conductor, and of a grid of values. `currents`: the currents that a potential drives into
the nodes of a cell. `fibres`: axons of the literature. Users meet them as `Network.field`,
`Network.lfp` and `clhines.find_thresholds`.

Lengths are in µm, conductivities in S/m, potentials in mV, currents of stimulating electrodes in
µA and those of membranes in nA.

The potential of 1 µA at 100 µm from a point electrode, and that of 1 nA:

>>> from clhines.simulator.fields import Medium, point_potential
>>> float(point_potential([[0.0, 0.0, 100.0]], [0.0, 0.0, 0.0], Medium(0.3))[0].round(3))
2.653
"""

from clhines.simulator.fields.currents import field_of
from clhines.simulator.fields.geometry import Geometry, geometry_of
from clhines.simulator.fields.potentials import (
    Medium,
    disk_potential,
    grid_potential,
    line_matrix,
    point_matrix,
    point_potential,
)

__all__ = [
    "Geometry",
    "Medium",
    "disk_potential",
    "field_of",
    "geometry_of",
    "grid_potential",
    "line_matrix",
    "point_matrix",
    "point_potential",
]
