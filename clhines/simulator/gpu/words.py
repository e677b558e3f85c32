"""Words and sizes that plans, tables and kernels of epochs on GPUs share."""

from __future__ import annotations

from clhines.solver.plan.kernel_spec import Word

WARP = 32
NAMED_BARRIERS = 15  # of NVIDIA's work-groups, besides the usual one
SITE = Word(place=12, cell=4, slot=15)  # of an instance: in the cell, in the work-group
SLOT_RUN = Word(first=16, number=15)  # slots of the instances of a node
RECORDED = Word(lane=16, node=15)  # node: number in the lane's segment
MAX_UNITS = SITE.most("cell") + 1
LIST_HEAD = 5  # numbers of a list of nodes before those of the point kinds
MAX_DENSITIES = 31  # kinds of the membrane, a bit each
SPECIAL = 1 << 30  # of the word of a node: it has detectors, or is played with
HAS_SPECIAL = -(1 << 31)  # of the bits of a list, one of whose nodes is special
MECHANISMS = ~HAS_SPECIAL  # the others
