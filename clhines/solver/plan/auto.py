"""Rank the candidates of method `auto` by a cost model, without a device.

A *candidate* is a row of `clhines.METHODS` with options. To add one, add a line to `CANDIDATES` and
fit the model again (``python -m bench tune --fit``). `ranked` orders the candidates,
`methods.candidate_plans` plans them in this order, and `solver.tune` takes the first or measures.

The cost is a sum over terms: each is a number, from the forest's statistics and the device's
limits, times seconds. The seconds are fitted, never negative, and stored in ``costs.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files as resources
from math import inf, log2
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import DTypeLike

from clhines.solver.forest import Forest
from clhines.solver.plan.plan import Limits, Option

MODES = ("heuristic", "measure")  # for `Solver(tune=...)`
VECTOR_WIDTHS = (1, 2, 4, 8, 16)
COSTS_FILE = "costs.json"


@dataclass(frozen=True)
class Candidate:
    """A method and options that `auto` may choose; the method chooses its other options."""

    method: str
    options: Mapping[str, Option] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join([self.method, *(f"{k}={v}" for k, v in self.options.items())])


# By device kind, in the order of preference if the model has no costs. Methods made for GPUs (a
# barrier per round, full interleaving) are no candidates on a CPU.
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
    shape_nodes: int  # nodes in the distinct shapes: entries in an index table
    largest: int  # nodes in the largest cell
    deepest: int  # most steps for a cell with a lane per branch: its levels' longest branches
    steps: int  # steps for all cells with a lane per branch
    padded: tuple[int, ...]  # nodes with each shape padded to whole vectors of `VECTOR_WIDTHS`


_KNOWN: WeakKeyDictionary[Forest, Statistics] = WeakKeyDictionary()


def statistics(forest: Forest) -> Statistics:
    """Return the numbers of a forest that the cost model uses, cached for the next call."""
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
    """Return the terms of the cost model for a batch, a device and a method's `options`.

    Among the options only `vector_width` changes the terms.
    """
    itemsize = np.dtype(dtype).itemsize
    width = int(options.get("vector_width") or 0) or _native_width(stats, limits, itemsize)
    return _terms(stats, limits.compute_units, itemsize, width)


@lru_cache(maxsize=64)  # most candidates have the same terms
def _terms(stats: Statistics, units: int, itemsize: int, width: int) -> dict[str, float]:
    padded = stats.padded[VECTOR_WIDTHS.index(width)]
    whole = width == 1 or padded <= 1.25 * stats.nodes  # else a vector has cells of several shapes
    active = min(units, -(-stats.cells // width))  # units that have a work-item
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
    """Return the fitted seconds, such as ``costs()["cpu float32"]["fine"]["rounds"]``."""
    text = resources("clhines.solver.plan").joinpath(COSTS_FILE).read_bytes()
    table: Any = json.loads(text)
    return cast("dict[str, dict[str, dict[str, float]]]", table["costs"])


def predict(candidate: Candidate, stats: Statistics, limits: Limits, dtype: DTypeLike) -> float:
    table = costs().get(f"{kind_of(limits)} {np.dtype(dtype).name}", {}).get(str(candidate))
    if table is None:
        return inf
    values = terms(stats, limits, dtype, candidate.options)
    return sum(seconds * values[name] for name, seconds in table.items())


def ranked(forest: Forest, dtype: DTypeLike, limits: Limits) -> list[tuple[Candidate, float]]:
    """Return the candidates with predicted seconds (infinite if unknown), fastest first."""
    stats = statistics(forest)
    rows = [(c, predict(c, stats, limits, dtype)) for c in CANDIDATES[kind_of(limits)]]
    return sorted(rows, key=lambda row: row[1])
