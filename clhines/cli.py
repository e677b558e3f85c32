"""The command line: arguments in, tables out; everything else is done by the other modules."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from tqdm import tqdm

import clhines
from clhines import cable, files, morphology
from clhines.checks import shown
from clhines.choice import MODES, Candidate
from clhines.errors import (
    BuildError,
    ClhinesError,
    DeviceMemoryError,
    InputError,
    PivotError,
    RankError,
)
from clhines.forest import repeat
from clhines.repair import REPAIRS

MAX_COUNT = 10**15  # cells or steps: more cannot even be counted in memory
RECORDED = 6  # cells whose somas are recorded for a file or a picture of a simulation

if TYPE_CHECKING:
    from clhines.network import Network
    from clhines.simulation import PassiveCells, Result
    from clhines.solver import Solver

# Elimination without pivoting is backward stable on diagonally dominant matrices: a few epsilon a
# row. How far the solution may then be from the true one is a matter of the condition.
RESIDUAL_EPS = 64.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns 0 for good, 1 for a failed check, 2 for bad input."""
    if not _streams_open():
        return 2
    arguments = _parser().parse_args(argv)
    arguments.told = None  # how the ranks of several processes end together
    code, message = _run(arguments)
    if arguments.told is not None:
        from clhines import ranks

        return ranks.finish(arguments.told, message, code)
    if message:
        _tell(f"clhines: {message}")
    return code


def _tell(text: str) -> None:
    """Print to the standard error, whose reader may have gone."""
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def _streams_open() -> bool:
    """Give closed streams, which Python has no object for, a place; no output is an error."""
    closed = sys.stdout is None
    for number, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is not None:
            continue
        mode = "r" if number == 0 else "w"
        file = open(os.devnull, mode, encoding="utf-8")
        if file.fileno() != number:  # else a file opened later would get that number
            with suppress(OSError):
                os.dup2(file.fileno(), number)
        setattr(sys, name, file)
    if closed:
        _tell("clhines: the standard output is closed; expected a file, /dev/null at least")
    return not closed


def _run(arguments: argparse.Namespace) -> tuple[int, str]:
    """Do what was asked for; the code to end with, and what went wrong."""
    try:
        # What is not finite is found by the checks.
        with np.errstate(all="ignore"), _warnings_in_one_line():
            code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code, ""
    except RankError:  # that rank says what it is
        return 2, ""
    except BuildError as error:  # the one message with lines: the numbered source
        return 2, str(error)
    except ClhinesError as error:
        return 2, " ".join(str(error).splitlines())
    except KeyboardInterrupt:
        return 130, "interrupted"
    except BrokenPipeError:  # the reader of our output has gone
        _drop_output()
        return 2, ""
    except OSError as error:
        with suppress(OSError):
            sys.stdout.flush()
        if error.filename is None:  # of the standard output, which is full
            _drop_output()
        where = f"{error.filename}: " if error.filename else ""
        return 2, f"{where}{error.strerror or error}"
    except MemoryError as error:
        return 2, f"out of memory: {error}"


