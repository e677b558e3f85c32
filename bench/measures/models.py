"""Real models of NEURON beside NEURON: until when their spikes are equal, and the times.

    CLHINES_MODELS=FOLDER python -m bench models [NAME ...] [--stop MS] [--device SPEC]

Models are looked for in the folder by the number or name of their public repository; they carry no
licence, and none is part of this one. Each is copied, its mechanisms are compiled by nrnivmodl, and
it runs in a process of its own: by `h.continuerun`, and by `clhines.neuron.run`.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import record, table
from clhines.errors import InputError

MARK = "RESULT "
EQUAL_V = 1e-6  # mV: voltages that differ less are called equal


@dataclass(frozen=True)
class Case:
    """A model: where its parts are, and how it is built.

    Attributes
    ----------
    constructs : str
    mechanisms : str
        Folder of its .mod files.
    here : str
        Folder that it is built from.
    build : callable
        Takes NEURON's h; returns sections to record, the initial voltage, and what must live on.
    stop : float, ms
    """

    constructs: str
    mechanisms: str
    here: str
    build: Callable[[Any], tuple[list[Any], float, object]]
    stop: float


def layer5(h: Any) -> tuple[list[Any], float, object]:
    """Hay et al. 2011: a layer 5 pyramidal cell with a current into its soma."""
    h.load_file("import3d.hoc")
    for name in ("L5PCbiophys3", "L5PCtemplate"):
        h.load_file(f"../models/{name}.hoc")
    cell = h.L5PCtemplate("../morphologies/cell1.asc")
    clamp = h.IClamp(cell.soma[0](0.5))
    clamp.amp, clamp.delay, clamp.dur = 0.8, 100, 1e9
    h.celsius = 34
    return [cell.soma[0]], -80.0, (cell, clamp)


def purkinje(h: Any) -> tuple[list[Any], float, object]:
    """Masoli et al. 2015: a Purkinje cell that fires by itself; calcium by KINETIC."""
    sys.path.insert(0, os.getcwd())
    from Purkinje_py3 import Purkinje_py3

    cell = Purkinje_py3()
    h.celsius = 37
    return [cell.soma], -65.0, cell


CASES = {
    "139653": Case("ions, concentrations, TABLE", "mod", "simulationcode", layer5, 1000.0),
    "229585": Case("KINETIC, sparse, GHK", "mod_files", ".", purkinje, 100.0),
}


def measured(case: Case, stop: float, device: str | None) -> dict[str, Any]:
    """Run a model that lies in the current folder by NEURON and by this package."""
    from neuron import h

    import clhines

    h.load_file("stdrun.hoc")
    os.chdir(case.here)
    sections, v_init, kept = case.build(h)
    h.cvode_active(0)
    h.dt = 0.025
    h.steps_per_ms = 40
    vectors, spikes, netcons = [], [], []
    for section in sections:
        vectors.append(h.Vector().record(section(0.5)._ref_v))
        netcons.append(h.NetCon(section(0.5)._ref_v, None, sec=section))
        netcons[-1].threshold = -20
        spikes.append(h.Vector())
        netcons[-1].record(spikes[-1])
    begin = time.perf_counter()
    h.finitialize(v_init)
    h.continuerun(stop)
    neuron_s = time.perf_counter() - begin
    truth = [np.array(v) for v in vectors], [np.array(s) for s in spikes]
    seconds = []
    for until in (h.dt, stop):  # the first builds kernels
        h.finitialize(v_init)
        begin = time.perf_counter()
        clhines.neuron.run(until, device=device)
        seconds.append(time.perf_counter() - begin)
    assert kept is not None
    ours = [np.array(v) for v in vectors], [np.array(s) for s in spikes]
    pairs = list(zip(truth[0], ours[0], strict=True))
    return {
        "cells": sum(s.parentseg() is None for s in h.allsec()),
        "compartments": sum(s.nseg for s in h.allsec()),
        "stop_ms": stop,
        "spikes": sum(map(len, truth[1])),
        "equal_spikes": all(map(np.array_equal, truth[1], ours[1])),
        "equal_until_ms": equal_until(truth[0], ours[0], float(h.dt)),
        "largest_mv": max(float(np.abs(a - b).max()) for a, b in pairs),
        "neuron_s": neuron_s,
        "first_step_s": seconds[0],
        "clhines_s": seconds[1],
    }  # fmt: skip


def equal_until(truth: list[np.ndarray], ours: list[np.ndarray], dt: float) -> float:
    """Return the first time at which a voltage differs by more than `EQUAL_V`."""
    last = min(len(a) for a in truth)
    for a, b in zip(truth, ours, strict=True):
        wrong = np.flatnonzero(np.abs(a - b) > EQUAL_V)
        last = min([last, *wrong[:1].tolist()])
    return last * dt


def prepared(name: str, folder: Path, where: Path) -> Path:
    """Copy a model and compile its mechanisms."""
    copy = where / name
    shutil.copytree(folder / name, copy)
    command = shutil.which("nrnivmodl") or str(Path(sys.executable).with_name("nrnivmodl"))
    done = subprocess.run(
        [command, CASES[name].mechanisms], cwd=copy, capture_output=True, text=True, check=False
    )
    if done.returncode:
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
            cwd=copy, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    found = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not found:
        return {"model": name, "failed": (done.stderr.splitlines() or ["?"])[-1][:200]}
    return {"model": name, **json.loads(found[0].removeprefix(MARK))}


def text(result: dict[str, Any]) -> str:
    """Return the table."""
    head = (
        "model   cells compartm.     ms spikes  equal  v equal until  most mV  first step  clhines"
        "   NEURON"
    )
    lines = []
    for r in result["rows"]:
        if "failed" in r:
            lines += table.wrapped([f"{r['model']}: {r['failed']}"])
            continue
        lines.append(
            f"{r['model']:<7}{r['cells']:>6}{r['compartments']:>9}{r['stop_ms']:>8g}"
            f"{r['spikes']:>7}{'yes' if r['equal_spikes'] else 'no':>7}"
            f"{r['equal_until_ms']:>12.6g} ms{r['largest_mv']:>9.1e}{r['first_step_s']:>10.2f} s"
            f"{r['clhines_s']:>7.1f} s{r['neuron_s']:>7.1f} s"
        )
    notes = [
        "equal: every spike in NEURON's step; v equal until: no voltage recorded differs by more "
        f"than {EQUAL_V:g} mV; first step: from NEURON's memory, kernels built or cached.",
        *(f"{n}: {c.constructs}." for n, c in CASES.items()),
    ]
    return "\n".join([table.ruled(head, lines), "", *table.wrapped(notes)])


def main(arguments: Sequence[str]) -> int:
    """Measure; write ``models-<device>.json`` and ``.txt``; 1 where spikes differ."""
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
    record.write("models", queue, result, text(result), args.out)
    return 0 if all(r.get("equal_spikes") for r in rows) else 1
