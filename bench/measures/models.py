"""Real models of NEURON beside NEURON: until when their spikes are equal, and the times.

    CLHINES_MODELS=FOLDER python -m bench models [NAME ...] [--stop MS] [--device SPEC] [--core]

Models are looked for in the folder by the number or name of their public repository; they carry no
licence, and none is part of this one. Each is copied, its mechanisms are compiled by nrnivmodl, and
it runs in a process of its own: by `h.continuerun`, by `clhines.neuron.run`, and by NEURON twice
more: with its nodes in another order, and with voltages moved by an ulp. That is what rounding does
to a model. With ``--core`` CoreNEURON runs it too. A model that is not named keeps its row.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import record, table
from bench.measures.model_cases import CASES
from bench.measures.model_runs import EQUAL_V, THREADS, core, measured
from clhines.device import devices
from clhines.errors import InputError

MARK = "RESULT "


def prepared(name: str, folder: Path, where: Path, for_core: bool = False) -> Path:
    """Copy a model and compile its mechanisms."""
    case, copy = CASES[name], where / name
    shutil.copytree(folder / name, copy)
    for path in (*case.without, *(case.without_core if for_core else ())):
        (copy / path).unlink()
    for path, old, new in case.edits:
        text = (copy / path).read_text("utf-8", "replace")
        (copy / path).write_text(text.replace(old, new), "utf-8")
    command = shutil.which("nrnivmodl") or str(Path(sys.executable).with_name("nrnivmodl"))
    done = subprocess.run(
        [command, *(["-coreneuron"] if for_core else []), str(copy / case.mechanisms)],
        cwd=copy / case.here, capture_output=True, text=True, check=False,
    ) if case.mechanisms else None  # fmt: skip
    if done is not None and done.returncode:
        errors = [x for x in (done.stdout + done.stderr).splitlines() if "rror" in x]
        raise InputError(f"nrnivmodl fails: {(errors or ['?'])[0].replace(str(copy), '')[:150]}")
    return copy


def row_of(name: str, folder: Path, args: Any, for_core: bool = False) -> dict[str, Any]:
    """Measure one model in a process of its own; why not, where it cannot be."""
    failed = "core_failed" if for_core else "failed"
    with tempfile.TemporaryDirectory() as where:
        try:
            copy = prepared(name, folder, Path(where), for_core)
        except InputError as error:
            return {failed: str(error)}
        words = ["--one", name, *(["--stop", str(args.stop)] if args.stop else [])]
        words += ["--device", args.device] if args.device else []
        words += ["--core"] if for_core else []
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
        lines = [x for x in (done.stdout + done.stderr).splitlines() if x.strip()]
        errors = [x for x in lines if "rror" in x or "rejected" in x]
        return {failed: (errors or lines or ["?"])[-1][:200]}
    row: dict[str, Any] = json.loads(found[0].removeprefix(MARK))
    return row


HEAD = (
    "model         cells compart.    ms spikes equal       mV reordered   nudged  clhines"
    "  NEURON    Core"
)


def line_of(row: dict[str, Any]) -> str:
    """Return a line of the table."""
    ours, core_s = row["clhines"], row.get("core_s")
    return (
        f"{row['model']:<15}{row['cells']:>4}{row['compartments']:>9}{row['stop_ms']:>6g}"
        f"{row['spikes']:>7}{'yes' if ours['equal_spikes'] else 'no':>6}"
        f"{ours['largest_mv']:>9.1e} {row['reordered']['largest_mv']:>9.1e}"
        f"{row['nudged']['largest_mv']:>9.1e}{row['clhines_s']:>7.1f} s{row['neuron_s']:>6.1f} s"
        + (f"{core_s:>6.1f} s" if core_s is not None else f"{'-':>8}")
    )


def notes_of(row: dict[str, Any]) -> list[str]:
    """Return what is said of a model below the table."""
    names = {"clhines": "here", "reordered": "NEURON reordered", "nudged": "NEURON nudged"}
    said = [f"{CASES[row['model']].constructs}"]
    for key, name in names.items():
        r, at = row[key], row[key]["spikes_differ_at_ms"]
        which = "all spikes equal" if r["equal_spikes"] else (
            "spikes equal but for their last bits" if at is None
            else f"the first other spike at {at:.6g} ms"
        )  # fmt: skip
        said.append(f"{name}: equal until {r['equal_until_ms']:.6g} ms, {which}")
    said.append(f"first step here after {row['first_step_s']:.2f} s")
    if "core_failed" in row:
        said.append(f"no CoreNEURON: {row['core_failed']}")
    elif "core_spikes" in row:
        said.append(f"{row['core_spikes']} events of all sources in CoreNEURON")
    said.append(f"{row['load']:.1f} processes on {row['cores']} cores; `{row['command']}`")
    return [f"{row['model']}: {'; '.join(said)}."]


def text(result: dict[str, Any]) -> str:
    """Return the table."""
    rows = result["rows"]
    good = [r for r in rows if "failed" not in r]
    lines = [line_of(r) for r in good]
    for r in rows:
        if "failed" in r:
            lines += table.wrapped([f"{r['model']}: {r['failed']}"])
    notes = [
        "equal: every spike in NEURON's step; mV: the largest difference of a voltage "
        "that is recorded; reordered: NEURON beside NEURON with its nodes in another order "
        "(ParallelContext.optimize_node_order); nudged: NEURON beside NEURON with each voltage "
        "that is recorded an ulp nearer to 0 after each step. equal until: no voltage differs by "
        f"more than {EQUAL_V:g} mV. Core: CoreNEURON on {THREADS} threads, where a model has as "
        "many cells; - where it was not measured (--core).",
        *(note for r in good for note in notes_of(r)),
        "Times are of one run each, on a machine that was shared as the numbers of processes say.",
    ]
    return "\n".join([table.ruled(HEAD, lines), "", *table.wrapped(notes)])


def kept_rows(out: str) -> dict[str, dict[str, Any]]:
    """Return the rows of the last result by model."""
    path = Path(out) / "models.json"
    if not path.is_file():
        return {}
    rows = json.loads(path.read_text("utf-8"))["rows"]
    return {r["model"]: r for r in rows if "failed" in r or "reordered" in r}


def main(arguments: Sequence[str]) -> int:
    """Measure; write ``models.json`` and ``.txt``; 1 where spikes differ."""
    parser = record.parser("models", __doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}")
    parser.add_argument("--stop", type=float, metavar="MS", help="default: of each model")
    parser.add_argument("--core", action="store_true", help="CoreNEURON, too")
    parser.add_argument("--one", choices=CASES, help="measure one that lies here; print it")
    args = parser.parse_args(arguments)
    if args.one:
        case = CASES[args.one]
        way = core if args.core else measured
        print(MARK + json.dumps(way(case, args.stop or case.stop, args.device)), flush=True)
        return 0
    folder = Path(os.environ.get("CLHINES_MODELS", ""))
    names = [n for n in args.names or CASES if (folder / n).is_dir()]
    if "CLHINES_MODELS" not in os.environ or not names:
        print("no models; expected CLHINES_MODELS=FOLDER with " + ", ".join(CASES), file=sys.stderr)
        return 2
    queue = record.queue(args.device, ("float64",))
    label = "\n".join(table.wrapped([f"Device: {devices.label(queue.device)}."]))
    for name in names:
        row = {"model": name, **row_of(name, folder, args)}
        if args.core and "failed" not in row:
            row |= row_of(name, folder, args, for_core=True)
        row["command"] = " ".join(["python -m bench models", *arguments])
        rows = kept_rows(args.out) | {name: row}
        made = record.record(queue, "models", arguments)
        result = {"record": made, "rows": [rows[n] for n in CASES if n in rows]}
        record.write("models", None, result, f"{text(result)}\n{label}", args.out)
    return 0 if all(rows[n].get("clhines", {}).get("equal_spikes") for n in names) else 1
