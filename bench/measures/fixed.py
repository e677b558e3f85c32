"""Models that turn CVode's variable steps on, by `fixed_step=` and by NEURON both ways.

    CLHINES_MODELS=FOLDER python -m bench fixed [NAME ...] [--steps MS ...] [--stop MS]
                                                [--device SPEC] [--keep FOLDER]

Models are those of `bench.measures.model_cases.VARIABLE`, in the folder by their numbers as
`python -m bench models` takes them; each turns CVode on by its own script, and a ring of this
package needs no folder. A model runs in processes of its own: by CVode with the tolerance of its
script, by CVode with a hundredth of that, and for each step by NEURON with steps that are fixed,
and by `clhines.neuron.run(fixed_step=)`. Fixed steps, and the tolerance, are compared with the
first of these: the n-th spike with the n-th, and voltages every 0.025 ms. This package is compared
with NEURON's fixed steps; the exit code is 1 where a spike is in another step. ``--keep``: a folder
for what each way records; a way that has run there until the same time is not run again. A model
that is not named keeps its row.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from bench import record, table
from bench.measures.model_cases import VARIABLE
from bench.measures.model_runs import DT, Measured, Taken, compared, near
from bench.measures.models import keep, kept_way, prepared, run_in
from clhines.errors import InputError

TIGHTER = 100.0  # times
QUIET = 5.0  # ms from each spike
STEPS = (0.025, 0.005)  # ms


def one_way(
    name: str, way: str, dt: float, stop: float, device: str | None
) -> tuple[dict[str, Any], Taken]:
    """Run a model that lies here: "variable", "tight", "neuron" or "clhines" by steps of `dt`."""
    import clhines

    model = Measured(VARIABLE[name], fixed=False)
    h, cvode = model.h, model.h.CVode()
    if not cvode.active():
        raise InputError("the script does not turn CVode's variable steps on")
    said = {
        "stop_ms": stop, "atol": float(cvode.atol()),
        "cells": sum(s.parentseg() is None for s in h.allsec()),
        "compartments": sum(s.nseg for s in h.allsec()),
    }  # fmt: skip
    run = partial(clhines.neuron.run, device=device, fixed_step=dt)
    if way in ("variable", "tight"):
        cvode.atol(said["atol"] / (TIGHTER if way == "tight" else 1))
        run = cvode.solve
    elif way == "neuron":
        h.cvode_active(0)
        h.dt, h.steps_per_ms, h.nstep_steprun = dt, 1 / dt, 1
        run = h.continuerun
    return said, model.run(run, stop)[1]


def largest_shift(truth: Taken, other: Taken) -> float:
    """Return how far the n-th spikes of a cell are apart at most, ms."""
    pairs = zip(truth[1], other[1], strict=True)
    return max([0.0, *(float(x) for a, b in pairs for x in np.abs(a[: len(b)] - b[: len(a)]))])


def apart(truth: Taken, other: Taken, stop: float) -> dict[str, Any]:
    """Return how far a run is from the one by variable steps."""
    pairs = list(zip(truth[1], other[1], strict=True))
    last = min(map(len, [*truth[0], *other[0]]))  # rounding may leave the end of a run out
    v = [np.abs(a[:last] - b[:last]) for a, b in zip(truth[0], other[0], strict=True)]
    time = DT * np.arange(last)
    quiet = [
        e[far(time, np.concatenate(s))] for e, s in zip(v, pairs[: len(v)], strict=True)
    ]  # fmt: skip
    calm = np.concatenate(quiet)
    assert abs(time[-1] - stop) < 1.5 * DT
    return {
        "spikes": sum(map(len, other[1])),
        "shift_ms": largest_shift(truth, other),
        "within_1_ms": near(truth[1], other[1], 1.0),
        "median_mv": float(np.median(np.concatenate(v))),
        "quiet_mv": float(calm.max()) if len(calm) else None,
    }


def far(time: np.ndarray, spikes: np.ndarray) -> np.ndarray:
    """Return which of ascending times are `QUIET` and more from each spike."""
    least = np.full(len(time), np.inf)
    for spike in spikes:
        least = np.minimum(least, np.abs(time - spike))
    return least >= QUIET


def together(found: dict[str, tuple[dict[str, Any], Taken]], steps: Sequence[float]) -> Any:
    """Return the row of a model from what each way has said and recorded."""
    said, truth = found["variable"]
    stop = said["stop_ms"]
    row = {**said, "spikes": sum(map(len, truth[1]))}
    row["tight"] = apart(truth, found["tight"][1], stop)
    row["steps"] = []
    for dt in steps:
        neurons, ours = found[f"neuron-{dt:g}"][1], found[f"clhines-{dt:g}"][1]
        same = compared(neurons, ours, dt)
        row["steps"].append({
            "dt": dt, **apart(truth, neurons, stop),
            "tight_shift_ms": largest_shift(found["tight"][1], neurons),
            "clhines": {k: same[k] for k in ("same_step", "largest_mv")}
            | {"spikes": sum(map(len, ours[1]))},
        })  # fmt: skip
    return row


def row_of(name: str, folder: Path, args: Any) -> dict[str, Any]:
    """Measure one model in processes of its own; why not, where it cannot be."""
    case, found = VARIABLE[name], {}
    stop = args.stop or case.stop
    fixed = [f"{way}-{dt:g}" for dt in args.steps for way in ("neuron", "clhines")]
    with tempfile.TemporaryDirectory() as where:
        kept, copy = Path(args.keep or where), Path(where) / name
        kept.mkdir(parents=True, exist_ok=True)
        try:
            for way in ("variable", "tight", *fixed):
                if kept_way(kept, name, way, stop) is None:
                    if not copy.is_dir():
                        prepared(case, folder / name, copy)
                    words = ["fixed", name, "--way", way, "--stop", str(stop)]
                    words += ["--device", args.device] if args.device else []
                    run_in(copy, case, [*words, "--keep", str(kept.resolve())])
                found[way] = kept_way(kept, name, way, stop)
            return together(found, args.steps)
        except InputError as error:
            return {"failed": str(error)}


HEAD = (
    "model   compart.    ms   atol by        spikes shift ms to /100 median mV quiet mV"
    "   here apart mV"
)


def lines_of(row: dict[str, Any]) -> list[str]:
    """Return the lines of a model: by variable steps, a smaller tolerance, and each fixed step."""
    first = f"{row['model']:<8}{row['compartments']:>8}{row['stop_ms']:>6g}{row['atol']:>7g}"
    lines = [f"{first} variable{row['spikes']:>8}"]
    for by, run in [("atol/100", row["tight"]), *((f"{s['dt']:g} ms", s) for s in row["steps"])]:
        quiet = "-" if run["quiet_mv"] is None else f"{run['quiet_mv']:.2g}"
        tight = f"{run['tight_shift_ms']:.3f}" if "clhines" in run else "-"
        line = f"{'':29} {by:<8}{run['spikes']:>8}{run['shift_ms']:>9.3f}{tight:>8}"
        line += f"{run['median_mv']:>10.2g}{quiet:>9}"
        if "clhines" in run:
            line += f"{run['clhines']['same_step']:>7}{run['clhines']['largest_mv']:>9.1e}"
        lines.append(line)
    return lines


def text(result: dict[str, Any]) -> str:
    """Return the table."""
    lines = [x for r in result["rows"] if "steps" in r for x in lines_of(r)]
    failed = [f"{r['model']}: {r['failed']}" for r in result["rows"] if "failed" in r]
    notes = [
        "by: CVode with the tolerance of the model's script, with a hundredth of it, and NEURON's "
        "fixed steps; these are compared with the first. shift: the largest of the n-th spike of a "
        "cell beside its n-th; to /100: the same beside CVode's with a hundredth of the tolerance. "
        "Fixed steps give a spike the end of its step. median, quiet: of the difference of "
        "voltages that are recorded, its median, and its largest "
        f"{QUIET:g} ms and more from each spike. here: spikes by "
        "fixed_step= that are in the step of NEURON's fixed ones; apart: the largest difference "
        "of a voltage from that run.",
        *(f"{r['model']}: {VARIABLE[r['model']].constructs}." for r in result["rows"]),
        *failed,
    ]
    return "\n".join([table.ruled(HEAD, lines), "", *table.wrapped(notes)])


def main(arguments: Sequence[str]) -> int:
    """Measure; write ``fixed-DEVICE.json`` and ``.txt``; 1 where this package differs."""
    parser = record.parser("fixed", __doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(VARIABLE)}")
    parser.add_argument("--steps", type=float, nargs="+", default=STEPS, metavar="MS")
    parser.add_argument("--stop", type=float, metavar="MS", help="default: of each model")
    parser.add_argument("--keep", metavar="FOLDER", help="for what each way records")
    parser.add_argument("--way", help="run the one that lies here so: variable, clhines-0.025 ...")
    args = parser.parse_args(arguments)
    if args.way:
        way, _, dt = args.way.partition("-")
        found = one_way(args.names[0], way, float(dt or DT), args.stop, args.device)
        keep(Path(args.keep), args.names[0], args.way, *found)
        return 0
    folder = Path(os.environ.get("CLHINES_MODELS", ""))
    there = {n for n in VARIABLE if "CLHINES_MODELS" in os.environ and (folder / n).is_dir()}
    there |= {n for n, case in VARIABLE.items() if not case.here}
    names = [n for n in args.names or VARIABLE if n in there]
    if not names:
        said = "no models; expected CLHINES_MODELS=FOLDER with " + ", ".join(VARIABLE)
        print(said, file=sys.stderr)
        return 2
    queue = record.queue(args.device, ("float64",))
    path = Path(args.out) / f"fixed-{record.slug(queue.device)}.json"
    old = json.loads(path.read_text("utf-8"))["rows"] if path.is_file() else []
    rows = {r["model"]: r for r in old}
    for name in tqdm(names):
        rows[name] = {"model": name, **row_of(name, folder, args)}
        result = {"record": record.record(queue, "fixed", arguments)}
        result["rows"] = [rows[n] for n in VARIABLE if n in rows]
        record.write("fixed", queue, result, text(result), args.out)
    measured = [s for n in names for s in rows[n].get("steps", [])]
    ours = [(s["spikes"], s["clhines"]["spikes"], s["clhines"]["same_step"]) for s in measured]
    return 0 if ours and all(len({*counts}) == 1 for counts in ours) else 1
