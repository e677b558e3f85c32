"""Real models of NEURON beside NEURON: until when their spikes are equal, and the times.

    CLHINES_MODELS=FOLDER python -m bench models [NAME ...] [--stop MS] [--device SPEC] [--core]
                                                 [--processes N] [--keep FOLDER] [--short]
                                                 [--dtype DTYPE] [--copies N ...]
                                                 [--whole [--ranks N]] [--spread N ...]

The folder has models by the number or name of their public repository; they carry no licence, and
none is part of this one. Each model is copied, nrnivmodl compiles its mechanisms (if they are not),
and it runs in its own processes: by `h.continuerun`, by `clhines.neuron.run`, and by NEURON twice
more: with its nodes in another order, and with voltages moved by an ulp. The last two show the
effect of rounding on a model. A model that is not named keeps its row.

``--core``: CoreNEURON runs it, too. ``--processes``: number of processes at the same time.
``--keep``: a folder for the records of each way; a way with a record until the same time does not
run again. ``--dtype float32``: how many spikes stay, and how far voltages are off, in single
precision; NEURON computes in double, and the exit code is 0. ``--copies``: only the time of so many
copies of each model from NEURON's memory, by `clhines.from_neuron`, to the end of the first step,
and a warm step. ``--whole``: seconds and memory of whole models, which the other measures cut; with
``--ranks`` also how many spikes are in the steps of NEURON on so many MPI ranks, which may run on
another machine with ``--keep``. If not all are, the row also counts NEURON's own spikes that stay
if the voltage of each soma starts an ulp off. ``--spread``: whole models on so many MPI ranks with
a device each, and how many spikes equal those of the first number of ranks. If NEURON does not find
the MPI library, set ``MPI_LIB_NRN_PATH``.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from bench import child, nrn, record, table
from bench.measures.model_cases import CASES, DRAWN, Case
from bench.measures.model_runs import (
    DT,
    EQUAL_V,
    PIECES,
    ROUNDS,
    THREADS,
    WARM,
    WAYS,
    Taken,
    by_gid,
    core,
    first_spike,
    first_steps,
    leave_ranks,
    near,
    one_way,
    ranked,
    spread,
    together,
    whole_run,
)
from clhines.core.errors import InputError


def prepared(case: Case, folder: Path, copy: Path, for_core: bool = False) -> Path:
    if case.here:
        shutil.copytree(folder, copy)
    else:
        copy.mkdir()
    for path, old, new in case.edits:
        text = (copy / path).read_text("utf-8", "replace")
        (copy / path).write_text(text.replace(old, new), "utf-8")
    if not for_core and (copy / case.here / platform.machine()).is_dir():
        return copy
    for path in (*case.without, *(case.without_core if for_core else ())):
        (copy / path).unlink()
    done = subprocess.run(
        [nrn.compiler(), *(["-coreneuron"] if for_core else []), str(copy / case.mechanisms)],
        cwd=copy / case.here, capture_output=True, text=True, check=False,
    ) if case.mechanisms else None  # fmt: skip
    if done is not None and done.returncode:
        errors = [x for x in (done.stdout + done.stderr).splitlines() if "rror" in x]
        raise InputError(f"nrnivmodl fails: {(errors or ['?'])[0].replace(str(copy), '')[:150]}")
    return copy


def row_of(name: str, folder: Path, args: Any, for_core: bool = False) -> dict[str, Any]:
    failed = "core_failed" if for_core else "failed"
    stop = args.stop or CASES[name].stop
    with tempfile.TemporaryDirectory() as where:
        kept = Path(args.keep or where)
        kept.mkdir(parents=True, exist_ok=True)
        try:
            ways = ("core",) if for_core else WAYS[: 2 if args.short else None]
            missing = [w for w in ways if kept_way(kept, name, w, stop) is None]
            if missing:
                copy = prepared(CASES[name], folder / name, Path(where) / name, for_core)
                with ThreadPoolExecutor(args.processes) as pool:
                    list(pool.map(lambda w: run_way(name, w, stop, copy, kept, args), missing))
            results = {w: kept_way(kept, name, w, stop) for w in ways}
            whole = {w: x for w, x in results.items() if x is not None}
            return whole["core"][0] if for_core else together(whole)
        except InputError as error:
            return {failed: str(error)}


def run_way(name: str, way: str, stop: float, copy: Path, kept: Path, args: Any) -> None:
    words = [name, "--way", way, "--stop", str(stop), "--keep", str(kept.resolve())]
    words += ["--dtype", args.dtype, *(["--short"] if args.short else [])]
    words += ["--device", args.device] if args.device else []
    run_in(copy, CASES[name], ["models", *words])


def run_in(copy: Path, case: Case, words: Sequence[str], launcher: Sequence[str] = ()) -> str:
    """Run ``python -m bench WORDS`` in the model's folder; return its output.

    `launcher` starts the interpreter. A failure raises InputError with its last line.
    """
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([root, *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    done = subprocess.run(
        [*launcher, sys.executable, "-m", "bench", *words],
        cwd=copy / case.here, env={**os.environ, "PYTHONPATH": path, **case.variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        lines = [x for x in (done.stdout + done.stderr).splitlines() if x.strip()]
        errors = [x for x in lines if "rror" in x or "rejected" in x]
        raise InputError((errors or lines or ["?"])[-1][:200])
    return done.stdout


def rows_by(way: str, name: str, folder: Path, args: Any) -> list[dict[str, Any]]:
    words = [name, "--dtype", args.dtype, "--stop", f"{args.stop or CASES[name].stop:g}"]
    words += ["--device", args.device] if args.device else []
    words += ["--copies", *map(str, args.copies)] if args.copies else []

    def said(of: str, *launcher: str) -> list[dict[str, Any]]:
        done = kept / f"{name}-{of}.npz"
        if of != "copies" and done.is_file():
            return [json.loads(str(np.load(done)["said"]))]
        these = ["models", *words, "--way", of, "--keep", str(kept.resolve())]
        lines = run_in(copy, CASES[name], these, launcher).splitlines()
        return [json.loads(x.removeprefix(ROW)) for x in lines if x.startswith(ROW)]

    with tempfile.TemporaryDirectory() as where:
        kept = Path(args.keep or where)
        copy = prepared(CASES[name], folder / name, Path(where) / name)
        if way == "spread":
            return list(rows_of_ranks(name, args.spread, said, kept))
        rows = [{"model": name, **row} for row in said(way)]
        if args.ranks:
            start, (beside, nudged) = child.mpiexec(args.ranks), RANKED
            rows[0][beside] = said(beside, *start)[0]
            agreements = {way: agreement(kept, name, way)}
            if agreements[way]["differ_at_ms"] is not None:
                rows[0][nudged] = said(nudged, *start)[0]
                agreements[nudged] = agreement(kept, name, nudged)
            rows[0]["agreement"] = agreements
    return rows


def rows_of_ranks(
    name: str, counts: list[int], said: Callable[..., list[dict[str, Any]]], kept: Path
) -> Iterator[dict[str, Any]]:
    """Yield a row per rank count, with the first run's number of spikes."""
    done, first = kept / f"{name}-spread.npz", set[tuple[float, float]]()
    seconds = list[float]()  # first rank count: its run, and with NEURON's building
    for count in counts:
        done.unlink(missing_ok=True)
        row = said("spread", *child.mpiexec(count))[0]
        with np.load(done) as file:
            spikes = set(zip(file["times"].tolist(), file["gids"].tolist(), strict=True))
        times = [row["run_s"], row["build_s"] + row["run_s"]]
        first, seconds = first or spikes, seconds or times
        faster, built = (a / b for a, b in zip(seconds, times, strict=True))
        same = len(first & spikes)
        yield {"model": name, **row, "same": same, "faster": faster, "faster_built": built}


