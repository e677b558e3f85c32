"""Methods `cr`, `pcr` and `cr_pcr`: cyclic reduction of chains, a work-group per chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from clhines.core.errors import InputError
from clhines.solver.forest import Forest
from clhines.solver.plan.by_cell import layout
from clhines.solver.plan.kernel_spec import KernelSpec
from clhines.solver.plan.plan import (
    Limits,
    Options,
    Part,
    Plan,
    as_int32,
    coarse,
    plan_by_kind,
    work_group_size,
)

USUAL_SWITCH = 256  # unknowns for PCR on GPUs: one per work-item
CPU_SWITCH = 16  # on CPUs PCR only adds work beyond a short vector loop
WIDEST = 256  # most work-items per group by default
SPARE_BYTES = 64  # local memory for other variables
BANK_SHIFT = 5  # one padding value per 2**5 unknowns: even strides then use all banks


@dataclass(frozen=True)
class ReductionSpec(KernelSpec):
    """Spec of ``reduction.mako``: CR until `switch` unknowns are left, then PCR."""

    template: ClassVar[str] = "solver/by_chain/reduction"
    bank_shift: ClassVar[int] = BANK_SHIFT
    first_argument: ClassVar[str] = "num_chains"
    tables: ClassVar[tuple[str, ...]] = (
        "cell_start:place",
        "cell_size",
        "cell_number:cell",
        "scratch_start if far",
    )
    takes: ClassVar[tuple[str, ...]] = (
        "const real *d",
        "const real *u",
        "const real *l if unsymmetric",
        "const real *b",
        "real *far_low if far",
        "real *far_mid if far",
        "real *far_up if far",
        "real *far_right if far",
        "real *x",
        "int *status",
    )
    needs_factor: ClassVar[bool] = False
    capacity: int  # unknowns that local memory holds, four values each
    switch: int
    storage: str  # ``local``, or ``global``: the first steps work in scratch arrays

    @property
    def places(self) -> int:
        """Length of an array in local memory for `capacity` unknowns and the padding."""
        return _skewed(self.capacity)

    @property
    def more_places(self) -> int:
        """Length of PCR's second array, for `switch` unknowns; 0 if no step is PCR."""
        return _skewed(self.switch) if self.switch > 1 else 0

    @property
    def far(self) -> bool:
        """Whether the first steps work in scratch arrays in global memory."""
        return self.storage == "global"


def plan_reduction(
    forest: Forest, method: str, real: str, limits: Limits, options: Options
) -> Plan:
    """Plan `cr`, `pcr`, `cr_pcr`: cyclic reduction, parallel cyclic reduction, and both.

    One kernel does CR (Hockney 1965) until `switch` unknowns are left, and then PCR (Hockney and
    Jesshope 1981), as Zhang, Cohen and Owens (2010) combine them; see Valero-Lara et al. 2018,
    section 4.1. Chains that do not fit into local memory begin with CR in global memory. The error
    has no bound: componentwise backward errors of 10^10 eps and more were measured.
    """
    _refuse_branches(forest, method)
    room = (limits.local_bytes - SPARE_BYTES) // (8 if real == "double" else 4) // 4
    switch = _switch(method, int(forest.sizes.max()), room, limits, options)
    most = _most_nodes(room, switch)

    def plan_some(part: Forest, _: np.ndarray, is_long: int) -> Plan:
        storage = "global" if is_long else "local"
        return _plan_chains(part, method, real, limits, options, switch, most, storage)

    return plan_by_kind(forest, method, forest.sizes > most, plan_some)


def _refuse_branches(forest: Forest, method: str) -> None:
    trees = forest.trees
    most = np.maximum.reduceat(trees.num_children, trees.offsets[:-1])[forest.shape_of_cell]
    branched = np.flatnonzero(most > 1)
    if len(branched):
        cell = int(branched[0])
        shape = forest.shape_of_cell[cell]
        begin, end = trees.offsets[shape : shape + 2]
        node = int(np.argmax(trees.num_children[begin:end] > 1))
        raise InputError(
            f"cell {cell} branches: node {node + forest.cell_offsets[cell]} (number {node} of its "
            f"cell) has {trees.num_children[begin + node]} children; method {method!r} solves "
            "chains only, from a root at one end"
        )


def _skewed(size: int) -> int:
    """Return the length of an array for `size` unknowns, with the padding of ``AT``."""
    return size + (size >> BANK_SHIFT)


