"""Candidates of `auto`, and the cost model that ranks them without a device.

A *candidate* is a row of `clhines.METHODS` with options; to add one, add a line to `CANDIDATES` and
fit the model again (``python -m bench tune --fit``). `ranked` orders them here,
`methods.candidate_plans` plans them in that order, and `solver.tune` takes the first or
measures.

The model is a sum of terms, numbers that a forest's statistics and a device's limits give, times
seconds for one of each. The seconds are data, in ``costs.json``, fitted and never negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files as resources
from math import inf, log2
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import DTypeLike

from clhines.core.errors import InputError, shown
from clhines.core.files import parse_json
from clhines.solver.forest import Forest
from clhines.solver.plan.plan import Limits, Option

MODES = ("heuristic", "measure", "cached")  # for `Solver(tune=...)`
VECTOR_WIDTHS = (1, 2, 4, 8, 16)
COSTS_FILE = "costs.json"


@dataclass(frozen=True)
class Candidate:
    """A method with options that `auto` may stand for; the method chooses the others."""

    method: str
    options: Mapping[str, Option] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join([self.method, *(f"{k}={v}" for k, v in self.options.items())])


# By kind of device, in the order in which they are taken where the model knows no costs. Rows in
# the shape of a GPU (a barrier a round, full interleaving) are no candidates on a CPU.
CANDIDATES: dict[str, tuple[Candidate, ...]] = {
    "gpu": (
        Candidate("contraction"),
        Candidate("contraction", {"segment": 4}),
        Candidate("contraction", {"segment": 8}),
        Candidate("contraction", {"segment": 16}),
        Candidate("fine"),
        Candidate("interleaved"),
    ),
    "cpu": (
        Candidate("fine"),
        Candidate("fine", {"vector_width": 4}),
        Candidate("block_interleaved"),
        Candidate("block_interleaved", {"vector_width": 4}),
        Candidate("flat"),
    ),
}


@dataclass(frozen=True)
class Statistics:
    cells: int
    nodes: int  # in all cells
    shapes: int  # distinct cells
    shape_nodes: int  # in distinct shapes: entries in an index table
    largest: int  # nodes of the largest cell
    deepest: int  # most steps of a cell with a lane per branch: sum of levels' longest
    steps: int  # the same, added over all cells
    padded: tuple[int, ...]  # nodes when shapes are filled up to whole vectors of `VECTOR_WIDTHS`


_KNOWN: WeakKeyDictionary[Forest, Statistics] = WeakKeyDictionary()


def statistics(forest: Forest) -> Statistics:
    """Statistics of a forest, kept for the next call; finds branches that every plan needs."""
    if forest not in _KNOWN:
        trees = forest.trees
        count = np.bincount(forest.shape_of_cell, minlength=trees.num_trees)
        first_branch, first_level = trees.by_level()
        longest = np.maximum.reduceat(trees.branch_length, first_branch)  # per level
        steps = np.add.reduceat(longest, first_level)
        _KNOWN[forest] = Statistics(
            cells=forest.num_cells,
            nodes=forest.num_nodes,
            shapes=trees.num_trees,
            shape_nodes=len(trees.parent),
            largest=int(trees.sizes.max()),
            deepest=int(steps.max()),
            steps=int(steps @ count),
            padded=tuple(int(-(-count // w) * w @ trees.sizes) for w in VECTOR_WIDTHS),
        )
    return _KNOWN[forest]


def kind_of(limits: Limits) -> str:
    return "cpu" if limits.is_cpu else "gpu"


def terms(
    stats: Statistics, limits: Limits, dtype: DTypeLike, options: Mapping[str, Option]
) -> dict[str, float]:
    """Terms of the cost model, in their own units; of `options` only `vector_width` matters."""
    itemsize = np.dtype(dtype).itemsize
    width = int(options.get("vector_width") or 0) or _native_width(stats, limits, itemsize)
    return _terms(stats, limits.compute_units, itemsize, width)


@lru_cache(maxsize=64)  # most candidates share theirs
def _terms(stats: Statistics, units: int, itemsize: int, width: int) -> dict[str, float]:
    padded = stats.padded[VECTOR_WIDTHS.index(width)]
    whole = width == 1 or padded <= 1.25 * stats.nodes  # else cells of several shapes share lanes
    active = min(units, -(-stats.cells // width))  # units that a work-item is there for
    busiest = max(float(stats.largest), stats.nodes / active)
    return {
        "launch": 1.0,
        "rounds": log2(stats.largest),
        "size": float(stats.largest),
        "deepest": float(stats.deepest),
        "cells": max(1.0, stats.cells / units),
        "nodes": busiest,
        "steps": max(float(stats.deepest), stats.steps / units),
        "vectors": max(float(stats.largest), padded / width / active) if whole else 0.0,
        "lanes": 0.0 if whole else max(float(stats.largest * width), busiest),
        "bytes": float(stats.nodes * itemsize),
        "tables": float(stats.shape_nodes),
    }


def _native_width(stats: Statistics, limits: Limits, itemsize: int) -> int:
    width = max(1, limits.vector_bytes // itemsize) if limits.is_cpu else 1
    while width > stats.cells:
        width //= 2
    return min(width, VECTOR_WIDTHS[-1])


@cache
def costs() -> dict[str, dict[str, dict[str, float]]]:
    """Fitted seconds: ``costs()[kind + " " + dtype][candidate][term]``; part of the package."""
    text = resources("clhines.solver.plan").joinpath(COSTS_FILE).read_bytes()
    return checked_costs(parse_json(text, COSTS_FILE))


def checked_costs(table: object) -> dict[str, dict[str, dict[str, float]]]:
    """Return the costs of a table as it is read; `InputError` for anything but finite seconds."""
    names = set(_terms(Statistics(1, 1, 1, 1, 1, 1, 1, (1,) * len(VECTOR_WIDTHS)), 1, 8, 1))
    costs = table.get("costs") if isinstance(table, dict) else None
    if not isinstance(costs, dict):
        raise InputError(f"{COSTS_FILE}: has no costs; expected a table of them")
    for kind, rows in costs.items():
        for name, terms_ in rows.items() if isinstance(rows, dict) else [(kind, None)]:
            if not isinstance(terms_, dict) or not set(terms_) <= names:
                raise InputError(f"{COSTS_FILE}: {name} has not the terms of the model")
            for term, seconds in terms_.items():
                number = type(seconds) in (int, float)
                if not number or not 0 <= seconds < inf:
                    raise InputError(
                        f"{COSTS_FILE}: {name}, {term} is {shown(seconds)}; expected seconds"
                    )
    return costs


def predict(candidate: Candidate, stats: Statistics, limits: Limits, dtype: DTypeLike) -> float:
    table = costs().get(f"{kind_of(limits)} {np.dtype(dtype).name}", {}).get(str(candidate))
    if table is None:
        return inf
    values = terms(stats, limits, dtype, candidate.options)
    return sum(seconds * values[name] for name, seconds in table.items())


def ranked(forest: Forest, dtype: DTypeLike, limits: Limits) -> list[tuple[Candidate, float]]:
    """Candidates with the seconds expected of them, fastest first, or in their own order."""
    stats = statistics(forest)
    rows = [(c, predict(c, stats, limits, dtype)) for c in CANDIDATES[kind_of(limits)]]
    return sorted(rows, key=lambda row: row[1])
