"""Time `auto` on the cases that the project measures itself by, beside the floor.

    python -m bench reach [--device SPEC] [--morphologies FOLDER] [--dtype float64] [--out F]

Cases range from one cell to more than 10^7 nodes. `aim` is the largest acceptable multiple of the
floor on a GPU (float32: 0.15 more); `met` says whether it is reached. With kept factors the aim is
the plain solve above it, in natural order 1.2 times the plain solve. Values are random, and in
device order unless the case says otherwise; if they might fit a cache, two sets take turns. Times
are medians: of device events on a GPU, of wall time on a CPU. Every solution is checked.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from tqdm import tqdm

import clhines
from bench import made as shapes
from bench import record, systems, table
from clhines.solver import reference
from clhines.solver.device import timing

CACHED = 1 << 24  # nodes; two array sets take turns below


@dataclass(frozen=True)
class Case:
    """A batch, and which multiple of the floor was the aim in float64."""

    name: str
    forest: Callable[[argparse.Namespace], clhines.Forest]
    aim: float
    variants: bool = False  # also with kept factors, and in natural order


def trees(cells: int, nodes: int, branches: int) -> Callable[[Any], clhines.Forest]:
    return lambda _: systems.batch(cells, nodes, branches)


def one_chain(nodes: int) -> Callable[[Any], clhines.Forest]:
    return lambda _: clhines.Forest(shapes.chain(nodes))


def real_mix(args: argparse.Namespace) -> clhines.Forest:
    return systems.real_mix(args.morphologies, 2e7)


CASES = (
    Case("1 cell of 512", trees(1, 512, 50), 1.35),
    Case("1 cell of 1,500", trees(1, 1500, 150), 1.7),
    Case("1 chain of 1,500", one_chain(1500), 1.7),
    Case("1 cell of 1,000,000", trees(1, 1_000_000, 10_000), float("nan")),
    Case("256 cells of 512", trees(256, 512, 50), 1.35),
    Case("2,560 cells of 512", trees(2560, 512, 50), 1.6),
    Case("25,600 cells of 512", trees(25_600, 512, 50), 1.15, variants=True),
    Case("102,400 cells of 512", trees(102_400, 512, 50), 1.15),
    Case("409,600 cells of 128", trees(409_600, 128, 13), 1.15),
    Case("25,600 cells of 1,500", trees(25_600, 1500, 150), 1.3),
    Case("real mix", real_mix, 1.4),
)


def time_case(
    queue: cl.CommandQueue, forest: clhines.Forest, dtype: str, sets: list[Any], variants: bool
) -> list[dict[str, Any]]:
    solver = clhines.Solver(forest, "auto", dtype, queue=queue)
    values = [[a.astype(dtype) for a in arrays] for arrays in sets]
    floor = timing.floor_seconds(queue, forest.num_nodes, dtype, repeats=15)
    rows = []
    for way in ("", "factors kept", "natural order") if variants else ("",):
        launch, result = prepare(solver, values, way)
        seconds = timing.median_seconds(queue, launch, repeats=15)
        worst = reference.residual(forest, *values[0], result(0))
        if not worst < systems.TOLERANCE[dtype]:
            sys.exit(f"{way}, {dtype}, {forest}: residual {worst:.3g}: wrong, so not timed")
        rows.append(
            {
                "way": way,
                "dtype": dtype,
                "cells": forest.num_cells,
                "nodes": forest.num_nodes,
                "method": solver.plan.method,
                "kernels": len(solver.plan.parts),
                "seconds": seconds,
                "floor_seconds": floor,
                "x_floor": seconds / floor,
                "padding": solver.plan.packed_size / forest.num_nodes - 1,
                "residual": worst,
            }
        )
    return rows


def prepare(
    solver: clhines.Solver, values: list[list[np.ndarray]], way: str
) -> tuple[Callable[[int], list[cl.Event]], Callable[[int], np.ndarray]]:
    """Return two functions: one enqueues a solve, one gives a solution in natural order."""
    if not way:
        return systems.in_device_order(solver, values)
    queue, natural = solver.queue, way == "natural order"
    if natural:
        sets = [[cla.to_device(queue, a) for a in arrays] for arrays in values]
    else:
        sets = [[solver.to_device_order(a) for a in arrays] for arrays in values]
        kept = [solver.factor(*arrays[:2]) for arrays in values]
    out = [cla.zeros_like(s[2]) for s in sets]

    def launch(k: int) -> list[cl.Event]:
        at = k % len(sets)
        if natural:
            solver.solve(*sets[at], out=out[at], check=False)
        else:
            kept[at].enqueue(sets[at][2], out=out[at])
        return solver.kernel_events

    def result(k: int) -> np.ndarray:
        return np.asarray((out[k] if natural else solver.from_device_order(out[k])).get())

    return launch, result


def text(result: dict[str, Any]) -> str:
    head = (
        f"{'case':<22} {'dtype':<7} {'method':<17} {'kernels':>7} {'floor us':>9} {'solve us':>9} "
        f"{'x floor':>7} {'aim':>5} met"
    )
    lines = []
    for r in result["rows"]:
        aim = f"{r['aim']:.2f}" if r["aim"] else "-"
        name = f"  {r['way']}" if r["way"] else r["case"]
        met = ("yes" if r["x_floor"] <= r["aim"] else "no") if r["aim"] else "-"
        lines.append(
            f"{name:<22} {r['dtype']:<7} {r['method']:<17} {r['kernels']:>7} "
            f"{r['floor_seconds'] * 1e6:>9.1f} {r['seconds'] * 1e6:>9.1f} {r['x_floor']:>7.2f} "
            f"{aim:>5} {met}"
        )
    return table.ruled(head, lines)


def main(arguments: Sequence[str]) -> None:
    parser = record.parser("reach", __doc__)
    parser.add_argument("--dtype", nargs="+", default=["float64", "float32"])
    parser.add_argument("--cases", nargs="+", default=[c.name for c in CASES])
    parser.add_argument("--morphologies", help="folder of SWC files for the real mix")
    args = parser.parse_args(arguments)
    queue = record.queue(args.device, args.dtype)
    rows = []
    for case in tqdm([c for c in CASES if c.name in args.cases], disable=None):
        forest = case.forest(args)
        count = 2 if forest.num_nodes < CACHED else 1
        sets = [systems.system(forest, record.SEED + k) for k in range(count)]
        for dtype in args.dtype:
            plain = case.aim + 0.15 * (dtype == "float32")
            for row in time_case(queue, forest, dtype, sets, case.variants):
                if not row["way"]:
                    done = row["x_floor"]
                aim = {"": plain, "factors kept": done, "natural order": 1.2 * done}[row["way"]]
                rows.append({"case": case.name, "aim": aim if aim == aim else None, **row})
    record.write("reach", queue, arguments, {"rows": rows}, text, args.out)