def agreement(kept: Path, name: str, way: str) -> dict[str, Any]:
    def of(way: str) -> tuple[np.ndarray, np.ndarray]:
        file = np.load(kept / f"{name}-{way}.npz")
        return file["times"], file["gids"]

    truth, other = by_gid(of(RANKED[0]), of(way))
    return {
        "neuron": sum(map(len, truth)),
        "spikes": sum(map(len, other)),
        "same_step": near(truth, other, 0.5 * DT),
        "within_1_ms": near(truth, other, 1.0),
        "differ_at_ms": first_spike(truth, other, DT),
    }


RANKED = ("ranks", "ranks-nudged")
ROW = "row: "  # models print lines, too
COPIES = "model           copies   nodes  precision engine         built  first step  warm step"


def copies_text(result: dict[str, Any]) -> str:
    lines = [
        f"{r['model']:<16}{r['copies']:>6}{r['nodes']:>8}  {r['dtype']:<10}{r['engine']:<12}"
        f"{r['built_s']:>6.2f} s{r['first_step_s']:>10.2f} s{r['warm_us']:>8.1f} us"
        for r in result["rows"]
    ]
    note = (
        "From NEURON's memory, after NEURON has built the model; ring20-text from no such "
        "memory. first step: ends so long after the call, compilation included, which caches may "
        f"have; warm step: the best of {ROUNDS} runs of {WARM} steps, by the wall clock."
    )
    return "\n".join([table.ruled(COPIES, lines), "", *table.wrapped([note])])


