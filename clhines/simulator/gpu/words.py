"""Packed integers and sizes that plans, tables and kernels of epochs on GPUs share."""

from __future__ import annotations

from clhines.solver.plan.kernel_spec import Word

WARP = 32
NAMED_BARRIERS = 15  # barriers in NVIDIA's work-groups besides the usual one
SITE = Word(place=12, cell=4, slot=15)  # an instance: place in the cell; cell, slot in the group
SLOT_RUN = Word(first=16, number=15)  # a node's instance slots
RECORDED = Word(lane=16, node=15)  # node: index in the lane's segment
MAX_UNITS = SITE.most("cell") + 1
LIST_HEAD = 5  # a list's numbers before the point kinds' counts
MAX_DENSITIES = 31  # density kinds, a bit each
SPECIAL = 1 << 30  # bit in a node's word: it has detectors or played parameters
HAS_SPECIAL = -(1 << 31)  # bit in a list: one of its nodes is special
MECHANISMS = ~HAS_SPECIAL  # the other bits


class ColumnRow:
    """Offsets in the row of numbers for a column, which has `rows` potentials.

    A segment's last column is not eliminated with the others, so its row differs:

    - 0: reciprocals of pivots; in a last column, conductances to ground
    - `inner`: factors between the column's potentials; in a last column, conductances
    - `top`: factors to the parent segment's last column; in a last column, conductances
    - `next`: factors to the next column
    - `g`: conductances between layers
    - `axial`: conductances to the next column; in a last column, from the segment's first to `top`
    - `has`: 1 if the column has layers
    - `constant`: the membrane's constant conductance and current
    """

    def __init__(self, rows: int) -> None:
        self.inner = rows
        self.top = self.inner + rows * (rows - 1) // 2
        self.next = self.top + rows**2
        self.g = self.next + rows * (rows + 1) // 2
        self.axial = self.g + rows - 1
        self.has = self.axial + rows
        self.constant = self.has + 1
        self.width = self.constant + 2
