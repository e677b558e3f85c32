"""Time a step of neurons with many channels beside others, over numbers of copies.

    python -m bench cells [--device SPEC] [--cells l5pc granule ...] [--copies 1 100 1000 10000] ...

The neurons of `bench.neurons` have made-up morphologies; those like ``l5pc`` can have the
morphology of an SWC file. All copies are equal and unconnected. Each case first runs some ms from
the start; the somas' voltages are compared with one cell in the engine ``reference``. Then pieces
of equal numbers of steps are timed by the wall clock. Each other simulator runs in its own process;
NEURON and CoreNEURON use the same mechanisms from .mod files. Writes ``cells-<device>.json`` and
``.txt`` and, with matplotlib, the picture ``.svg``.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
from tqdm import tqdm

import clhines
from bench import MissingError, child, neurons, plot, record, table
from bench.measures.ring import GOOD_CHOICE, style
from bench.peers import cells as peers
from clhines.core.errors import ClhinesError
from clhines.simulator.cells.cable import Cable
from clhines.solver.device import devices, program

APART = {"float64": 1e-6, "float32": 0.5}  # mV, from the reference
SHIFT = {"float64": 0.0, "float32": neurons.DT, "Arbor": 0.2, "Jaxley": 0.2}  # ms, for a spike
OWN = "clhines"


def truth(name: str, cable: Cable, check_ms: float) -> np.ndarray:
    """Return (steps,) mV: one neuron's voltage at the soma, by the engine ``reference``."""
    network = neurons.neurons(name, cable, 1)
    simulation = clhines.Simulation(network, neurons.DT, engine="reference", v_init=neurons.V_INIT)
    recorded = simulation.record("v", network.soma)
    values: np.ndarray = simulation.run(check_ms)[recorded][:, 0]
    return values


def row(
    queue: cl.CommandQueue, args: argparse.Namespace, case: dict[str, Any], expected: np.ndarray
) -> dict[str, Any]:
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
    if case["engine"] == "auto" and simulation.engine == "steps" and "steps" in args.engines:
        raise MissingError("auto takes steps, which have a row of their own")
    recorded = simulation.record("v", network.soma[[0, -1]])
    planned = time.perf_counter()
    compiled = sum(program.build_seconds[early:])
    simulation.run(neurons.DT)
    first = time.perf_counter()
    voltages = simulation.run(args.check - neurons.DT)[recorded]
    due = expected[-len(voltages) :]
    seconds: list[float] = []
    used = time.process_time()
    while not peers.enough(seconds, args.steps, args.seconds):
        start = time.perf_counter()
        simulation.run(args.steps * neurons.DT)
        seconds.append((time.perf_counter() - start) / args.steps)
    used = (time.process_time() - used) / (args.steps * len(seconds))
    family = simulation.engine.partition("-")[0]  # one name on all devices
    return timed(case, cable, seconds, used) | {
        "name": f"{OWN} ({family}), {case['dtype']}",
        "where": devices.label(queue.device),
        "engine": family,
        "describe_s": described - begin,
        "plan_s": planned - described - compiled,
        "compile_s": compiled,
        "to_first_step_s": first - begin,
        **agreement(voltages.T, due, case["dtype"]),
    }


def agreement(v: np.ndarray, due: np.ndarray, which: str) -> dict[str, Any]:
    """Return how far voltages and spikes are from the expected ones, and whether they agree.

    If the cell spikes, only the spike times must agree: voltages on the flanks say little.
    """
    apart, shift = float(np.nanmax(np.abs(v - due))), spikes_apart(v, due)
    near = len(crossings(due)) > 0 and shift <= SHIFT[which]
    return {
        "apart_mv": apart,
        "apart_ms": shift,
        "good": near or apart <= APART.get(which, 0.0),
    }


def timed(case: dict[str, Any], cable: Cable, taken: list[float], used: float) -> dict[str, Any]:
    """Return a case with its size and its times; `used` is the processor time per step, s."""
    compartments = int((cable.area > 0).sum()) * case["copies"]
    seconds = float(np.median(taken))
    return {
        **case,
        "nodes": cable.num_nodes * case["copies"],
        "compartments": compartments,
        "seconds": seconds,
        "taken": taken,
        "processor_seconds": used,
        "ns_per_compartment": seconds / compartments * 1e9,
    }