WHOLE = (
    "model            cells compart.  NetCons  built   first   piece  a step in NEURON    to  mem."
)


def whole_text(result: dict[str, Any]) -> str:
    lines = [
        f"{r['model']:<16}{r['cells']:>6}{r['compartments']:>9}{r['netcons']:>9}"
        f"{r['build_s'] + r['init_s']:>5.0f} s{r['first_s']:>6.1f} s"
        f"{r['piece_s']:>6.2f} s{r['us']:>8.0f}{1e6 * r['neuron_step_s']:>10.0f}"
        f"{r['stop_ms']:>6g}{r['peak_mib'] / r['neuron_mib']:>6.2f}"
        for r in result["rows"]
    ]
    note = (
        "built: by NEURON, with finitialize(). first: two steps by clhines.neuron.run, with all "
        "that it reads, builds and compiles, unless an earlier run has left kernels in the cache. "
        f"piece: the best of {PIECES} runs of one step, which NEURON takes itself. a step, us: in "
        f"the run until the time under `to`, ms; in NEURON: the best of {PIECES} single steps. "
        "mem.: the most that the process had after the first run, over NEURON's alone."
    )
    said = [
        f"{r['model']}: {r['spikes']} spikes, run in {r['run_s']:.1f} s; NEURON alone "
        f"{r['neuron_mib']:.0f} MiB; "
        f"{r['load']:.1f} processes on {r['cores']} cores; `{r['command']}`."
        for r in result["rows"]
    ]
    said += [beside(r) for r in result["rows"] if "ranks" in r]
    return "\n".join([table.ruled(WHOLE, lines), "", *table.wrapped([note, *said])])


SPREAD = (
    "model         ranks  built   first      run faster   spikes     same  to, ms  exch., us of it"
)


def spread_text(result: dict[str, Any]) -> str:
    rows = result["rows"]
    lines = [
        f"{r['model']:<12}{r['devices']:>7}{r['build_s']:>5.0f} s{r['first_s']:>6.1f} s"
        f"{r['run_s']:>7.2f} s{r['faster']:>6.2f}x{r['spikes']:>9}{r['same']:>9}{r['stop_ms']:>8g}"
        f"  {exchanged(r)}"
        for r in rows
    ]
    note = (
        "Whole models on MPI ranks with a device each. built: by NEURON. first: two steps by "
        "clhines.neuron.run, with all that it reads, builds and compiles. run: from "
        "h.finitialize() on, all that is read and written back included. same: spikes of the "
        "first row, of the same cell at the same time. exch.: of an exchange of events, without "
        "the wait for the device; of it: its message, waiting for slower ranks included. Ranks "
        "share the cores of a CPU; one has all."
    )
    first = rows[0]["devices"]
    said = [f"{r['model']}: `{r['command']}`." for r in rows if r["devices"] == first]
    said += [
        f"{r['model']} on {r['devices']}: {r['faster_built']:.2f} times, built and run together."
        for r in rows
        if r["devices"] != first and "faster_built" in r
    ]
    return "\n".join([table.ruled(SPREAD, lines), "", *table.wrapped([note, *said])])


def exchanged(row: dict[str, Any]) -> str:
    count = row.get("exchanges", 0)
    if not count:
        return f"{'-':>9}{'-':>6}"
    return f"{1e6 * row['exchange_s'] / count:>9.0f} {1e6 * row['message_s'] / count:>5.0f}"


