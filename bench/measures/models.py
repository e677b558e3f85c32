"""Real models of NEURON beside NEURON: until when their spikes are equal, and the times.

    CLHINES_MODELS=FOLDER python -m bench models [NAME ...] [--stop MS] [--device SPEC]

Models are looked for in the folder by the number or name of their public repository; they carry no
licence, and none is part of this one. Each is copied, its mechanisms are compiled by nrnivmodl, and
it runs in a process of its own: by `h.continuerun`, by `clhines.neuron.run`, and by NEURON once
more with one voltage an ulp higher: what rounding does to a model.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench import record, table
from bench.measures.model_cases import CASES, Case
from clhines.device import devices
from clhines.errors import InputError

MARK = "RESULT "
EQUAL_V = 1e-6  # mV: voltages that differ less are called equal
MOST_VECTORS = 50  # voltages that are compared; of more cells, the spikes


def measured(case: Case, stop: float, device: str | None) -> dict[str, Any]:
    """Run a model that lies in the current folder by NEURON and by this package."""
    from neuron import h

    import clhines

    h.load_file("stdrun.hoc")
    sections, v_init, kept = case.build(h)
    h.cvode_active(0)
    h.dt, h.steps_per_ms = 0.025, 40
    vectors, spikes, netcons = list[Any](), list[Any](), list[Any]()
    for section in sections:
        if len(vectors) < MOST_VECTORS:
            vectors.append(h.Vector().record(section(0.5)._ref_v))
        netcons.append(h.NetCon(section(0.5)._ref_v, None, sec=section))
        netcons[-1].threshold = -20
        spikes.append(h.Vector())
        netcons[-1].record(spikes[-1])

    def run(way: Callable[[float], object], until: float, nudged: bool = False) -> float:
        h.finitialize(v_init)
        if nudged:
            sections[0](0.5).v = np.nextafter(sections[0](0.5).v, 0)
        begin = time.perf_counter()
        way(until)
        return time.perf_counter() - begin

    def taken() -> tuple[list[np.ndarray], list[np.ndarray]]:
        return [np.array(v) for v in vectors], [np.array(s) for s in spikes]

    ours = partial(clhines.neuron.run, device=device)
    neuron_s, truth = run(h.continuerun, stop), taken()
    first_s = run(ours, h.dt)  # builds kernels
    clhines_s, got = run(ours, stop), taken()
    run(h.continuerun, stop, nudged=True)
    nudged = taken()
    assert kept is not None
    return {
        "cells": sum(s.parentseg() is None for s in h.allsec()),
        "compartments": sum(s.nseg for s in h.allsec()),
        "stop_ms": stop,
        "spikes": sum(map(len, truth[1])),
        "equal_spikes": all(map(np.array_equal, truth[1], got[1])),
        "equal_until_ms": equal_until(truth[0], got[0], float(h.dt)),
        "largest_mv": largest(truth[0], got[0]),
        "nudged_until_ms": equal_until(truth[0], nudged[0], float(h.dt)),
        "nudged_mv": largest(truth[0], nudged[0]),
        "nudged_spikes": all(map(np.array_equal, truth[1], nudged[1])),
        "neuron_s": neuron_s,
        "first_step_s": first_s,
        "clhines_s": clhines_s,
        "load": os.getloadavg()[0],
        "cores": os.cpu_count(),
    }


def largest(truth: list[np.ndarray], ours: list[np.ndarray]) -> float:
    """Return the largest difference of voltages."""
    return max(float(np.abs(a - b).max()) for a, b in zip(truth, ours, strict=True))


def equal_until(truth: list[np.ndarray], ours: list[np.ndarray], dt: float) -> float:
    """Return the first time at which a voltage differs by more than `EQUAL_V`."""
    last = min(len(a) for a in truth)
    for a, b in zip(truth, ours, strict=True):
        wrong = np.flatnonzero(np.abs(a - b) > EQUAL_V)
        last = min([last, *wrong[:1].tolist()])
    return last * dt


def prepared(name: str, folder: Path, where: Path) -> Path:
    """Copy a model and compile its mechanisms."""
    case, copy = CASES[name], where / name
    shutil.copytree(folder / name, copy)
    for path in case.without:
        (copy / path).unlink()
    for path, old, new in case.edits:
        text = (copy / path).read_text("utf-8", "replace")
        (copy / path).write_text(text.replace(old, new), "utf-8")
    command = shutil.which("nrnivmodl") or str(Path(sys.executable).with_name("nrnivmodl"))
    done = subprocess.run(
        [command, str(copy / case.mechanisms)],
        cwd=copy / case.here, capture_output=True, text=True, check=False,
    ) if case.mechanisms else None  # fmt: skip
    if done is not None and done.returncode:
        errors = [line for line in done.stderr.splitlines() if "rror" in line]
        raise InputError(f"{name}: nrnivmodl fails: {(errors or ['?'])[0][:200]}")
    return copy


def row_of(name: str, folder: Path, args: Any) -> dict[str, Any]:
    """Measure one model in a process of its own; why not, where it cannot be."""
    with tempfile.TemporaryDirectory() as where:
        try:
            copy = prepared(name, folder, Path(where))
        except InputError as error:
            return {"model": name, "failed": str(error)}
        words = ["--one", name, *(["--stop", str(args.stop)] if args.stop else [])]
        words += ["--device", args.device] if args.device else []
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join([root, *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
        done = subprocess.run(
            [sys.executable, "-m", "bench", "models", *words],
            cwd=copy / CASES[name].here,
            env={**os.environ, "PYTHONPATH": path, **CASES[name].variables},
            capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    found = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not found:
        return {"model": name, "failed": (done.stderr.splitlines() or ["?"])[-1][:200]}
    return {"model": name, **json.loads(found[0].removeprefix(MARK))}


def text(result: dict[str, Any]) -> str:
    """Return the table."""
    head = (
        "model            cells  compart.    ms  spikes equal  equal until  most mV  nudged mV   "
        "clhines  NEURON"
    )
    lines = []
    for r in result["rows"]:
        if "failed" in r:
            lines += table.wrapped([f"{r['model']}: {r['failed']}"])
            continue
        lines.append(
            f"{r['model']:<16}{r['cells']:>6}{r['compartments']:>10}{r['stop_ms']:>6g}"
            f"{r['spikes']:>8}{'yes' if r['equal_spikes'] else 'no':>6}"
            f"{r['equal_until_ms']:>10.6g} ms{r['largest_mv']:>9.1e}{r['nudged_mv']:>11.1e}"
            f"{r['clhines_s']:>8.1f} s{r['neuron_s']:>6.1f} s"
        )
    rows = [r for r in result["rows"] if "failed" not in r]
    notes = [
        "equal: every spike in NEURON's step; equal until: no voltage recorded differs by more "
        f"than {EQUAL_V:g} mV; nudged: NEURON beside NEURON with one voltage an ulp higher at t = "
        "0, which is what rounding does to the model.",
        *(f"{r['model']}: nudged NEURON is equal until {r['nudged_until_ms']:.6g} ms, its spikes "
          f"are {'the same' if r['nudged_spikes'] else 'others'}; first step here after "
          f"{r['first_step_s']:.2f} s; {r['load']:.1f} processes on {r['cores']} cores."
          for r in rows),
        *(f"{r['model']}: {CASES[r['model']].constructs}." for r in rows),
        "Times are of one run each, on a machine that was shared as the numbers of processes say.",
    ]  # fmt: skip
    return "\n".join([table.ruled(head, lines), "", *table.wrapped(notes)])


def main(arguments: Sequence[str]) -> int:
    """Measure; write ``models.json`` and ``.txt``; 1 where spikes differ."""
    parser = record.parser("models", __doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}")
    parser.add_argument("--stop", type=float, metavar="MS", help="default: of each model")
    parser.add_argument("--one", choices=CASES, help="measure one that lies here; print it")
    args = parser.parse_args(arguments)
    if args.one:
        case = CASES[args.one]
        print(MARK + json.dumps(measured(case, args.stop or case.stop, args.device)), flush=True)
        return 0
    folder = Path(os.environ.get("CLHINES_MODELS", ""))
    names = [n for n in args.names or CASES if (folder / n).is_dir()]
    if "CLHINES_MODELS" not in os.environ or not names:
        print("no models; expected CLHINES_MODELS=FOLDER with " + ", ".join(CASES), file=sys.stderr)
        return 2
    queue = record.queue(args.device, ("float64",))
    rows = [row_of(name, folder, args) for name in names]
    result = {"record": record.record(queue, "models", arguments), "rows": rows}
    label = "\n".join(table.wrapped([f"Device: {devices.label(queue.device)}."]))
    record.write("models", None, result, f"{text(result)}\n{label}", args.out)
    return 0 if all(r.get("equal_spikes") for r in rows) else 1