def choice(queue: cl.CommandQueue, case: dict[str, Any], cable: Cable) -> str:
    network = neurons.neurons(case["cell"], cable, case["copies"])
    options = {"queue": queue, "v_init": neurons.V_INIT}
    return str(clhines.Simulation(network, neurons.DT, case["dtype"], **options).engine)


def other(
    args: argparse.Namespace, case: dict[str, Any], cable: Cable, expected: np.ndarray, folder: Path
) -> dict[str, Any]:
    name, cell = case["name"], case["cell"]
    library = None
    if name in ("NEURON", "CoreNEURON"):
        library = str(library_of(folder, neurons.NEURONS[cell].tables))
    peer_case = peers.Case(
        cell,
        case["copies"],
        args.steps,
        args.check,
        args.threads,
        swc_of(args, cell),
        library,
        args.seconds,
    )
    result = child.run("peers.cells", [name, peers.arguments_of(peer_case)], args.most)
    if "reason" in result:
        return {**case, "reason": result["reason"]}
    v, built = np.array(result["voltages"]), result["built"]
    due = expected[-v.shape[1] :]
    which = name.split()[0] if name.startswith(("Arbor", "Jaxley")) else "float64"
    return timed({**case, "dtype": "float64"}, cable, result["taken"], result["used"]) | {
        "name": result["name"],
        "where": result["where"],
        "engine": "",
        "notes": result["notes"],
        "describe_s": built.get("build", 0.0),
        "plan_s": built.get("plan", 0.0),
        "compile_s": 0.0,
        "to_first_step_s": sum(built.values()),
        **agreement(v, due, which),
    }


_libraries: dict[tuple[Path, bool], Path | str] = {}


def library_of(folder: Path, tables: bool) -> Path:
    if (folder, tables) not in _libraries:
        where = folder / ("tables" if tables else "exact")
        kept = [path.parent for path in where.glob("*/libnrnmech.*")]
        try:
            compiled: Path | str = kept[0] if kept else peers.compiled(where, tables, core=True)
        except MissingError as error:
            compiled = str(error)
        _libraries[folder, tables] = compiled
    library = _libraries[folder, tables]
    if isinstance(library, str):
        raise MissingError(library)
    return library


