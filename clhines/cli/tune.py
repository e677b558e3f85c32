"""`clhines tune`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence

import clhines
from clhines.cli.arguments import read_cells
from clhines.cli.report import as_json, doing, folded
from clhines.core import files
from clhines.core.errors import InputError
from clhines.solver import tune
from clhines.solver.device import timing
from clhines.solver.device.devices import label
from clhines.solver.plan.auto import Candidate
from clhines.solver.solver import Solver


def run_tune(arguments: argparse.Namespace) -> int:
    if arguments.list or arguments.clear:
        if arguments.files:
            what = "--list" if arguments.list else "--clear"
            raise InputError(f"{what} takes no files; got {arguments.files[0]}")
        if arguments.list:
            return _list_store(arguments)
        print(f"{tune.clear()} removed from {files.cache_folder()}")
        return 0
    parents = [c.parent for c in read_cells(arguments, arguments.files)]
    forest = clhines.Forest.repeat(parents, arguments.cells or len(parents))
    with doing("planning and building the candidates"):
        solver = Solver(forest, dtype=arguments.dtype, device=arguments.device, tune="measure")
    with doing("timing the memory floor"):
        report, candidates = _tuning_report(solver)
    text = as_json(report | {"candidates": candidates})
    print(text if arguments.json else _tuning_table(report, candidates))
    return 0


def _tuning_report(solver: Solver) -> tuple[dict[str, object], list[dict[str, object]]]:
    tuning, forest = solver.tuning, solver.forest
    assert tuning is not None  # as tune='measure' was requested
    floor_s = timing.floor_seconds(solver.queue, solver.plan.forest.num_nodes, solver.dtype)
    rows: list[dict[str, object]] = [
        {
            "candidate": str(candidate),
            "solve_ms": seconds * 1e3,
            "x_floor": seconds / floor_s,
            "heuristic": candidate == tuning.heuristic,
            "chosen": candidate == tuning.best,
        }
        for candidate, seconds in sorted(tuning.rows, key=lambda row: row[1])
    ]
    report = {
        "cells": forest.num_cells,
        "nodes": forest.num_nodes,
        "shapes": forest.trees.num_trees,
        "dtype": solver.dtype.name,
        "device": label(solver.device),
        "floor_ms": floor_s * 1e3,
    }
    return report, rows


def _tuning_table(report: Mapping[str, object], candidates: Sequence[Mapping[str, object]]) -> str:
    lines = [
        "cells      {cells} ({shapes} distinct shapes)",
        "nodes      {nodes}",
        "dtype      {dtype}",
        "device     {device}",
        "floor      {floor_ms:.3f} ms",
    ]
    lines = [folded(line.format(**report), 11) for line in lines]
    width = max(len(str(row["candidate"])) for row in candidates)
    for row in candidates:
        notes = ", ".join(what for what in ("chosen", "heuristic") if row[what])
        line = "{candidate:<{width}} {solve_ms:>10.3f} ms {x_floor:>7.2f} x floor  {notes}"
        lines.append(line.format(width=width, notes=notes, **row).rstrip())
    return "\n".join(lines)


def _list_store(arguments: argparse.Namespace) -> int:
    entries = list(tune.stored())
    if arguments.json:
        print(json.dumps(entries, indent=1))
        return 0
    print(f"{len(entries)} stored in {files.cache_folder()}")
    for entry in entries:
        key, row = entry["key"], Candidate(entry["method"], entry["options"])
        where = " ".join(str(key.get(name)) for name in ("device", "dtype"))
        print(f"{key.get('cells')} cells, {key.get('nodes')} nodes, {where}: {row}"[:100])
    return 0
