"""`clhines simulate ring`: simulate a ring of cells, without NEURON."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import clhines
from clhines.cli.arguments import (
    Commands,
    add_command,
    add_engine,
    add_reading,
    finite,
    positive_number,
    read_cells,
    seed,
)
from clhines.cli.arguments import count as whole_number
from clhines.cli.report import (
    SPIKES,
    BuildTimer,
    as_json,
    check_picture,
    check_writable,
    doing,
    named_option,
    repairs,
    table,
    when_of,
)
from clhines.core import files
from clhines.core.errors import InputError, launched
from clhines.simulator.analysis import draw
from clhines.simulator.cells import cable
from clhines.simulator.network import ring
from clhines.simulator.network.times import whole_steps

if TYPE_CHECKING:
    from clhines.simulator.network.network import Network
    from clhines.simulator.result import Result
    from clhines.simulator.simulation import Simulation


SWC_WEIGHT = 0.2  # µS; more than for random cells: large dendrites draw current from a soma
RECORDED = 6  # cells whose somas are recorded for a file or a picture of a simulation

RING = """\
Simulate a ring of cells: the spike of each excites the next one.
Without --swc the cells are random trees."""
RINGS = """\
  clhines simulate ring --plot ring.png
  clhines simulate ring --swc *.swc --cells 1000 --duration 50"""


def add_ring(networks: Commands) -> None:
    ring = add_command(networks, "ring", "a ring of cells, no NEURON needed", RING, RINGS)
    add, positive = ring.add_argument, positive_number
    methods = [name for name, row in clhines.METHODS.items() if not row.chains_only]
    # fmt: off
    add("--cells", type=whole_number, metavar="N",
        help="default: 64, or as many as there are files")
    add("--depth", type=whole_number, metavar="D",
        help="levels of branches of the random cells (default: 5)")
    add("--branching", type=finite, metavar="P",
        help="probability that a branch splits, 0 to 1 (default: 0.5)")
    add("--compartments", type=whole_number, metavar="C",
        help="compartments of a branch (default: 11)")
    add("--shapes", type=whole_number, metavar="S", help="different random cells (default: 64)")
    add("--swc", nargs="+", metavar="FILE",
        help="these cells in place of random ones")
    add_reading(ring, " of --swc")
    add("--hh", choices=("soma", "all"), default="soma",
        help="HH in all of the soma and passive dendrites (default), or HH everywhere")
    add("--weight", type=finite, metavar="US",
        help="weight of the connections [uS] (default: 0.01; 0.2 with --swc, whose cells are "
        "larger)")
    add("--delay", type=positive, default=5.0, metavar="MS",
        help="delay of the connections [ms] (default: 5)")
    add("--duration", type=positive, default=100.0, metavar="MS",
        help="simulated time (default: 100)")
    add("--dt", type=positive, default=0.025, metavar="MS", help="time step (default: 0.025)")
    add("--out", metavar="FILE",
        help=".npz: spikes, and voltages in the middle of six somas; .csv: spikes")
    add("--plot", metavar="FILE", help="draw spikes and voltages: .png, .svg or .pdf")
    add("--method", choices=["auto", *methods], default="auto", metavar="M",
        help="of the solver, if the engine uses one: auto, " + ", ".join(methods))
    add_engine(ring)
    add("--seed", type=seed, default=0, metavar="K", help="seed of the random cells (default: 0)")
    add("--mpi", action="store_true",
        help="share the cells among MPI ranks, under mpiexec; needs mpi4py")
    # fmt: on
    add("--json", action="store_true", help="print JSON instead of a table")
    ring.set_defaults(run=run_ring)


def run_ring(arguments: argparse.Namespace) -> int:
    comm, first = _ranks_of(arguments)
    steps = _whole_steps(arguments.duration, arguments.dt)
    _check_files(arguments, comm, first)
    begin, timer = time.perf_counter(), BuildTimer()
    cables, count = _ring_cells(arguments)
    if arguments.weight is None:
        arguments.weight = ring.WEIGHT if arguments.swc is None else SWC_WEIGHT
    with doing("connecting the cells"):
        network = ring.ring_network(cables, count, arguments.hh, arguments.weight, arguments.delay)
    simulation = _simulation(arguments, network, comm)
    recorded = arguments.out is not None or arguments.plot is not None
    if recorded:
        simulation.record("v", network.soma[:RECORDED])
    plan_s = time.perf_counter() - begin - timer.seconds
    with doing("first step"):
        runs = [simulation.run(arguments.dt)]  # some drivers compile for the device only now
    if steps > 1:
        runs.append(simulation.run((steps - 1) * arguments.dt, progress=sys.stderr.isatty()))
    if not first:
        return 0
    report = _ring_report(network, runs, steps, arguments)
    report |= {"device": simulation.device_label, "engine": simulation.engine}
    report |= {"plan_s": plan_s, "build_s": timer.seconds}
    if simulation.ranks.size > 1:
        report["ranks"] = simulation.ranks.size
        exchange, whole = (sum(r.cost[k] for r in runs) for k in ("exchange", "all"))
        report["exchange"] = exchange / whole
    if recorded:
        with doing("writing and drawing"):
            _write_activity(arguments, network, runs)
    print(as_json(report) if arguments.json else _ring_table(report))
    return 0


def _check_files(arguments: argparse.Namespace, comm: Any, first: bool) -> None:
    """Refuse files that the first rank cannot write, on all ranks together."""
    from clhines.simulator.ranks.mpi import Ranks

    with nullcontext() if comm is None else Ranks(comm, "clhines simulate").agreed():
        if arguments.out is not None and first:
            check_writable(arguments.out, "--out", (".npz", ".csv"))
        check_picture(arguments.plot if first else None)


def _simulation(arguments: argparse.Namespace, network: Network, comm: Any) -> Simulation:
    from clhines.simulator.simulation import Simulation

    names = "dt", "dtype", "method", "engine", "seed", "device"
    with doing("planning and building kernels"):
        return Simulation(network, comm=comm, **{name: getattr(arguments, name) for name in names})


def _ranks_of(arguments: argparse.Namespace) -> tuple[Any, bool]:
    """Return the MPI communicator, or None for one process, and whether this is the first rank."""
    from clhines.simulator.ranks import mpi

    if not arguments.mpi and not launched():
        return None, True
    comm = mpi.world()
    if comm.size == 1 and launched():
        raise InputError(
            "started as one of several processes, but MPI knows of this one alone; expected the "
            "mpiexec of the MPI library that mpi4py has"
        )
    if comm.size == 1:
        return None, True
    arguments.communicator = comm.Dup()
    return comm, comm.rank == 0


def _ring_report(
    network: Network, runs: list[Result], steps: int, arguments: argparse.Namespace
) -> dict[str, object]:
    compartments = int(np.count_nonzero(network.area))
    step_s = runs[-1].cost["all"] / max(steps - 1, 1)
    return {
        "cells": network.num_cells,
        "shapes": network.forest.trees.num_trees,
        **repairs(arguments),
        "compartments": compartments,
        "nodes": network.forest.num_nodes,
        "mechanisms": ", ".join(f"{g.mechanism.name} x {len(g)}" for g in network.groups),
        "dtype": "float64" if arguments.engine == "reference" else arguments.dtype,
        "steps": steps,
        "dt_ms": arguments.dt,
        "simulated_ms": steps * arguments.dt,
        "first_step_ms": runs[0].cost["all"] * 1e3,
        "step_ms": step_s * 1e3,
        "ns_per_compartment": step_s / compartments * 1e9,
        "real_time": arguments.dt * 1e-3 / step_s,
        **when_of(np.concatenate([r.spike_time for r in runs])),
    }


def _whole_steps(duration: float, dt: float) -> int:
    steps = whole_steps(duration, dt)
    if not steps:
        raise InputError(
            f"--duration {duration:.12g} ms is {duration / dt:.12g} steps of --dt {dt:g} ms; "
            "expected a whole number from 1 to 2**30"
        )
    return steps


def _ring_cells(arguments: argparse.Namespace) -> tuple[list[cable.Cable], int]:
    if arguments.swc is None:
        for name, of in (("max-length", "cells"), ("repair", "files")):
            if getattr(arguments, name.replace("-", "_")) is not None:
                raise InputError(f"--{name} is for the {of} of --swc; got no --swc")
        count = arguments.cells or 64
        random = {
            "levels": arguments.depth,
            "branching_probability": arguments.branching,
            "compartments": arguments.compartments,
        }
        options = {name: value for name, value in random.items() if value is not None}
        shapes = min(arguments.shapes or ring.SHAPES, count)
        return ring.ring_cables(shapes, seed=arguments.seed, **options), count
    for name in ("depth", "branching", "compartments", "shapes"):
        if getattr(arguments, name) is not None:
            raise InputError(f"--{name} is for random cells; got it together with --swc")
    cables = read_cells(arguments, arguments.swc, "of --swc")
    return cables, arguments.cells or len(cables)


def _write_activity(arguments: argparse.Namespace, network: Network, runs: list[Result]) -> None:
    names = ("spike_time", "spike_cell", "t")
    arrays = {name: np.concatenate([getattr(r, name) for r in runs]) for name in names}
    arrays["v"] = np.concatenate([r[0] for r in runs])
    arrays["v_cell"] = np.arange(arrays["v"].shape[1])
    spikes = arrays["spike_time"], arrays["spike_cell"]
    if arguments.out is not None:
        with named_option("--out"):
            if Path(arguments.out).suffix.lower() == ".csv":
                pairs = zip(*(a.tolist() for a in spikes), strict=True)
                lines = ["time_ms,cell", *(f"{time:.9g},{cell}" for time, cell in pairs), ""]
                files.write_text(arguments.out, "\n".join(lines))
            else:
                files.write_npz(arguments.out, arrays)
    if arguments.plot is not None:
        compartments = np.count_nonzero(network.area)
        title = f"{network.num_cells} cells in a ring, {compartments} compartments"
        t, v, (time_of, cell) = arrays["t"], arrays["v"], spikes
        joined = replace(runs[0], t=t, values=[v], times=[t], spike_time=time_of, spike_cell=cell)
        with named_option("--plot"):
            draw.plot_result(joined, title=title, path=arguments.plot)


def _ring_table(report: Mapping[str, object]) -> str:
    rows = {
        "cells": "{cells} in a ring ({shapes} distinct shapes)",
        "repaired": "{repaired} radii of 0, interpolated" if "repaired" in report else "",
        "nodes": "{nodes}, {compartments} of them with membrane",
        "mechanisms": "{mechanisms}",
        "device": "{device}",
        "engine": "{engine}, {dtype}",
        "ranks": "{ranks}, {exchange:.1%} of the time in exchanges" if "ranks" in report else "",
        "plan": "{plan_s:.3f} s",
        "build": "{build_s:.3f} s",
        "simulated": "{simulated_ms:g} ms in {steps} steps of {dt_ms:g} ms",
        "step": "{step_ms:.4f} ms on average; the first took {first_step_ms:.3f} ms",
        "speed": "{ns_per_compartment:.4g} ns per compartment and step, "
        "{real_time:.3g} x real time",
        "spikes": SPIKES if report["spikes"] else "none",
    }
    return table(rows, report)