def beside(row: dict[str, Any]) -> str:
    mpi, same = row["ranks"], row["agreement"]

    def of(one: dict[str, Any]) -> str:
        first = one["differ_at_ms"]
        since = f", others from {first:.3f} ms on" if first is not None else ""
        return f"{one['same_step']} of {one['spikes']}{since}"

    here = sum(row[key] for key in ("build_s", "init_s", "first_s", "run_s"))
    there = mpi["build_s"] + mpi["run_s"]
    nudged = same.get("ranks-nudged")
    itself = "" if nudged is None else f" (in NEURON with somata an ulp off at 0 ms: {of(nudged)})"
    return (
        f"{row['model']}, {same['whole']['neuron']} spikes of NEURON with {mpi['ranks']} MPI "
        f"rank{'s' * (mpi['ranks'] > 1)} of {mpi['cores']} cores: in the same step "
        f"{of(same['whole'])}{itself}; from the first cell to the last step {here:.0f} s here, "
        f"NEURON's own building included, and {there:.0f} s in NEURON."
    )


def keep(kept: Path, name: str, way: str, said: dict[str, Any], taken: Taken) -> None:
    v, spikes = taken
    ends = np.cumsum([len(s) for s in spikes])
    np.savez(kept / f"{name}-{way}.npz", v=np.array(v), spikes=np.concatenate([*spikes, []]),
             ends=ends)  # fmt: skip
    (kept / f"{name}-{way}.json").write_text(json.dumps(said), "utf-8")


def kept_way(kept: Path, name: str, way: str, stop: float) -> tuple[dict[str, Any], Taken] | None:
    """Return the row and the records for a way that ran until the same time, or None."""
    path = kept / f"{name}-{way}.json"
    said = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    if said.get("stop_ms") != stop:
        return None
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as read:
        return said, (list(read["v"]), np.split(read["spikes"], read["ends"])[:-1])


HEAD = (
    "model         cells compart.    ms spikes equal       mV reordered   nudged  clhines"
    "  NEURON    Core"
)
SINGLE = "model         cells compart.    ms spikes same step within 1 ms     mV  clhines  NEURON"

RATE = 17e12 / 132 / 1e6  # float64 instructions per us in one multiprocessor of an H200
STEPS = "model         compart. mechanisms   us a step  in NEURON   times  first step  counted"


def step_line_of(row: dict[str, Any]) -> str:
    here, there = row["clhines_us"], row.get("neuron_us")
    neuron = f"{'-':>11}{'-':>8}" if there is None else f"{there:>11.1f}{there / here:>8.1f}"
    counted = f"{row['operations'] / RATE:.1f}" if "operations" in row else "-"
    return (
        f"{row['model']:<14}{row['compartments']:>8}{row['mechanisms']:>11}{here:>12.1f}{neuron}"
        f"{row['first_step_s']:>10.2f} s{counted:>9}"
    )


def line_of(row: dict[str, Any]) -> str:
    ours, core_s = row["clhines"], row.get("core_s")
    return (
        f"{row['model']:<15}{row['cells']:>4}{row['compartments']:>9}{row['stop_ms']:>6g}"
        f"{row['spikes']:>7}{'yes' if ours['equal_spikes'] else 'no':>6}"
        f"{ours['largest_mv']:>9.1e} {_largest(row, 'reordered')}{_largest(row, 'nudged')}"
        f"{row['clhines_s']:>7.1f} s{row['neuron_s']:>6.{1 if row['neuron_s'] < 999 else 0}f} s"
        + (f"{core_s:>6.1f} s" if core_s is not None else f"{'-':>8}")
    )


def single_line_of(row: dict[str, Any]) -> str:
    ours = row["clhines"]
    return (
        f"{row['model']:<15}{row['cells']:>4}{row['compartments']:>9}{row['stop_ms']:>6g}"
        f"{row['spikes']:>7}{ours['same_step']:>10}{ours['within_1_ms']:>12}"
        f"{ours['largest_mv']:>7.2g}{row['clhines_s']:>7.1f} s{row['neuron_s']:>6.1f} s"
    )


def _largest(row: dict[str, Any], way: str) -> str:
    return f"{row[way]['largest_mv']:>9.1e}" if way in row else f"{'-':>9}"


def notes_of(row: dict[str, Any]) -> list[str]:
    names = {"clhines": "here", "reordered": "NEURON reordered", "nudged": "NEURON nudged"}
    said = [f"{CASES[row['model']].constructs}"]
    for key, name in [(k, n) for k, n in names.items() if k in row]:
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
    if row.get("elsewhere"):
        said.append("NEURON ran on another machine, of which the number of processes is")
    said.append(f"{row['load']:.1f} processes on {row['cores']} cores; `{row['command']}`")
    return [f"{row['model']}: {'; '.join(said)}."]