def _drop_output() -> None:
    """Let what was printed and cannot be written go, so that nothing tries again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Show warnings as the errors are shown, without a place in the source."""
    with warnings.catch_warnings():

        def show(message: Any, category: Any, *_: Any, **__: Any) -> None:
            ours = category.__module__.startswith("clhines")
            what = "" if ours else f"{category.__name__}: "
            _tell(f"clhines: {what}{' '.join(str(message).split())}")

        warnings.showwarning = show
        yield


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments in one line; takes -1e-1 for a number."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._negative_number_matcher = re.compile(r"^-\.?\d")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse ``--`` as a value, which argparse takes away from its option."""
        for text in sys.argv[1:] if args is None else args:
            if text == "--":
                break
            if re.fullmatch(r"--[a-z][a-z-]*=--", str(text)):
                self.error(f"argument {text[:-3]}: got '--', expected a value")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        numbers = "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"
        if any(os.environ.get(name, "0") != "0" for name in numbers):
            self.exit(2)  # all ranks have the same arguments; the first one says it
        message = " ".join(message.split())
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="clhines",
        description="Batches of Hines matrices of neurons, and networks of spiking cells, on any "
        "OpenCL device.",
        epilog="See also: clhines COMMAND --help",
    )
    parser.add_argument("--version", action="version", version=f"clhines {clhines.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)

    devices = commands.add_parser("devices", help="list the OpenCL devices")
    devices.set_defaults(run=_devices)

    plan = commands.add_parser("plan", help="show how a batch would be solved, without a device")
    _add_cells(plan)
    plan.add_argument("--plot", metavar="FILE",
                      help="draw the first block, of methods with one work-item a cell or a "
                      "branch (fine and others): .png, .svg or .pdf")  # fmt: skip
    plan.set_defaults(run=_plan)

    solve = commands.add_parser("solve", help="advance passive cells and check the last step")
    _add_cells(solve, several=True)
    solve.add_argument("--max-memory", type=_positive, metavar="MIB",
                       help="of a device to use at most [MiB]; more is solved in slices "
                       "(default: nine tenths of what it has)")  # fmt: skip
    solve.add_argument(
        "--dt", type=_positive, default=0.025, metavar="MS", help="time step [ms] (default: 0.025)"
    )
    solve.add_argument("--steps", type=_count, default=40, metavar="K",
                       help="steps to advance (default: 40)")  # fmt: skip
    solve.add_argument("--current", type=_finite, default=0.1, metavar="NA",
                       help="current into the middle of each soma from t = 0 on [nA] "
                       "(default: 0.1)")  # fmt: skip
    solve.add_argument(
        "--out", metavar="FILE.npz", help="write the last voltages, trees, coordinates"
    )
    solve.add_argument("--tune", choices=MODES, default="heuristic", metavar="T",
                       help=f"of auto: {', '.join(MODES)} (default: {MODES[0]})")  # fmt: skip
    solve.add_argument("--json", action="store_true", help="print JSON instead of a table")
    solve.add_argument("--no-check", action="store_true", help="skip the check of the last step")
    solve.set_defaults(run=_solve)

    simulate = commands.add_parser("simulate", help="simulate a network of spiking cells")
    _add_ring(simulate.add_subparsers(dest="network", required=True))

    tune = commands.add_parser(
        "tune", help="time what auto may choose on these cells, and store the fastest"
    )
    _add_cells(tune, method=False)
    tune.add_argument("--json", action="store_true", help="print JSON instead of a table")
    instead = tune.add_mutually_exclusive_group()
    instead.add_argument("--list", action="store_true", help="only list what is stored")
    instead.add_argument("--clear", action="store_true", help="only remove all that is stored")
    tune.set_defaults(run=_tune)
    return parser


def _add_cells(parser: argparse.ArgumentParser, method: bool = True, several: bool = False) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE.swc", help="default: built-in sample")
    parser.add_argument("--cells", type=_count, metavar="N", help="repeat the cells to N cells")
    parser.add_argument("--max-length", type=_positive, metavar="UM",
                        help="longest compartment [um]; default: the d_lambda rule")  # fmt: skip
    parser.add_argument("--roots", choices=("refuse", "split"), default="refuse",
                        help="files with several roots: refuse, or one cell a root")  # fmt: skip
    parser.add_argument("--repair", choices=REPAIRS,
                        help="interpolate radii of 0 inside neurites, and tell each")  # fmt: skip
    if method:
        methods = ["auto", *clhines.METHODS]
        parser.add_argument("--method", choices=methods, default="auto", metavar="M",
                            help=", ".join(methods) + " (default: auto)")  # fmt: skip
    dtypes = ("float64", "float32", *(["mixed"] if method else []))
    parser.add_argument("--dtype", choices=dtypes, default="float64",
                        help="precision on the device, one of " + ", ".join(dtypes)
                        + " (default: float64)")  # fmt: skip
    parser.add_argument("--device", metavar="SPEC", action="append" if several else _Once,
                        help="index pair like 0:1, or part of a name"
                        + ("; again for each of several" if several else ""))  # fmt: skip


def _add_ring(networks: Any) -> None:
    ring = networks.add_parser("ring", help="cells in a ring, round which one event goes")
    add, positive, paths = ring.add_argument, _positive, ("auto", "epochs", "steps", "reference")
    methods = [name for name, row in clhines.METHODS.items() if not row.chains_only]
    add("--cells", type=_count, metavar="N", help="default: 64, or as many as there are files")
    add("--depth", type=_count, metavar="D",
        help="levels of branches of the random cells (default: 5)")  # fmt: skip
    add("--branching", type=_finite, metavar="P",
        help="probability that a branch splits, 0 to 1 (default: 0.5)")  # fmt: skip
    add("--compartments", type=_count, metavar="C",
        help="compartments of a branch (default: 11)")  # fmt: skip
    add("--shapes", type=_count, metavar="S", help="different random cells (default: 64)")
    add("--swc", nargs="+", metavar="FILE",
        help="these cells in place of random ones")  # fmt: skip
    add("--roots", choices=("refuse", "split"), default="refuse",
        help="of --swc, files with several roots: refuse, or one cell a root")  # fmt: skip
    add("--repair", choices=REPAIRS,
        help="of --swc: interpolate radii of 0 inside neurites, and tell each")  # fmt: skip
    add("--max-length", type=positive, metavar="UM",
        help="of --swc: longest compartment [um]; default: the d_lambda rule")  # fmt: skip
    add("--hh", choices=("soma", "all"), default="soma",
        help="HH in all of the soma and passive dendrites (default), or HH everywhere")  # fmt: skip
    add("--weight", type=_finite, default=0.01, metavar="US",
        help="of the connections [uS] (default: 0.01)")  # fmt: skip
    add("--delay", type=positive, default=5.0, metavar="MS",
        help="of the connections [ms] (default: 5)")  # fmt: skip
    add("--duration", type=positive, default=100.0, metavar="MS",
        help="simulated time (default: 100)")  # fmt: skip
    add("--dt", type=positive, default=0.025, metavar="MS", help="time step (default: 0.025)")
    add("--out", metavar="FILE",
        help=".npz: spikes, and voltages in the middle of six somas; .csv: spikes")  # fmt: skip
    add("--plot", metavar="FILE", help="draw spikes and voltages: .png, .svg or .pdf")
    add("--device", metavar="SPEC", action=_Once, help="index pair like 0:1, or part of a name")
    add("--method", choices=["auto", *methods], default="auto", metavar="M",
        help="of the solver, where the path uses one: auto, " + ", ".join(methods))  # fmt: skip
    add("--dtype", choices=("float64", "float32"), default="float64",
        help="precision on the device (default: float64)")  # fmt: skip
    add("--path", choices=paths, default="auto",
        help="epochs (whole cells, many steps a kernel), steps (cells of any size), reference "
        "(NumPy on the host) or auto, which takes epochs where it can (default)")  # fmt: skip
    add("--seed", type=_seed, default=0, metavar="K", help="of the random cells (default: 0)")
    add("--mpi", action="store_true",
        help="share the cells among the ranks of MPI, as under mpiexec; needs mpi4py")  # fmt: skip
    add("--json", action="store_true", help="print JSON instead of a table")
    ring.set_defaults(run=_ring)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"got {shown(text)}, expected a number") from None


