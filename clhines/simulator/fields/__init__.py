"""Extracellular potentials: stimulating and recording electrodes.

`geometry`: segment positions. `potentials`: potentials of electrodes and segments in a volume
conductor, or from a grid. `currents`: currents that a potential drives into nodes. `fibres`: axon
models from the literature. Users find them as `Network.field`, `Network.lfp` and
`clhines.find_thresholds`.

Units: µm, S/m, mV; µA for stimulating electrodes, nA for membrane currents.

The potential at 100 µm from a point electrode that delivers 1 µA:

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