def text(result: dict[str, Any]) -> str:
    if result.get("copies"):
        return copies_text(result)
    if result.get("whole"):
        return whole_text(result)
    if result.get("spread"):
        return spread_text(result)
    rows = result["rows"]
    good = [r for r in rows if "failed" not in r]
    single = result.get("dtype") == "float32"
    lines = [single_line_of(r) if single else line_of(r) for r in good]
    steps = [step_line_of(r) for r in good if "clhines_us" in r]
    for r in rows:
        if "failed" in r:
            lines += table.wrapped([f"{r['model']}: {r['failed']}"])
    notes = [
        "equal: every spike in NEURON's step; mV: the largest difference of a voltage "
        "that is recorded; reordered: NEURON beside NEURON with its nodes in another order "
        "(ParallelContext.optimize_node_order); nudged: NEURON beside NEURON with each voltage "
        "that is recorded an ulp nearer to 0 after each step. equal until: no voltage differs by "
        f"more than {EQUAL_V:g} mV. Core: CoreNEURON on {THREADS} threads, where a model has as "
        "many cells; - where it was not measured.",
        *(note for r in good for note in notes_of(r)),
        "Times are of one run each, on a machine that was shared as the numbers of processes say.",
    ]
    if steps:
        notes.append(
            f"us a step: the fastest of {ROUNDS} runs that follow one of two steps, the first step "
            f"here, by its steps; in NEURON the fastest of {ROUNDS} runs, with --short of one. "
            "times: NEURON's by that here. mechanisms: of sections and points, without ions. "
            "counted: us in which one multiprocessor of an H200 could take the float64 "
            "instructions of a step, about, by its 17 TFLOPS of multiply-adds by 132."
        )
    if any(r["model"] == "125857" for r in rows):
        notes.append(DRAWN)
    if single:
        notes = [
            "In single precision; NEURON in double. same step, within 1 ms: of NEURON's spikes, "
            "the n-th of each cell beside the n-th here; mV: the largest difference of a voltage "
            "at any time, which is a whole spike's height where one is in another step.",
            *notes[1 + len(good) :],
        ]
    said = [table.ruled(SINGLE if single else HEAD, lines), ""]
    said += [table.ruled(STEPS, steps), ""] if steps else []
    return "\n".join([*said, *table.wrapped(notes)])


def kept_rows(path: Path) -> dict[str, dict[str, Any]]:
    if not path.is_file():
        return {}
    rows = json.loads(path.read_text("utf-8"))["rows"]
    return {r["model"]: r for r in rows if "failed" in r or "clhines" in r}


def measure_rows(
    way: str, queue: Any, names: list[str], folder: Path, args: Any, arguments: Sequence[str]
) -> int:
    """Write ``models-WAY-DEVICE.json`` and ``.txt`` for copies or whole models; others stay."""
    path = Path(args.out) / f"models-{way}-{record.slug(queue.device)}.json"
    old = json.loads(path.read_text("utf-8"))["rows"] if path.is_file() else []
    rows = {_which(r): r for r in old}
    words = {"spread": " ".join(map(str, ["--spread", *(args.spread or [])])), "whole": "--whole"}
    for name in names:
        for row in rows_by(way, name, folder, args):
            which = words.get(way) or f"--copies {row['copies']}"
            row["command"] = f"{command_of(name, args)} {which}"
            rows[_which(row)] = row
    ordered = [r for n in CASES for (m, *_), r in sorted(rows.items()) if m == n]
    result = {way: True, "rows": ordered}
    record.write(f"models-{way}", queue, arguments, result, text, args.out)
    return 0


def _which(row: dict[str, Any]) -> tuple[str, int, str]:
    return row["model"], row.get("copies", row.get("devices", 1)), row.get("dtype", "")


def told(name: str, args: Any, found: tuple[dict[str, Any], Sequence[np.ndarray]] | None) -> int:
    """Print a row and keep it with its spikes; on ranks other than 0, `found` is None."""
    if found is not None:
        row, (times, gids) = json.dumps(found[0]), found[1]
        print(ROW + row, flush=True)
        np.savez(Path(args.keep, f"{name}-{args.way}.npz"), said=row, times=times, gids=gids)
    return 0