def spikes_apart(v: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest distance between spikes and expected ones, ms; infinite if one lacks."""
    wanted = crossings(expected)
    spike_times = [crossings(values) for values in v]
    if any(len(times) != len(wanted) for times in spike_times):
        return float("inf")
    return float(
        max((np.abs(times - wanted).max() for times in spike_times if len(times)), default=0.0)
    )


def crossings(v: np.ndarray) -> np.ndarray:
    """Return when a voltage comes to the threshold, ms, between steps."""
    above = v - neurons.THRESHOLD
    at = np.flatnonzero((above[:-1] < 0) & (above[1:] >= 0))
    return neurons.DT * (at + above[at] / (above[at] - above[at + 1]))


def swc_of(args: argparse.Namespace, cell: str) -> str | None:
    return args.swc if cell.startswith("l5pc") else None


def cases(args: argparse.Namespace, gpu: bool) -> list[dict[str, Any]]:
    all_cases = []
    for cell in args.cells:
        for copies in args.copies:
            if copies * (cell == "purkinje") > args.largest:
                continue
            here = {"cell": cell, "copies": copies}
            files = neurons.NEURONS[cell].from_files
            of_blocks = files and not gpu  # here `auto` uses other epochs
            engines = ["auto" if of_blocks and e == "epochs" else e for e in args.engines]
            variants = [(t, e) for t in args.dtype for e in engines]
            all_cases += [{**here, "dtype": t, "engine": e, "name": OWN} for t, e in variants]
            few = [p for p in args.peers if copies <= args.host_most or p.endswith("GPU")]
            all_cases += [{**here, "dtype": "float64", "engine": "", "name": p} for p in few]
    return all_cases


def measured(queue: cl.CommandQueue, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    expected: dict[str, np.ndarray] = {}
    gone: dict[tuple[str, str], str] = {}  # a simulator and a cell -> why it is not tried any more
    with tempfile.TemporaryDirectory(prefix="clhines-mod-") as made:
        folder = Path(args.keep or made).resolve()
        for case in tqdm(cases(args, not devices.is_cpu(queue.device)), disable=None):
            cell, key = case["cell"], (case["name"], case["cell"])
            swc = swc_of(args, cell)
            cable = neurons.cable_of(cell, clhines.read_swc(swc)[0] if swc else None)
            if cell not in expected:
                expected[cell] = truth(cell, cable, args.check)
            try:
                if key in gone:
                    yield {**case, "reason": gone[key]}
                elif case["name"] == OWN:
                    yield row(queue, args, {**case, "cable": cable}, expected[cell])
                else:
                    result = other(args, case, cable, expected[cell], folder)
                    if "reason" in result:
                        gone[key] = result["reason"]
                    yield result
            except (ClhinesError, MissingError) as error:
                yield {**case, "reason": str(error).splitlines()[0]}


def choices(queue: cl.CommandQueue, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    chosen_rows = []
    own_rows = [r for r in rows if r["name"].startswith(OWN)]
    for key in dict.fromkeys((r["cell"], r["copies"], r["dtype"]) for r in own_rows):
        some = {r["engine"]: r for r in own_rows if (r["cell"], r["copies"], r["dtype"]) == key}
        if len(some) < 2:
            continue
        case = dict(zip(("cell", "copies", "dtype"), key))
        chosen = choice(queue, case, neurons.cable_of(case["cell"]))
        fastest = min(r["seconds"] for r in some.values())
        over = some[chosen]["seconds"] / fastest if chosen in some else float("inf")
        chosen_rows.append({**case, "chosen": chosen, "over_fastest": over})
    return chosen_rows


# -- the table and the picture -----------------------------------------------------------------


def text(result: dict[str, Any]) -> str:
    head = (
        f"{'cell':<10} {'copies':>6} {'simulator':<25} {'step us':>8} {'proc. us':>8} "
        f"{'ns/comp.':>8} {'build':>6} {'first s':>7} {'apart mV':>8} {'ms':>5}"
    )
    rows = result["cells"]
    lines = [line(r) for r in rows]
    shown = table.ruled(head, lines, [(r["cell"], r["copies"]) for r in rows])
    explained = [
        "step us: median of the pieces, by the wall clock; proc. us: processor time of the "
        "host in all threads, mean of the pieces; ns/comp.: the first over the compartments; "
        "build: description and plan, s, without compilation; first s: from the first line to the "
        "end of the first step; apart: largest difference from the reference's voltage at a soma, "
        "and of a spike's time.",
        *about_choices(result.get("choices", [])),
        *table.about([r for r in rows if not name_of(r).startswith(OWN)]),
        *about_load(result["record"]),
    ]
    missing = [
        (f"{m['cell']}, {name_of(m)}", m["reason"], str(m["copies"])) for m in result["missing"]
    ]
    parts = [shown, "", *table.wrapped(explained), *[""][: len(missing)], *table.missing(missing)]
    return "\n".join(parts)


def line(r: dict[str, Any]) -> str:
    used, shift = r.get("processor_seconds"), r.get("apart_ms")
    return (
        f"{r['cell']:<10} {r['copies']:>6} {name_of(r):<25} {r['seconds'] * 1e6:>8.1f} "
        f"{'-' if used is None else format(used * 1e6, '.1f'):>8} "
        f"{r['ns_per_compartment']:>8.3g} {r['describe_s'] + r['plan_s']:>6.2f} "
        f"{r['to_first_step_s']:>7.2f} {r['apart_mv']:>8.1e} "
        f"{'-' if shift is None else format(shift, '.3f'):>5}"
    )


def name_of(r: dict[str, Any]) -> str:
    return str(r.get("name") or f"{OWN} ({r['engine']}), {r['dtype']}")


def about_choices(found: list[dict[str, Any]]) -> list[str]:
    if not found:
        return []
    worst = max(c["over_fastest"] for c in found)
    chosen = sorted({c["chosen"] for c in found})
    good = sum(c["over_fastest"] <= GOOD_CHOICE for c in found)
    return [
        f"auto chooses {' and '.join(chosen)}; within {GOOD_CHOICE - 1:.0%} of the fastest engine "
        f"in {good} of {len(found)} cases, at worst {worst:.2f} times it."
    ]


def about_load(known: dict[str, Any]) -> list[str]:
    if "load" not in known:
        return []
    return [f"Load average before the run: {known['load']:.1f}, on {known['host_cores']} cores."]


def draw(result: dict[str, Any], path: Path) -> None:
    rows = result["cells"]
    kinds = list(dict.fromkeys(r["cell"] for r in rows))
    with plot.picture(path) as figure:
        axes_of = plot.grid(figure, len(kinds), (4.6, 4.0), (3.9, 0.9), sharex=True, sharey=True)
        drawn: dict[str, Any] = {}
        for axes, cell in zip(axes_of, kinds):
            some = [r for r in rows if r["cell"] == cell]
            points: dict[str, list[tuple[int, float]]] = {}
            for r in some:
                points.setdefault(name_of(r), []).append((r["copies"], r["seconds"]))
            drawn |= plot.lines(axes, points, style)
            each = some[0]["compartments"] // some[0]["copies"]
            copies = sorted({r["copies"] for r in rows})
            axes.set_xticks(copies, [f"{n:,}" for n in copies])
            axes.minorticks_off()
            axes.set_title(f"{cell}, {each:,} compartments", fontsize=10)
        plot.legend(figure, drawn)
        figure.supxlabel("number of copies")
        figure.supylabel(f"time of a step of {neurons.DT} ms")
        device = f"{result['record']['device']} ({result['record']['platform']})"
        others = sorted({r["where"] for r in rows if not name_of(r).startswith(OWN)})
        figure.suptitle(f"clhines: {device}" + (f"; others: {'; '.join(others)}" if others else ""))


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = record.parser("cells", __doc__)
    add = parser.add_argument
    driven = [name for name, neuron in neurons.NEURONS.items() if neuron.amp]
    add("--cells", nargs="+", choices=driven, default=driven)
    add("--copies", type=int, nargs="+", default=[1, 100, 1000, 10000])
    add("--largest", type=int, default=1000, help="most copies of purkinje")
    add("--dtype", nargs="+", choices=list(APART), default=list(APART))
    add("--engines", nargs="*", default=["epochs", "steps"], help="of clhines")
    add("--peers", nargs="*", choices=list(peers.PEERS), default=list(peers.PEERS))
    add("--host-most", type=int, default=100, help="most copies for simulators on the host")
    add("--threads", type=int, default=record.cores(), help="of simulators on the host")
    add("--most", type=float, default=180.0, help="seconds of another simulator and case")
    add("--steps", type=int, default=800, help="of each of the pieces that are timed")
    add("--seconds", type=float, default=10.0, help="after which no more pieces are timed")
    add("--check", type=float, default=12.0, help="ms compared with the reference")
    add("--keep", metavar="FOLDER", help="where compiled .mod files are kept, and found")
    add("--swc", help="morphology of l5pc; default: one made up here")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    args = parsed(arguments)
    queue = record.queue(args.device, args.dtype)
    load = os.getloadavg()[0]
    all_rows: list[dict[str, Any]] = []
    try:
        all_rows += measured(queue, args)
    except KeyboardInterrupt:
        print("stopped: the table has what was done before")
    rows = [r for r in all_rows if "reason" not in r]
    wrong = [r for r in rows if not r["good"]]
    rows = [r for r in rows if r["good"]]
    missing = [r for r in all_rows if "reason" in r] + [
        {**r, "reason": f"{r['apart_mv']:g} mV from the reference"} for r in wrong
    ]
    result = {"record": {"load": load}, "cells": rows, "choices": [], "missing": missing}
    try:
        result["choices"] = choices(queue, rows)
    except KeyboardInterrupt:
        print("stopped: the table does not say how good the choices of auto are")
    record.write("cells", queue, arguments, result, text, args.out, draw if rows else None)
    if wrong:
        sys.exit(f"{wrong[0]['name']}: {wrong[0]['apart_mv']:g} mV from the reference")