def _unskewed(places: int) -> int:
    """Return how many unknowns, padded as in `_skewed`, fit into an array of `places`."""
    size = max(0, (places << BANK_SHIFT) // ((1 << BANK_SHIFT) + 1) + 1)
    while _skewed(size) > places:
        size -= 1
    return size


def _switch(method: str, largest: int, room: int, limits: Limits, options: Options) -> int:
    most = _unskewed(room // 2)
    if most < 1:
        raise InputError(f"method {method!r} needs more local memory than {limits.local_bytes} B")
    if method == "cr":
        return 1
    if method == "pcr":
        return most
    switch = options["switch"]
    if switch is None:
        return min(most, CPU_SWITCH if limits.is_cpu else USUAL_SWITCH)
    if min(switch, largest) > most:
        raise InputError(
            f"switch={switch} is above the limit of {most} unknowns that PCR can hold in the "
            f"device's {limits.local_bytes} B of local memory"
        )
    return min(int(switch), most)


def _most_nodes(room: int, switch: int) -> int:
    """Return how many unknowns fit into `room` values, beside PCR's array for `switch`."""
    if switch == 1:
        return _unskewed(room)
    both = _unskewed(room // 2)
    return both if switch >= both else _unskewed(room - _skewed(switch))


def _plan_chains(
    forest: Forest,
    method: str,
    real: str,
    limits: Limits,
    options: Options,
    switch: int,
    most: int,
    storage: str,
) -> Plan:
    """Plan one launch for chains; `storage` says whether they fit into local memory (``local``).

    PCR solves for up to `switch` unknowns; local memory holds `most` unknowns.
    """
    columns = layout.columns(forest, 1)
    cells = columns.cells
    sizes = forest.sizes[cells]
    largest = int(sizes.max())
    least = min(most, 256 if limits.is_cpu else 64)  # few kernels to build
    capacity = most if storage == "global" else coarse(max(largest, least), most)
    usual = 16 if limits.is_cpu else min(WIDEST, max(32, coarse(-(-largest // 2), WIDEST)))
    spec = ReductionSpec(
        real=real,
        work_group=work_group_size(options, limits, usual),
        capacity=capacity,
        switch=min(switch, capacity),
        storage=storage,
    )
    tables = {"cell_start": columns.start, "cell_size": sizes, "cell_number": cells}
    scratch: tuple[int, ...] = ()
    if storage == "global":  # scratch for the even nodes
        ends = np.cumsum((sizes + 1) // 2)
        tables["scratch_start"] = ends - (sizes + 1) // 2
        scratch = (int(ends[-1]),)
    part = Part(
        spec=spec,
        tables=as_int32(tables, columns.size),
        num_units=len(cells),
        num_groups=len(cells),
        statistics=_statistics(sizes, spec),
        target=len(scratch),
        max_rhs=1,
    )
    gather = layout.column_gather(forest, columns)
    return Plan(forest, method, gather, (part,), scratch)


def _statistics(sizes: np.ndarray, spec: ReductionSpec) -> dict[str, int | float]:
    """Count the rounds, steps and idle lanes of a solve, over all chains.

    In a step each lane of a work-group computes one unknown; a round has the steps that depend on
    the round before.
    """
    sizes, counts = np.unique(sizes, return_counts=True)
    left, group = sizes.copy(), spec.work_group
    rounds, steps, busy = (np.zeros(len(sizes), np.int64) for _ in range(3))

    def add(active: np.ndarray) -> None:
        """Count a round in which chain k computes ``active[k]`` unknowns; 0: chain k is done."""
        nonlocal rounds, steps, busy
        rounds = rounds + (active > 0)
        steps = steps - -active // group
        busy = busy + active

    first = spec.storage == "global"
    while first or (left > spec.switch).any():
        halved = (left > spec.switch) | first
        add(np.where(halved, (left + 1) // 2, 0))
        add(np.where(halved, left // 2, 0))  # on the way back
        left = np.where(halved, (left + 1) // 2, left)
        first = False
    distance = 1
    while (distance < left).any():
        add(np.where(distance < left, left, 0))
        distance *= 2
    add(left)
    return {
        "rounds": int(rounds.max()),
        "dependent_steps": int(steps.max()),
        "barriers": int(((rounds + 1) * counts).sum()),
        "idle_lanes": 1 - float(busy @ counts) / float(steps @ counts * group),
        "cells_per_block": 1,
    }