def command_of(name: str, args: Any) -> str:
    """Return a row's command, without the options that only choose folders."""
    words = ["python -m bench models", name, *(["--stop", f"{args.stop:g}"] if args.stop else [])]
    words += ["--device", args.device] if args.device else []
    words += ["--dtype", args.dtype] if args.dtype != "float64" else []
    words += ["--short"] if args.short else []
    words += ["--processes", str(args.processes)] if args.processes > 1 else []
    words += ["--ranks", str(args.ranks)] if args.ranks else []
    return " ".join([*words, *(["--core"] if args.core else [])])


def main(arguments: Sequence[str]) -> int:
    """Measure; write ``models-DEVICE.json`` and ``.txt``; return 1 if spikes differ."""
    parser = record.parser("models", __doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}")
    parser.add_argument("--stop", type=float, metavar="MS", help="default: of each model")
    parser.add_argument("--core", action="store_true", help="CoreNEURON, too")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="at once")
    parser.add_argument("--short", action="store_true", help="NEURON runs once, not three times")
    parser.add_argument("--keep", metavar="FOLDER", help="for what each way records")
    parser.add_argument("--copies", type=int, nargs="+", metavar="N", help="only their first step")
    parser.add_argument("--whole", action="store_true", help="only models that are cut, in full")
    parser.add_argument(
        "--ranks", type=int, metavar="N", help="with --whole: spikes beside NEURON on N MPI ranks"
    )
    parser.add_argument(
        "--spread", type=int, nargs="+", metavar="N", help="whole ones on N MPI ranks"
    )
    dtypes = ("float64", "float32")
    parser.add_argument("--dtype", choices=dtypes, default="float64", help="default: float64")
    ways = (*WAYS, "core", "copies", "whole", "spread", *RANKED)
    parser.add_argument("--way", choices=ways, help="run the one that lies here so")
    args = parser.parse_args(arguments)
    if args.way:
        name = args.names[0]
        if args.way == "copies":
            for line in first_steps(CASES[name], args.copies, args.dtype, args.device):
                print(ROW + json.dumps(line), flush=True)
            return 0
        if args.way == "whole":
            return told(name, args, whole_run(CASES[name], args.stop, args.device))
        if args.way == "spread":
            told(name, args, spread(CASES[name], args.stop, args.device))
            leave_ranks()
        if args.way in RANKED:
            told(name, args, ranked(CASES[name], args.stop, args.way != RANKED[0]))
            leave_ranks()
        if args.way == "core":
            said, records = core(CASES[name], args.stop), ([], [])
        else:
            rounds = 1 if args.short else ROUNDS
            said, records = one_way(
                CASES[name], args.way, args.stop, args.device, args.dtype, rounds
            )
        keep(Path(args.keep), name, args.way, said, records)
        return 0
    folder = Path(os.environ.get("CLHINES_MODELS", ""))
    there = {n for n in CASES if "CLHINES_MODELS" in os.environ and (folder / n).is_dir()}
    names = [n for n in args.names or CASES if n in there or (n in CASES and not CASES[n].here)]
    if not names:
        print("no models; expected CLHINES_MODELS=FOLDER with " + ", ".join(CASES), file=sys.stderr)
        return 2
    queue = record.queue(args.device, ("float64",))
    if args.whole or args.spread:
        names = [name for name in names if CASES[name].whole]
    if args.copies or args.whole or args.spread:
        way = "whole" if args.whole else "spread" if args.spread else "copies"
        return measure_rows(way, queue, names, folder, args, arguments)
    single = args.dtype == "float32"
    measure = "models-float32" if single else "models"
    path = Path(args.out) / f"{measure}-{record.slug(queue.device)}.json"
    for name in names:
        row = {"model": name, **row_of(name, folder, args)}
        if args.core and "failed" not in row:
            row |= row_of(name, folder, args, for_core=True)
        row["command"] = command_of(name, args)
        rows = kept_rows(path) | {name: row}
        result = {"dtype": args.dtype, "rows": [rows[n] for n in CASES if n in rows]}
        record.write(measure, queue, arguments, result, text, args.out)
    return 0 if single or all(rows[n].get("clhines", {}).get("equal_spikes") for n in names) else 1