def _finite(text: str) -> float:
    value = _number(text)
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"got {shown(text)}, expected a finite number")
    return value


class _Once(argparse.Action):
    """An option that would else quietly take the last of several values."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        before = getattr(namespace, self.dest)
        if before is not None:
            parser.error(f"got {option} {before} and {option} {values}; expected one device")
        setattr(namespace, self.dest, values)


def _positive(text: str) -> float:
    value = _number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"got {shown(text)}, expected a positive number")
    return value


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_COUNT:
        raise argparse.ArgumentTypeError(
            f"got {shown(text)}, expected a whole number from 1 to 1e15"
        )
    return int(text)


def _seed(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"got {shown(text)}, expected a whole number, 0 or more")
    return int(text)


def _devices(_: argparse.Namespace) -> int:
    from clhines import device

    try:
        default, note = device.choose(), "* is what is used when --device names no other"
    except ClhinesError as error:
        default, note = None, f"no device would be used: {error}"
    rows = [("", "index", "type", "fp64", "units", "memory", "local", "name")]
    for index, found in device.all_devices():
        kind = (
            "simulator" if device.is_simulator(found) else "CPU" if device.is_cpu(found) else "GPU"
        )
        rows.append(
            (
                "*" if found == default else "",
                index,
                kind,
                "yes" if device.has_fp64(found) else "no",
                str(found.max_compute_units),
                f"{found.global_mem_size / 2**30:.1f} GiB",
                f"{found.local_mem_size // 1024} KiB",
                device.label(found),
            )
        )
    widths = [max(len(r[k]) for r in rows) for k in range(len(rows[0]))]
    for row in rows:
        line = "  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)).rstrip()
        print(line if len(line) <= 100 else line[:97] + "...")
    print(note)
    return 0


def _read_files(names: Sequence[str], arguments: argparse.Namespace) -> list[clhines.Morphology]:
    """Read the files; counts the samples that were repaired."""
    cells: list[clhines.Morphology] = []
    for name in names:
        found = morphology.read_swc(name, roots=arguments.roots, repair=arguments.repair)
        cells += found if isinstance(found, list) else [found]
    arguments.repaired = sum(len(cell.repaired) for cell in cells)
    return cells


def _repairs(arguments: argparse.Namespace) -> dict[str, int]:
    """Return what a report says of the samples that were repaired, if that was asked for."""
    return {"repaired": arguments.repaired} if arguments.repair is not None else {}


def _read_cells(arguments: argparse.Namespace) -> list[cable.Cable]:
    """Read and discretise each file; the built-in sample when none is named."""
    cells = _read_files(arguments.files, arguments) or morphology.sample_cells()
    if arguments.files and arguments.cells and arguments.cells < len(cells):
        raise InputError(
            f"--cells {arguments.cells} is less than the {len(cells)} cells in the files; expected "
            "at least as many"
        )
    return [cable.discretise(cell, max_length=arguments.max_length) for cell in cells]


def _plan(arguments: argparse.Namespace) -> int:
    from clhines import draw

    if arguments.plot is not None:
        _check_writable(arguments.plot, "--plot", draw.FORMATS)
        draw.check_matplotlib()
    cables = _read_cells(arguments)
    parents = [c.parent for c in cables]
    forest = clhines.Forest.repeated(parents, arguments.cells or len(cables))
    dtype = "float32" if arguments.dtype == "mixed" else arguments.dtype  # of the factors
    limits, name = clhines.parts.Limits(), "a GPU of middle size (--device names a real one)"
    if arguments.device is not None:
        from clhines import device

        found = device.choose(arguments.device, dtype)
        limits, name = device.limits(found), device.label(found)
    made = clhines.make_plan(forest, arguments.method, dtype, limits)
    if arguments.plot is not None:
        with _named("--plot"):
            made.plot(arguments.plot)
    text = f"device            {name}"[:100] + f"\n{made.describe()}"
    _print_report(text, arguments.plot)
    return 0


def _solve(arguments: argparse.Namespace) -> int:
    from clhines import program
    from clhines.simulation import PassiveCells

    if arguments.out is not None:
        _check_writable(arguments.out)
    cables = _read_cells(arguments)
    begin, built = time.perf_counter(), len(program.build_seconds)
    cells = PassiveCells(
        cables,
        arguments.cells,
        dt=arguments.dt,
        current=arguments.current,
        method=arguments.method,
        dtype=arguments.dtype,
        tune=arguments.tune,
        **_devices_and_memory(arguments),
    )
    _state_memory(cells.solver)
    ready, early = time.perf_counter(), sum(program.build_seconds[built:])
    first_s = cells.advance(range(1))  # some drivers compile for the device only now
    rest_s = first_s
    if arguments.steps > 1:
        bar = tqdm(range(1, arguments.steps), "steps", disable=None, leave=False)
        rest_s = cells.advance(bar) / (arguments.steps - 1)
    forest, solver = cells.forest, cells.solver
    build = sum(program.build_seconds[built:])
    report: dict[str, Any] = {
        "cells": forest.num_cells,
        "nodes": forest.num_nodes,
        "branches": forest.num_branches,
        "shapes": forest.trees.num_trees,
        **_repairs(arguments),
        "method": solver.plan.method,
        "dtype": arguments.dtype,
        **_where(solver),
        "plan_s": ready - begin - early,
        "build_s": build,
        "steps": arguments.steps,
        "first_step_ms": first_s * 1e3,
        "step_ms": rest_s * 1e3,
    }
    report |= _speed(cells, rest_s)
    failed = "" if arguments.no_check else _check(cells, report)
    if arguments.out is not None:
        _write(arguments.out, cables, cells)
    _print_report(_json(report) if arguments.json else _table(report), arguments.out)
    if failed:
        print(f"clhines: the check failed: {failed}", file=sys.stderr)
    return 1 if failed else 0


def _devices_and_memory(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return options of the solver: one device or several, and how much of them to use."""
    options: dict[str, Any] = {}
    if arguments.max_memory is not None:
        options["max_memory"] = max(1, int(arguments.max_memory * 2**20))
    names = arguments.device or [None]
    if len(names) == 1:
        return options | {"device": names[0]}
    return options | {"devices": names, "shares": "device"}


