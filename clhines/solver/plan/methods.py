"""The table of methods, and `make_plan`, which applies one to a forest.

A method is a row of `METHODS`; `make_plan` turns a row, a forest and the limits of a device into a
`Plan`. Neither needs a device or OpenCL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import DTypeLike

from clhines.core.errors import InputError, meant, shown
from clhines.solver.forest import Forest
from clhines.solver.plan import auto
from clhines.solver.plan.auto import Candidate
from clhines.solver.plan.by_branch.fine_vector import FINE_OPTIONS, plan_fine
from clhines.solver.plan.by_branch.levels import plan_levels
from clhines.solver.plan.by_cell.cell import MAX_CELL_NODES, plan_block_local, plan_cells
from clhines.solver.plan.by_chain.reduction import plan_reduction
from clhines.solver.plan.by_segment.contraction import plan_contraction
from clhines.solver.plan.packing import PACKINGS
from clhines.solver.plan.plan import Limits, Option, Options, Plan, real_name

Build = Callable[[Forest, str, str, Limits, Options], Plan]


@dataclass(frozen=True)
class Method:
    """A row of the table of methods.

    ``build(forest, method, real, limits, options)`` makes the plan: `method` is the row's name,
    `real` is ``double`` or ``float``, `limits` are the device's. `options` has the default of each
    option; None means that the method chooses a value by the limits.
    """

    summary: str
    source: str
    build: Build
    options: Mapping[str, object]
    chains_only: bool = False


# Arguments of a `Solver` and its methods, to suggest for a misspelt one that comes as an option.
_ARGUMENTS = "method dtype device queue tune profile sizes out check columns periodic".split()


def make_plan(
    forest: Forest,
    method: str = "auto",
    dtype: DTypeLike = np.float64,
    limits: Limits | None = None,
    **options: Option,
) -> Plan:
    """Plan how to solve a forest.

    Parameters
    ----------
    forest : Forest
    method : str
        ``auto``, the first of `candidate_plans`, or a name in `METHODS`.
    dtype : numpy dtype
        float64 or float32.
    limits : Limits, optional
        Limits of the device; default: of a mid-size GPU.
    **options
        See ``METHODS[method].options``.

    Returns
    -------
    Plan

    Raises
    ------
    InputError
        Unknown method or option, or an option that the device does not support.
    """
    if not isinstance(forest, Forest):
        raise InputError(f"forest is {type(forest).__name__}; expected a clhines.Forest")
    limits = Limits() if limits is None else limits
    if not isinstance(limits, Limits):
        raise InputError(f"limits is {type(limits).__name__}; expected Limits, or None")
    if isinstance(method, str) and method == "auto":
        return next(candidate_plans(forest, dtype, limits, **options))[1]
    row = _row_of(method, options)
    for name, value in options.items():
        _check_option(name, value, limits)
    real = real_name(dtype)
    check_width(options.get("vector_width"), "vector_width", real, limits)
    if int(forest.sizes.max()) > MAX_CELL_NODES:
        raise InputError(
            f"cell {int(forest.sizes.argmax())} has {int(forest.sizes.max())} nodes; "
            f"expected at most {MAX_CELL_NODES}"
        )
    most = options.get("max_cells")
    if most:
        options["max_cells"] = min(int(most), forest.num_cells)
    settings = cast(Options, {**row.options, **options})
    plan = row.build(forest, method, real, limits, settings)
    return replace(plan, summary=row.summary)


def _row_of(method: object, options: Collection[str]) -> Method:
    if not isinstance(method, str) or method not in METHODS:
        near = meant(method, ["auto", *METHODS])
        raise InputError(
            f"method {shown(method)} is unknown; expected auto, {', '.join(METHODS)}{near}"
        )
    row = METHODS[method]
    unknown = sorted({*options} - {*row.options})
    if unknown:
        raise InputError(
            f"option {shown(unknown[0])} is not one of method {shown(method)}; "
            f"expected {', '.join(row.options) or 'none'}"
            f"{meant(unknown[0], [*row.options, *_ARGUMENTS])}"
        )
    return row


def candidate_plans(
    forest: Forest, dtype: DTypeLike, limits: Limits, **options: Option
) -> Iterator[tuple[Candidate, Plan]]:
    """Yield the candidates of `auto` that can be planned, fastest first; raise if none can."""
    real_name(dtype)
    ranked = auto.ranked(forest, dtype, limits)
    accepted = sorted({name for c, _ in ranked for name in METHODS[c.method].options})
    unknown = sorted(set(options) - set(accepted))
    if unknown:
        raise InputError(
            f"option {shown(unknown[0])} is not one of what auto chooses from; "
            f"expected {', '.join(accepted)}{meant(unknown[0], [*accepted, *_ARGUMENTS])}"
        )
    refused: InputError | None = None
    yielded: list[tuple[str, dict[str, Option]]] = []
    for candidate, _ in ranked:
        settings: dict[str, Option] = {**candidate.options, **options}
        if (candidate.method, settings) in yielded:  # `options` have made two candidates equal
            continue
        try:
            plan = make_plan(forest, candidate.method, dtype, limits, **settings)
        except InputError as error:
            refused = refused or error
            continue
        yielded.append((candidate.method, settings))
        yield Candidate(candidate.method, settings), plan
    if not yielded and refused is not None:
        raise refused


CHOICES: dict[str, tuple[Option, ...]] = {
    "local": (True, False),
    "vector_width": (1, 2, 4, 8, 16),
    "padding": ("compute", "skip"),
    "split": ("mean", "block"),
    "packing": PACKINGS,
    "level_shift": (True, False),
    "registers": (True, False),
}  # options with few values; other options are whole numbers


# One sentence for each option.
OPTION_TEXTS = {
    "work_group": "work-items of a work-group",
    "block_size": "cells of a block, side by side in memory",
    "vector_width": "cells or branches in the lanes of a vector",
    "padding": "lanes of shorter branches compute on padding, or skip it",
    "local": "keep right-hand sides in local memory",
    "switch": "unknowns from which on the parallel reduction takes over",
    "segment": "most nodes of a segment, the work of one work-item",
    "max_cells": "most cells of a block",
    "split": "cut branches that are longer than the mean, or than the block's share",
    "packing": "order in which cells are put into blocks",
    "level_shift": "move branches to later levels, where lanes are idle",
    "registers": "keep values in registers, not in local memory",
}


def check_width(width: Option, name: str, real: str, limits: Limits) -> None:
    """Refuse a vector width that the device's compiler does not compile correctly."""
    most = limits.trusted_bytes // (8 if real == "double" else 4)
    if width is not None and int(width) > most:
        raise InputError(
            f"{name}={width} is wider than this device computes right in "
            f"{'float64' if real == 'double' else 'float32'}; expected at most {most}"
        )


