"""Check against NEURON, with its defaults but where a line names a setting.

    python -m bench checks [NAME ...] [--seeds N] [--morphologies FOLDER] [--device SPEC]
                           [--out FOLDER]

NAME is one of ``networks`` (random networks, spike for spike), ``hh`` (without and with NEURON's
table of rates), ``kinetics`` (`sparse`, `derivimplicit` and `cnexp` in compiled .mod files of
tests/mod), ``units`` (texts in other units than NEURON's) and ``cells`` (SWC files by NEURON's
importer; needs ``--morphologies``); default: all. The table goes to checks.txt and checks.json in
the folder.

The exit code is 1 if a check fails, 2 if a named check could not run.
"""

import platform
import time
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from bench import MissingError, record, table
from bench.measures.checks import common as checks_common
from bench.measures.checks.cells import cells
from bench.measures.checks.common import Outcome, Settings
from bench.measures.checks.hodgkin_huxley import hh
from bench.measures.checks.kinetics import kinetics, units
from bench.measures.checks.networks import networks
from clhines.solver.device import devices

CHECKS = {"networks": networks, "hh": hh, "kinetics": kinetics, "units": units, "cells": cells}
PAD = " " * 8
SHOWN = 8  # failures per check in the table; the JSON has all


def run(names, settings):
    outcomes, seconds = [], {}
    for name in names:
        begin = time.perf_counter()
        try:
            outcomes += CHECKS[name](settings)
        except MissingError as error:
            outcomes.append(Outcome(name, "", skipped=str(error)))
        seconds[name] = time.perf_counter() - begin
    return outcomes, seconds


def figure(value):
    """Write a count as it is, another number with two digits."""
    return str(value) if isinstance(value, int) else f"{value:.2g}"


def text(result):
    lines = []
    for r in result["checks"]:
        word = "skip" if r["skipped"] else "pass" if r["passed"] else "FAIL"
        lines.append(f"{word}  {r['check']:<9} {r['skipped'] or r['what']}"[: table.WIDTH])
        if r["skipped"]:
            continue
        failures = r["failures"]
        parts = [f"{r['cases'] - len(failures)} of {r['cases']}"]
        parts += [f"{name} {figure(value)}" for name, value in r["figures"].items()]
        lines += table.wrapped(["; ".join(parts)], PAD, PAD)
        lines += table.wrapped(failures[:SHOWN], " " * 6 + "- ", PAD)
        if len(failures) > SHOWN:
            lines.append(f"      - and {len(failures) - SHOWN} more")
    return "\n".join(lines)


def versions():
    try:
        h = checks_common.neuron()  # NEURON itself sets a name `neuron` in the main module
        return {"neuron": h.nrnversion(5), "system": platform.system()}
    except MissingError:
        return {"neuron": None}


def parsed(arguments):
    parser = record.parser("checks", __doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CHECKS))
    parser.add_argument("--seeds", type=int, default=100, help="random networks")
    parser.add_argument("--morphologies", type=Path, help="folder of SWC files")
    args = parser.parse_args(arguments)
    unknown = [name for name in args.names if name not in CHECKS]
    if unknown:
        parser.error(f"there is no check {unknown[0]!r}; expected {', '.join(CHECKS)}")
    if args.seeds < 1:
        parser.error(f"--seeds is {args.seeds}; expected 1 or more")
    if args.morphologies is not None and not args.morphologies.is_dir():
        parser.error(f"--morphologies: there is no folder {args.morphologies}")
    return args


def main(arguments):
    args = parsed(arguments)
    queue = record.queue(args.device, ["float64"])
    settings = Settings(
        queue,
        seeds=args.seeds,
        morphologies=args.morphologies,
        progress=lambda items: tqdm(items, leave=False, disable=None),
    )
    outcomes, seconds = run(args.names or list(CHECKS), settings)
    run_record = {**record.record(queue, "checks", arguments), **versions()}
    head = (
        f"{devices.label(queue.device)}\n"
        f"NEURON {run_record['neuron']}, commit {run_record['commit']}, seeds 0 to {args.seeds - 1}"
    )
    rows = [{**asdict(o), "passed": o.passed} for o in outcomes]
    result = {"record": run_record, "seconds": seconds, "checks": rows}
    record.files(Path(args.out) / "checks.json", result, f"{head}\n\n{text(result)}\n")
    if any(not o.passed for o in outcomes):
        return 1
    return 2 if any(o.skipped and o.check in args.names for o in outcomes) else 0