def _state_memory(solver: Solver) -> None:
    """Say what will be taken, where it is more than arrays on one device."""
    from clhines.device import label

    if len(solver.queues) == 1 and solver.num_slices == 1:
        return
    for queue, memory in zip(solver.queues, solver.memory, strict=True):
        print(f"clhines: {memory}: {label(queue.device)}", file=sys.stderr)


def _where(solver: Solver) -> dict[str, Any]:
    """Return what a report says of the devices and the memory."""
    from clhines.device import label

    return {
        "device": ", ".join(label(queue.device) for queue in solver.queues),
        "devices": len(solver.shares),
        "shares": solver.shares,
        "slices": solver.num_slices,
        "device_mib": [memory.device / 2**20 for memory in solver.memory],
        "pinned_mib": [memory.pinned / 2**20 for memory in solver.memory],
    }


def _ring(arguments: argparse.Namespace) -> int:
    """Simulate a ring network, print what was done, write and draw what was asked for."""
    from clhines import draw, program
    from clhines.ranks import Ranks
    from clhines.ring import ring_network
    from clhines.simulation import Simulation

    comm, first = _ranks_of(arguments)
    steps = _whole_steps(arguments.duration, arguments.dt)
    recorded = arguments.out is not None or arguments.plot is not None
    with nullcontext() if comm is None else Ranks(comm).agreed():
        if arguments.out is not None and first:
            _check_writable(arguments.out, "--out", (".npz", ".csv"))
        if arguments.plot is not None and first:
            _check_writable(arguments.plot, "--plot", draw.FORMATS)
            draw.check_matplotlib()
    begin, built = time.perf_counter(), len(program.build_seconds)
    cables, count = _ring_cells(arguments)
    network = ring_network(cables, count, arguments.hh, arguments.weight, arguments.delay)
    queue, where = _queue_of(arguments) if comm is None else (None, "")
    simulation = Simulation(
        network,
        arguments.dt,
        arguments.dtype,
        queue=queue,
        method=arguments.method,
        path=arguments.path,
        seed=arguments.seed,
        device=arguments.device,
        comm=comm,
    )
    if recorded:
        simulation.record("v", network.soma[:RECORDED])
    ready, early = time.perf_counter(), sum(program.build_seconds[built:])
    runs = [simulation.run(arguments.dt)]  # some drivers compile for the device only now
    if steps > 1:
        runs.append(simulation.run((steps - 1) * arguments.dt, progress=sys.stderr.isatty()))
    if not first:
        return 0
    report = _ring_report(network, runs, steps, arguments)
    report |= {"device": where, "path": simulation.path, "plan_s": ready - begin - early}
    report["build_s"] = sum(program.build_seconds[built:], 0.0)
    if simulation.ranks is not None:
        report["ranks"] = comm.size
        report["device"] = simulation.device_label
        report["exchange"] = sum(r.cost["exchange"] for r in runs) / sum(
            r.cost["all"] for r in runs
        )
    if recorded:
        _write_activity(arguments, report, runs)
    drawn = arguments.plot is not None and files.is_stdout(arguments.plot)
    text = _json(report) if arguments.json else _ring_table(report)
    _print_report(text, arguments.plot if drawn else arguments.out)
    return 0


