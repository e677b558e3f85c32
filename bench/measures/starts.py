"""Time cold and warm starts: the README's first command, examples, models of NEURON.

    python -m bench starts [--device SPEC] [--models NAME ...] [--out FOLDER]

Each is run in a process of its own, first with empty folders for kernels and all else that is
cached, then twice more; `cold` is the first time, `warm` the last. Of a model in the folder
``CLHINES_MODELS`` (see `bench models`) the time is that of the first two steps, without NEURON's
own to build and start it. Examples that lack a package are left out, by name. The exit code is 1
where a cold start takes more than 60 s, or a warm one more than 20 s.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from bench import record, table
from bench.measures.model_cases import CASES
from bench.measures.models import prepared

ROOT = Path(__file__).resolve().parents[2]
MOST_COLD, MOST_WARM, TIMEOUT = 60.0, 20.0, 600.0  # s
CACHES = {
    "CLHINES_CACHE_DIR": "clhines",
    "POCL_CACHE_DIR": "pocl",
    "CUDA_CACHE_PATH": "cuda",
    "XDG_CACHE_HOME": "xdg",
}
COMMANDS = {"clhines solve": ["-m", "clhines.cli", "solve"]}
OF_MODEL = """
import sys, time
sys.path.insert(0, {root!r})
from bench.measures.model_cases import CASES
from bench.measures.model_runs import began
h, sections, v_init, kept = began(CASES[{name!r}])
h.finitialize(v_init)
begin = time.perf_counter()
import clhines
clhines.neuron.run(2 * h.dt)
print("took", time.perf_counter() - begin)
"""


def taken(arguments: Sequence[str], folder: Path, env: dict[str, str]) -> float:
    """Return the seconds of a process, or those that it prints as ``took``; RuntimeError."""
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True,
        timeout=TIMEOUT, check=False,
    )  # fmt: skip
    spent = time.perf_counter() - begin
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["nothing is said"])[-1])
    told = [line for line in done.stdout.splitlines() if line.startswith("took ")]
    return float(told[-1].split()[1]) if told else spent


def started(name: str, arguments: Sequence[str], device: str, folder: Path) -> dict[str, Any]:
    """Return the row of one start: three runs, of which the first finds nothing cached."""
    with tempfile.TemporaryDirectory() as caches, tempfile.TemporaryDirectory() as here:
        own = {key: str(Path(caches) / value) for key, value in CACHES.items()}
        for path in own.values():
            Path(path).mkdir()
        path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
        env = {**os.environ, **own, "CLHINES_DEVICE": device, "PYTHONPATH": path}
        env |= {"MPLBACKEND": "agg", **(CASES[name].variables if name in CASES else {})}
        try:
            runs = [taken(arguments, folder if name in CASES else Path(here), env) for _ in "abc"]
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            return {"name": name, "failed": str(error)[:200]}
    return {"name": name, "cold_seconds": runs[0], "warm_seconds": runs[-1]}


def good(row: dict[str, Any]) -> bool:
    """Whether a start is within its limits."""
    return row["cold_seconds"] <= MOST_COLD and row["warm_seconds"] <= MOST_WARM


def text(result: dict[str, Any]) -> str:
    """Return the rows as text."""
    whole = [r for r in result["rows"] if "failed" not in r]
    lines = [f"{r['name']:<28} {r['cold_seconds']:>7.1f} {r['warm_seconds']:>7.1f}" for r in whole]
    failed = [f"{r['name']}: {r['failed']}" for r in result["rows"] if "failed" in r]
    said = table.ruled(f"{'what':<28} {'cold s':>7} {'warm s':>7}", lines)
    return "\n".join([said, *table.wrapped([f"Left out: {line}" for line in failed])])


def main(arguments: Sequence[str]) -> int:
    """Run the starts and write ``starts-<device>.json`` and ``.txt``."""
    parser = record.parser("starts", __doc__)
    parser.add_argument("--models", nargs="*", default=[], choices=CASES, metavar="NAME")
    parser.add_argument("--only", nargs="*", help="examples and commands with such a word")
    args = parser.parse_args(arguments)
    models = Path(os.environ.get("CLHINES_MODELS", ""))
    if args.models and "CLHINES_MODELS" not in os.environ:
        parser.error("--models: expected CLHINES_MODELS=FOLDER, in which they are")
    queue = record.queue(args.device, ["float64"])
    examples = sorted((ROOT / "docs/examples").glob("*.py"))
    cases = [*COMMANDS.items(), *((p.name, [str(p)]) for p in examples)]
    if args.only is not None:
        cases = [case for case in cases if any(word in case[0] for word in args.only)]
    device, rows = queue.device.name.strip(), list[dict[str, Any]]()
    for name, given in tqdm(cases):
        rows.append(started(name, given, device, ROOT))
    for name in args.models:
        with tempfile.TemporaryDirectory() as where:
            copy = prepared(CASES[name], models / name, Path(where) / name)
            code = OF_MODEL.format(root=str(ROOT), name=name)
            rows.append(started(name, ["-c", code], device, copy / CASES[name].here))
    result = {
        "record": record.record(queue, "starts", arguments),
        "limits_seconds": [MOST_COLD, MOST_WARM], "rows": rows,
    }  # fmt: skip
    record.write("starts", queue, result, text(result), args.out)
    return int(not all(good(row) for row in rows if "failed" not in row))
