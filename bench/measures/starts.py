"""Time cold and warm starts: the README's first command, examples, models of NEURON.

    python -m bench starts [--device SPEC] [--models NAME ...] [--out FOLDER]

Each runs in its own process, first with empty folders for kernels and all other caches, then twice
more; `cold` is the first time, `warm` the last. The time of a model in the folder
``CLHINES_MODELS`` (see `bench models`) is its first two steps, without NEURON's building and
initialisation; a second table has the time of its phases, and of NEURON's building. Examples
without their packages are listed by name and left out. The exit code is 1 if a cold start takes
more than 60 s, or a warm one more than 20 s.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
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
import json, sys, time
start = time.perf_counter()
sys.path.insert(0, {root!r})
from bench.measures.model_cases import CASES
from bench.measures.model_runs import began
from bench.measures.starts import Phases
h, sections, v_init, kept = began(CASES[{name!r}])
h.finitialize(v_init)
begin = time.perf_counter()
phases = Phases({{"building": begin - start}})
import clhines, clhines.neuron.entry
phases.watch()
phases.add("imports", time.perf_counter() - begin)
clhines.neuron.run(2 * h.dt)
spent = time.perf_counter() - begin
phases.add("rest", begin - start + spent - sum(phases.seconds.values()))
print("took", spent, json.dumps(phases.seconds))
"""
WATCHED = {  # functions and methods -> phase; a phase excludes the phases within it
    "clhines.neuron.memory.versions._tested": "self-tests",
    "clhines.solver.device.trust._tried": "self-tests",
    "clhines.neuron.entry.read_model": "reading",
    "clhines.neuron.reading.convert_all": "converting",
    "clhines.neuron.entry.network_of": "network",
    "clhines.neuron.entry.take_values": "planning",
    "clhines.neuron.entry.Simulation": "planning",
    "clhines.solver.device.program.render": "rendering",
    "clhines.solver.device.program._compile": "compiling",
    "clhines.solver.device.program.Kernel.launched": "compiling",
    "clhines.neuron.kept.ModelRun.advance": "steps",
    "clhines.neuron.kept.ModelRun._write": "writing back",
    "clhines.neuron.kept.KeptModel.step": "NEURON's step",
}
PHASES = ["building", "imports", *dict.fromkeys(WATCHED.values()), "rest"]


class Phases:
    """Seconds per phase, without the phases that begin in it."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0) | seconds
        self._open, self._since = list[str](), 0.0

    def add(self, phase: str, seconds: float) -> None:
        self.seconds[phase] += seconds

    def watch(self) -> None:
        for path, phase in WATCHED.items():
            place, _, name = path.rpartition(".")
            try:
                owner: Any = importlib.import_module(place)
            except ImportError:  # a class
                module, _, of = place.rpartition(".")
                owner = getattr(importlib.import_module(module), of)
            setattr(owner, name, self._timed(getattr(owner, name), phase))

    def _timed(self, function: Callable[..., Any], phase: str) -> Callable[..., Any]:
        def timed(*given: Any, **named: Any) -> Any:
            self._turn(phase)
            try:
                if function.__name__ == "launched":
                    given[1].wait()  # PoCL compiles when a kernel is launched
                return function(*given, **named)
            finally:
                self._turn("")

        return timed

    def _turn(self, phase: str) -> None:
        """Begin a phase, or end the last one that has begun."""
        now = time.perf_counter()
        if self._open:
            self.add(self._open[-1], now - self._since)
        self._since = now
        if phase:
            self._open.append(phase)
        else:
            self._open.pop()


def taken(
    arguments: Sequence[str], folder: Path, env: dict[str, str]
) -> tuple[float, dict[str, float]]:
    """Return a process's seconds, or its printed ``took`` seconds and their phases."""
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True,
        timeout=TIMEOUT, check=False,
    )  # fmt: skip
    spent = time.perf_counter() - begin
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["nothing is said"])[-1])
    printed = [line for line in done.stdout.splitlines() if line.startswith("took ")]
    if not printed:
        return spent, {}
    _, seconds, phases = printed[-1].split(maxsplit=2)
    return float(seconds), json.loads(phases)


def started(name: str, arguments: Sequence[str], device: str, folder: Path) -> dict[str, Any]:
    """Return the row for one start: three runs, the first of which finds nothing cached."""
    with tempfile.TemporaryDirectory() as caches, tempfile.TemporaryDirectory() as here:
        cache_folders = {key: str(Path(caches) / value) for key, value in CACHES.items()}
        for path in cache_folders.values():
            Path(path).mkdir()
        path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
        env = {**os.environ, **cache_folders, "CLHINES_DEVICE": device, "PYTHONPATH": path}
        env |= {"MPLBACKEND": "agg", **(CASES[name].variables if name in CASES else {})}
        try:
            runs = [taken(arguments, folder if name in CASES else Path(here), env) for _ in "abc"]
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            return {"name": name, "failed": str(error)[:200]}
    (cold, cold_phases), _, (warm, warm_phases) = runs
    row = {"name": name, "cold_seconds": cold, "warm_seconds": warm}
    return row | ({"cold": cold_phases, "warm": warm_phases} if cold_phases else {})


def good(row: dict[str, Any]) -> bool:
    return row["cold_seconds"] <= MOST_COLD and row["warm_seconds"] <= MOST_WARM


def text(result: dict[str, Any]) -> str:
    whole = [r for r in result["rows"] if "failed" not in r]
    lines = [f"{r['name']:<28} {r['cold_seconds']:>7.1f} {r['warm_seconds']:>7.1f}" for r in whole]
    failed = [f"{r['name']}: {r['failed']}" for r in result["rows"] if "failed" in r]
    said = table.ruled(f"{'what':<28} {'cold s':>7} {'warm s':>7}", lines)
    timed = [(r, way) for r in whole if "cold" in r for way in ("cold", "warm")]
    if timed:
        widths = {phase: max(len(phase), 6) for phase in PHASES}
        head = " ".join(f"{phase:>{width}}" for phase, width in widths.items())
        lines = [
            f"{r['name']:<15} {way} "
            + " ".join(f"{r[way][phase]:>{width}.2f}" for phase, width in widths.items())
            for r, way in timed
        ]
        said += "\n\n" + table.ruled(f"{'seconds of':<20} {head}", lines)
    return "\n".join([said, *table.wrapped([f"Left out: {line}" for line in failed])])


def main(arguments: Sequence[str]) -> int:
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
    for name, command in tqdm(cases):
        rows.append(started(name, command, device, ROOT))
    for name in args.models:
        with tempfile.TemporaryDirectory() as where:
            copy = prepared(CASES[name], models / name, Path(where) / name)
            code = OF_MODEL.format(root=str(ROOT), name=name)
            rows.append(started(name, ["-c", code], device, copy / CASES[name].here))
    result = {"limits_seconds": [MOST_COLD, MOST_WARM], "rows": rows}
    record.write("starts", queue, arguments, result, text, args.out)
    return int(not all(good(row) for row in rows if "failed" not in row))