def _check_option(name: str, value: Option, limits: Limits) -> None:
    if value is None:
        return
    choices = CHOICES.get(name)
    if choices is None:
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not whole or int(value) < 1:
            raise InputError(
                f"{name}={shown(value)} is not valid; expected a whole number of at least 1"
            )
    elif not isinstance(value, (str, int, np.integer, np.bool_)) or not any(
        value == c and isinstance(value, bool) is isinstance(c, bool) for c in choices
    ):
        *most, last = [repr(c) for c in choices]
        raise InputError(
            f"{name}={shown(value)} is not valid; expected {', '.join(most)} or {last}"
        )
    if name == "work_group" and int(value) > limits.max_work_group:
        raise InputError(
            f"work_group={shown(value)} is above the device's limit of "
            f"{limits.max_work_group} work-items"
        )


METHODS: dict[str, Method] = {
    "flat": Method(
        "one work-item per cell, cell after cell",
        "Valero-Lara 2018, Flat",
        plan_cells,
        {"work_group": None},
    ),
    "interleaved": Method(
        "one work-item per cell, element j of all cells side by side",
        "Valero-Lara 2018, Full-Interleaved; cuThomasBatch on chains",
        plan_cells,
        {"work_group": None},
    ),
    "block_interleaved": Method(
        "one work-item per cell or a vector of cells, interleaved in blocks",
        "Valero-Lara 2018, Block-Interleaved; Huber 2018, the old solver",
        plan_cells,
        {"work_group": None, "block_size": None, "vector_width": None},
    ),
    "block_local": Method(
        "one work-item per cell, interleaved in blocks, right-hand sides in local memory",
        "Valero-Lara 2018, Block-Shared",
        plan_block_local,
        {"block_size": None},
    ),
    "levels": Method(
        "a launch per branch level of the whole batch, one work-item per branch",
        "Valero-Lara 2018, multi-morphology approach; cuThomasVBatch on chains",
        plan_levels,
        {"work_group": None, "padding": None},
    ),
    "fine": Method(
        "one work-group per block of cells, one work-item or lane of a vector per branch",
        "Huber 2018, sections 3 to 6 and 8",
        plan_fine,
        FINE_OPTIONS,
    ),
    "cr": Method(
        "one work-group per chain, cyclic reduction in local memory",
        "Hockney 1965; Valero-Lara 2018, section 4.1",
        plan_reduction,
        {"work_group": None},
        chains_only=True,
    ),
    "pcr": Method(
        "one work-group per chain, parallel cyclic reduction in local memory",
        "Hockney and Jesshope 1981; Valero-Lara 2018, section 4.1",
        plan_reduction,
        {"work_group": None},
        chains_only=True,
    ),
    "cr_pcr": Method(
        "one work-group per chain, cyclic reduction and then the parallel one, in local memory",
        "Zhang, Cohen and Owens 2010; Valero-Lara 2018, gtsvStridedBatch",
        plan_reduction,
        {"work_group": None, "switch": None},
        chains_only=True,
    ),
    "contraction": Method(
        "one work-group per block of cells, one work-item per segment, O(log n) rounds",
        "new here; rake and compress after Miller and Reif 1985",
        plan_contraction,
        {"work_group": None, "segment": None, "max_cells": None, "registers": None},
    ),
}