def _ranks_of(arguments: argparse.Namespace) -> tuple[Any, bool]:
    """Return the communicator of several processes, or None; and whether this one writes."""
    from clhines import ranks

    if not arguments.mpi and not ranks.launched():
        return None, True
    comm = ranks.world()
    if comm.size == 1 and ranks.launched():
        raise InputError(
            "started as one of several processes, but MPI knows of this one alone; expected the "
            "mpiexec of the MPI library that mpi4py has"
        )
    if comm.size == 1:
        return None, True
    arguments.told = comm.Dup()
    return comm, comm.rank == 0


def _queue_of(arguments: argparse.Namespace) -> tuple[Any, str]:
    """Return a queue on the device asked for, and its name; none where all is done on the host."""
    from clhines.device import choose, label, make_queue

    if arguments.path == "reference":
        return None, "the host, NumPy"
    found = choose(arguments.device, arguments.dtype)
    return make_queue(found), label(found)


def _ring_report(
    network: Network, runs: list[Result], steps: int, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Say what was simulated and how fast; the first run has one step, the other the rest."""
    compartments = int(np.count_nonzero(network.area))
    step_s = runs[-1].cost["all"] / max(steps - 1, 1)
    when = np.concatenate([r.spike_time for r in runs])
    return {
        "cells": network.num_cells,
        "shapes": network.forest.trees.num_trees,
        **_repairs(arguments),
        "compartments": compartments,
        "nodes": network.forest.num_nodes,
        "mechanisms": ", ".join(f"{g.mechanism.name} x {len(g)}" for g in network.groups),
        "dtype": "float64" if arguments.path == "reference" else arguments.dtype,
        "steps": steps,
        "dt_ms": arguments.dt,
        "simulated_ms": steps * arguments.dt,
        "first_step_ms": runs[0].cost["all"] * 1e3,
        "step_ms": step_s * 1e3,
        "ns_per_compartment": step_s / compartments * 1e9,
        "real_time": arguments.dt * 1e-3 / step_s,
        "spikes": len(when),
        "first_spike_ms": float(when[0]) if len(when) else None,
        "last_spike_ms": float(when[-1]) if len(when) else None,
    }


def _whole_steps(duration: float, dt: float) -> int:
    from clhines.simulation import whole_steps

    steps = whole_steps(duration, dt)
    if not steps:
        raise InputError(
            f"--duration {duration:.12g} ms is {duration / dt:.12g} steps of --dt {dt:g} ms; "
            "expected a whole number from 1 to 2**30"
        )
    return steps


def _ring_cells(arguments: argparse.Namespace) -> tuple[list[cable.Cable], int]:
    """Different cells, from files or at random, and the number of cells in the ring."""
    from clhines import ring

    random = {
        "levels": arguments.depth,
        "branching_probability": arguments.branching,
        "compartments": arguments.compartments,
    }
    if arguments.swc is None:
        if arguments.max_length is not None:
            raise InputError("--max-length is for the cells of --swc; got no --swc")
        if arguments.repair is not None:
            raise InputError("--repair is for the files of --swc; got no --swc")
        count = arguments.cells or 64
        given = {name: value for name, value in random.items() if value is not None}
        shapes = min(arguments.shapes or ring.SHAPES, count)
        return ring.ring_cables(shapes, seed=arguments.seed, **given), count
    for name in ("depth", "branching", "compartments", "shapes"):
        if getattr(arguments, name) is not None:
            raise InputError(f"--{name} is for random cells; got it together with --swc")
    cells = _read_files(arguments.swc, arguments)
    if arguments.cells is not None and arguments.cells < len(cells):
        raise InputError(
            f"--cells {arguments.cells} is less than the {len(cells)} cells of --swc; expected at "
            "least as many"
        )
    cables = [cable.discretise(cell, max_length=arguments.max_length) for cell in cells]
    return cables, arguments.cells or len(cables)


def _write_activity(
    arguments: argparse.Namespace, report: dict[str, Any], runs: list[Result]
) -> None:
    """Write spikes and voltages to the file and the picture asked for."""
    from clhines import draw

    names = ("spike_time", "spike_cell", "t")
    found = {name: np.concatenate([getattr(r, name) for r in runs]) for name in names}
    found["v"] = np.concatenate([r[0] for r in runs])
    found["v_cell"] = np.arange(found["v"].shape[1])
    spikes = found["spike_time"], found["spike_cell"]
    if arguments.out is not None:
        with _named("--out"):
            if Path(arguments.out).suffix.lower() == ".csv":
                pairs = zip(*(a.tolist() for a in spikes), strict=True)
                lines = ["time_ms,cell", *(f"{time:.9g},{cell}" for time, cell in pairs), ""]
                files.write_text(arguments.out, "\n".join(lines))
            else:
                files.write_npz(arguments.out, found)
    if arguments.plot is not None:
        title = "{cells} cells in a ring, {compartments} compartments".format(**report)
        traces = found["t"], found["v"], [f"cell {k}" for k in found["v_cell"]]
        with _named("--plot"):
            draw.activity(spikes, report["cells"], traces, title, arguments.plot)


def _ring_table(report: dict[str, Any]) -> str:
    """Return the report of a simulation for reading."""
    rows = {
        "cells": "{cells} in a ring ({shapes} distinct shapes)",
        "repaired": "{repaired} radii of 0, interpolated" if "repaired" in report else "",
        "nodes": "{nodes}, {compartments} of them with membrane",
        "mechanisms": "{mechanisms}",
        "device": "{device}",
        "path": "{path}, {dtype}",
        "ranks": "{ranks}, {exchange:.1%} of the time in exchanges" if "ranks" in report else "",
        "plan": "{plan_s:.3f} s",
        "build": "{build_s:.3f} s",
        "simulated": "{simulated_ms:g} ms in {steps} steps of {dt_ms:g} ms",
        "step": "{step_ms:.4f} ms on average; the first took {first_step_ms:.3f} ms",
        "speed": "{ns_per_compartment:.4g} ns a compartment and step, {real_time:.3g} x real time",
        "spikes": "{spikes}, the first at {first_spike_ms:g} ms, the last at {last_spike_ms:g} ms"
        if report["spikes"]
        else "none",
    }
    return "\n".join(f"{k:<10} {v.format(**report)}"[:100] for k, v in rows.items() if v)


def _tune(arguments: argparse.Namespace) -> int:
    from clhines.solver import Solver

    if arguments.list or arguments.clear:
        if arguments.files:
            what = "--list" if arguments.list else "--clear"
            raise InputError(f"{what} takes no files; got {arguments.files[0]}")
        return _list_store(arguments) if arguments.list else _clear_store()
    parents = [c.parent for c in _read_cells(arguments)]
    forest = clhines.Forest.repeated(parents, arguments.cells or len(parents))
    solver = Solver(forest, dtype=arguments.dtype, device=arguments.device, tune="measure")
    report = _tuning_report(solver)
    print(_json(report) if arguments.json else _tuning_table(report))
    return 0


def _tuning_report(solver: Solver) -> dict[str, Any]:
    """Return what was measured, next to the memory floor of the same size."""
    from clhines import tune
    from clhines.device import label

    found, forest = solver.tuning, solver.forest
    assert found is not None  # the solver was told to measure
    floor_s = tune.floor_seconds(solver.queue, solver.plan.forest.num_nodes, solver.dtype)
    rows = [
        {
            "candidate": str(candidate),
            "solve_ms": seconds * 1e3,
            "x_floor": seconds / floor_s,
            "heuristic": candidate == found.heuristic,
            "chosen": candidate == found.best,
        }
        for candidate, seconds in sorted(found.rows, key=lambda row: row[1])
    ]
    return {
        "cells": forest.num_cells,
        "nodes": forest.num_nodes,
        "shapes": forest.trees.num_trees,
        "dtype": solver.dtype.name,
        "device": label(solver.device),
        "floor_ms": floor_s * 1e3,
        "candidates": rows,
    }


def _tuning_table(report: dict[str, Any]) -> str:
    lines = [
        "cells      {cells} ({shapes} distinct shapes)",
        "nodes      {nodes}",
        "dtype      {dtype}",
        "device     {device}",
        "floor      {floor_ms:.3f} ms",
    ]
    lines = [line.format(**report)[:100] for line in lines]
    width = max(len(row["candidate"]) for row in report["candidates"])
    for row in report["candidates"]:
        notes = ", ".join(what for what in ("chosen", "heuristic") if row[what])
        line = "{candidate:<{width}} {solve_ms:>10.3f} ms {x_floor:>7.2f} x floor  {notes}"
        lines.append(line.format(width=width, notes=notes, **row).rstrip())
    return "\n".join(lines)


def _list_store(arguments: argparse.Namespace) -> int:
    from clhines import tune

    entries = list(tune.stored())
    if arguments.json:
        print(json.dumps(entries, indent=1))
        return 0
    print(f"{len(entries)} stored in {tune.store_folder()}")
    for entry in entries:
        key, row = entry["key"], Candidate(entry["method"], entry["options"])
        where = " ".join(str(key.get(name)) for name in ("device", "dtype"))
        print(f"{key.get('cells')} cells, {key.get('nodes')} nodes, {where}: {row}"[:100])
    return 0


def _clear_store() -> int:
    from clhines import tune

    print(f"{tune.clear()} removed from {tune.store_folder()}")
    return 0


def _speed(cells: PassiveCells, step_s: float) -> dict[str, float]:
    """Time of a solve next to the memory floor; in slices or ``mixed`` that of a step."""
    from clhines import tune

    solver, n = cells.solver, cells.forest.num_nodes
    solve_s = step_s
    if solver.takes_device_order and len(solver.queues) > 1:
        solve_s = _seconds_of_all(cells)
    elif solver.takes_device_order:
        solve_s = tune.median_seconds(solver.queue, lambda _: cells.solve_again())
    floor_n = min(n, solver.plan.forest.num_nodes)
    shares = [share for share in solver.shares if share]
    try:
        floors = [
            tune.floor_seconds(queue, floor_n, solver.dtype) * n / floor_n * share
            for queue, share in zip(solver.queues, shares, strict=True)
        ]
        floor_s = max(floors)  # of several devices, that which would take longest
    except DeviceMemoryError:  # the batch leaves no room for it
        floor_s = math.nan
    moved = tune.FLOOR_ARRAYS * solver.dtype.itemsize * n
    return {
        "solve_ms": solve_s * 1e3,
        "gb_per_s": moved / solve_s * 1e-9,
        "x_floor": solve_s / floor_s,
    }


def _seconds_of_all(cells: PassiveCells) -> float:
    """Median wall time of a solve on several devices, which have no clock in common."""

    def solve() -> float:
        begin = time.perf_counter()
        cells.solve_again()
        cells.finish()
        return time.perf_counter() - begin

    return float(np.median([solve() for _ in range(11)][2:]))


def _check(cells: PassiveCells, report: dict[str, Any]) -> str:
    """Check the last step and add to the report; returns what is wrong, or nothing."""
    backward = RESIDUAL_EPS * float(np.finfo(cells.solver.dtype).eps)
    report["residual_limit"] = backward
    try:
        report |= cells.check()
    except PivotError as error:
        names = "residual", "difference", "condition", "difference_limit"
        report |= dict.fromkeys(names, math.nan) | {"check": "failed"}
        return str(error)
    # Both solutions are that close to the true one: a backward error, times the condition.
    exact = RESIDUAL_EPS * float(np.finfo(np.float64).eps)
    report["difference_limit"] = report["condition"] * (backward + exact)
    limits = {name: report[f"{name}_limit"] for name in ("residual", "difference")}
    wrong = [name for name, limit in limits.items() if not report[name] <= limit]  # also for NaN
    report["check"] = "failed" if wrong else "good"
    return "; ".join(
        f"{name} {report[name]:.3g}, expected at most {limits[name]:.3g}" for name in wrong
    )


def _json(report: dict[str, Any]) -> str:
    """Return the report as strict JSON: null for numbers that are not finite."""
    strict = {
        k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in report.items()
    }
    return json.dumps(strict, indent=1, allow_nan=False)


def _mib(sizes: Sequence[float]) -> str:
    from clhines.slices import size_text

    return size_text(round(sum(sizes) * 2**20))


def _table(report: dict[str, Any]) -> str:
    """Return the report for reading."""
    rows = {
        "cells": "{cells} ({shapes} distinct shapes)",
        "repaired": "{repaired} radii of 0, interpolated" if "repaired" in report else "",
        "nodes": "{nodes}",
        "branches": "{branches}",
        "method": "{method}, {dtype}",
        "device": "{device}",
        "shares": ", ".join(f"{share:.1%}" for share in report["shares"])
        if report["devices"] > 1
        else "",
        "memory": f"{_mib(report['device_mib'])} at most"
        + (f", {_mib(report['pinned_mib'])} pinned" if any(report["pinned_mib"]) else ""),
        "slices": "{slices}" if report["slices"] > 1 else "",
        "plan": "{plan_s:.3f} s",
        "build": "{build_s:.3f} s",
        "step": "{step_ms:.3f} ms on average; the first of {steps} took {first_step_ms:.3f} ms",
        "solve": "{solve_ms:.3f} ms, {gb_per_s:.1f} GB/s, {x_floor:.2f} x floor",
        "residual": "{residual:.2e} largest relative, at most {residual_limit:.2e}",
        "reference": "{difference:.2e} largest difference, at most {difference_limit:.2e}",
        "check": "{check}",
    }
    needs = {"residual": "residual", "reference": "difference", "check": "check"}
    shown = {k: v for k, v in rows.items() if v and needs.get(k, "cells") in report}
    return "\n".join(f"{k:<10} {v.format(**report)}"[:100] for k, v in shown.items())


def _check_writable(name: str, option: str = "--out", endings: tuple[str, ...] = (".npz",)) -> None:
    """Refuse a result file that could not be written, before any work is done."""
    with _named(option):
        files.check_target(name)
    suffix = Path(name).suffix.lower()
    if suffix not in endings and not files.is_special(name):
        expected = " or ".join(repr(ending) for ending in endings)
        raise InputError(f"{option} {name}: the name ends in {suffix!r}; expected {expected}")


def _write(name: str, cables: list[cable.Cable], cells: PassiveCells) -> None:
    """Write the result whole or not at all."""
    forest = cells.forest
    arrays = {
        "v": cells.voltages(),
        "parent": forest.parent,
        "cell_offsets": forest.cell_offsets,
        "xyz": repeat([c.xyz for c in cables], forest.num_cells),
    }
    with _named("--out"):
        files.write_npz(name, arrays)


@contextmanager
def _named(option: str) -> Iterator[None]:
    """Begin what is said of a file with the option that named it."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{option} {error}") from error


def _print_report(text: str, out: str | None) -> None:
    """Print a report; to the standard error where the results go to the standard output."""
    print(text, file=sys.stderr if out is not None and files.is_stdout(out) else None)


if __name__ == "__main__":
    sys.exit(main())
