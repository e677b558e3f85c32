"""Time a step of neurons with many channels, by both engines, over numbers of copies.

    python -m bench cells [--device SPEC] [--cells l5pc granule] [--copies 1 100 1000 10000] ...

The neurons are those of `bench.neurons`, on made-up morphologies or, for ``l5pc``, on one of an
SWC file. All copies are equal and nothing connects them. Each case first runs some ms from the
start, whose voltages at the somas are compared with those of one cell by the engine
``reference``; then pieces of equal numbers of steps are timed by the wall clock. Writes
``cells-<device>.json`` and ``.txt``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyopencl as cl
from tqdm import tqdm

import clhines
from bench import neurons, record, table
from clhines.cells.cable import Cable
from clhines.device import program
from clhines.errors import ClhinesError

APART = {"float64": 1e-6, "float32": 0.5}  # mV, from the reference
PIECES = 5


def truth(name: str, cable: Cable, check_ms: float) -> np.ndarray:
    """Return (steps,) mV: the voltage at the soma of one neuron, by the engine ``reference``."""
    network = neurons.neurons(name, cable, 1)
    simulation = clhines.Simulation(network, neurons.DT, engine="reference", v_init=neurons.V_INIT)
    recorded = simulation.record("v", network.soma)
    values: np.ndarray = simulation.run(check_ms)[recorded][:, 0]
    return values


def row(
    queue: cl.CommandQueue, args: argparse.Namespace, case: dict[str, Any], expected: np.ndarray
) -> dict[str, Any]:
    """Build, check and time one case."""
    cable = case.pop("cable")
    begin, early = time.perf_counter(), len(program.build_seconds)
    network = neurons.neurons(case["cell"], cable, case["copies"])
    described = time.perf_counter()
    simulation = clhines.Simulation(
        network,
        neurons.DT,
        case["dtype"],
        queue=queue,
        engine=case["engine"],
        v_init=neurons.V_INIT,
    )
    recorded = simulation.record("v", network.soma[[0, -1]])
    planned = time.perf_counter()
    compiled = sum(program.build_seconds[early:])
    simulation.run(neurons.DT)
    first = time.perf_counter()
    found = simulation.run(args.check - neurons.DT)[recorded]
    apart = float(np.abs(found - expected[-len(found) :, None]).max())
    taken = []
    for _ in range(PIECES):
        start = time.perf_counter()
        simulation.run(args.steps * neurons.DT)
        taken.append((time.perf_counter() - start) / args.steps)
    seconds = float(np.median(taken))
    compartments = int((cable.area > 0).sum()) * case["copies"]
    return {
        **case,
        "engine": simulation.engine,
        "nodes": cable.num_nodes * case["copies"],
        "compartments": compartments,
        "seconds": seconds,
        "taken": taken,
        "ns_per_compartment": seconds / compartments * 1e9,
        "describe_s": described - begin,
        "plan_s": planned - described - compiled,
        "compile_s": compiled,
        "to_first_step_s": first - begin,
        "apart_mv": apart,
        "good": apart <= APART[case["dtype"]],
    }


def measured(queue: cl.CommandQueue, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row or a reason for each case."""
    each = [
        {"cell": cell, "copies": copies, "dtype": dtype, "engine": engine}
        for cell in args.cells
        for copies in args.copies
        for dtype in args.dtype
        for engine in args.engines
    ]
    expected: dict[str, np.ndarray] = {}
    for case in tqdm(each, disable=None):
        cell = case["cell"]
        swc = clhines.read_swc(args.swc)[0] if args.swc and cell == "l5pc" else None
        cable = neurons.cable_of(cell, swc)
        if cell not in expected:
            expected[cell] = truth(cell, cable, args.check)
        try:
            yield row(queue, args, {**case, "cable": cable}, expected[cell])
        except ClhinesError as error:
            yield {**case, "reason": str(error).splitlines()[0]}


def text(result: dict[str, Any]) -> str:
    """Return the rows as text, and then what is missing."""
    head = (
        f"{'cell':<8} {'copies':>6} {'engine':<7} {'dtype':<8} {'step us':>9} {'ns/comp.':>8} "
        f"{'describe':>8} {'plan s':>7} {'first s':>7} {'apart mV':>8}"
    )
    rows = result["cells"]
    lines = [
        f"{r['cell']:<8} {r['copies']:>6} {r['engine']:<7} {r['dtype']:<8} "
        f"{r['seconds'] * 1e6:>9.1f} {r['ns_per_compartment']:>8.3g} {r['describe_s']:>8.2f} "
        f"{r['plan_s']:>7.2f} {r['to_first_step_s']:>7.2f} {r['apart_mv']:>8.1e}"
        for r in rows
    ]
    shown = table.ruled(head, lines, [(r["cell"], r["copies"]) for r in rows])
    explained = (
        "step us: median of the pieces, by the wall clock; ns/comp.: the same over the "
        "compartments; describe: the network's description, s; plan s: all else before the first "
        "step but compilation; first s: from the first line to the end of the first step; apart: "
        "largest difference from the reference's voltage at a soma."
    )
    missing = [(m["cell"], m["reason"], str(m["copies"])) for m in result["missing"]]
    parts = [shown, "", *table.wrapped([explained]), *[""][: len(missing)], *table.missing(missing)]
    return "\n".join(parts)


def main(arguments: Sequence[str]) -> None:
    """Run all cases and write the table."""
    parser = record.parser("cells", __doc__)
    add = parser.add_argument
    add("--cells", nargs="+", choices=["l5pc", "granule"], default=["l5pc", "granule"])
    add("--copies", type=int, nargs="+", default=[1, 100, 1000, 10000])
    add("--dtype", nargs="+", choices=list(APART), default=list(APART))
    add("--engines", nargs="+", default=["epochs", "steps"])
    add("--steps", type=int, default=800, help="of each of the pieces that are timed")
    add("--check", type=float, default=5.0, help="ms compared with the reference")
    add("--swc", help="morphology of l5pc; default: one made up here")
    args = parser.parse_args(arguments)
    queue = record.queue(args.device, args.dtype)
    found = list(measured(queue, args))
    rows = [r for r in found if "reason" not in r]
    wrong = [r for r in rows if not r["good"]]
    if wrong:
        sys.exit(f"{wrong[0]}: {wrong[0]['apart_mv']:g} mV from the reference")
    missing = [r for r in found if "reason" in r]
    result = {"record": record.record(queue, "cells", arguments), "cells": rows, "missing": missing}
    record.write("cells", queue, result, text(result), args.out)
