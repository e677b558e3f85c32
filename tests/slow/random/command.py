"""Compare random models in NEURON's memory, run by NEURON and here, spike for spike.

    python -m bench random [--first N] [--seeds N] [--duration MS] [--processes N]
                           [--dtype float64] [--engine auto] [--device SPEC] [--library FILE]

Each seed is a process. It builds a model from mechanisms of NEURON and of tests/mod, runs it by
NEURON and by `clhines.neuron.run`, often in several pieces, and compares spikes, recorded vectors,
and all variables at the end. ``--library`` names a compiled library of these mechanisms. The exit
code is 1 if a seed differs and nudged NEURON does not.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tqdm import tqdm

from bench import nrn, record, table
from bench.measures.random.worker import MARK
from clhines.solver.device import devices

ROOT = Path(__file__).resolve().parents[3]
SHOWN = 40  # seeds that are told one by one


def library(folder):
    mod = ROOT / "tests" / "mod"
    for path in (*mod.glob("*.mod"), *mod.glob("nmodl/*.mod"), *mod.glob("nmodl/*.inc")):
        shutil.copy(path, folder)
    return nrn.compiled(folder)


def row_of(seed, given, built, spec):
    """Compare one seed in a process of its own."""
    words = [seed, given.duration, given.engine, given.dtype, spec, built]
    path = os.pathsep.join([str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    threads = {"POCL_MAX_PTHREAD_COUNT": "1", "OMP_NUM_THREADS": "1"}
    if given.processes == 1:
        threads = {}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "bench", "measures.random.worker", *map(str, words)],
            env={**os.environ, "PYTHONPATH": path, **threads},
            capture_output=True, text=True, timeout=given.timeout, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"seed": seed, "failed": f"more than {given.timeout:g} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not lines:
        last = (done.stderr.strip().splitlines() or ["?"])[-1]
        return {"seed": seed, "failed": f"exit code {done.returncode}: {last[:300]}"}
    row = json.loads(lines[0].removeprefix(MARK))
    return row


def verdict(row):
    if "failed" in row:
        return "failed"
    if row["refused"]:
        return "rejected as expected" if row["named"] else "failed"
    if "rejected" in row:
        return "rejected" if row["finite"] else "not finite in NEURON either"
    if row["differs"] is None:
        return "equal"
    nudged = row.get("nudged")
    return "equal up to chaos" if nudged is not None and nudged <= row["differs"] else "differs"


def said(row):
    known = verdict(row)
    if "differs" in row:
        nudged = row.get("nudged")
        where = f"{nudged:.6g} ms" if nudged is not None else "no difference"
        return (
            f"seed {row['seed']}: {known}: {row['spikes']} spikes in NEURON, {row['ours']} here, "
            f"the first other one at {row['differs']:.6g} ms; NEURON nudged: {where}"
        )
    why = row.get("failed") or row.get("rejected") or row.get("said", "")
    return f"seed {row['seed']}: {known}: {row.get('refused') or ''} {why}".replace("  ", " ")


def text(result):
    rows, counts = result["rows"], Counter(map(verdict, result["rows"]))
    equal = [r for r in rows if verdict(r) == "equal"]
    lines = [f"{counts[word]:>6}  {word}" for word in sorted(counts)]
    head = f"{len(rows)} seeds of {result['duration_ms']:g} ms, {result['dtype']}"
    parts = [table.ruled(head, lines), ""]
    if equal:
        most = max(equal, key=lambda r: r["relative"])
        texts = [
            f"Of equal seeds: {sum(r['spikes'] for r in equal)} spikes, "
            f"{sum(r['pieces'] > 1 for r in equal)} in pieces; the largest difference of a voltage "
            f"is {max(r['v'] for r in equal):.1e} mV, of anything that is recorded, next to its "
            f"largest value, {most['relative']:.1e} (seed {most['seed']}, {most['where']})."
        ]
        parts += table.wrapped(texts)
    others = [r for r in rows if verdict(r) not in ("equal", "rejected as expected")]
    parts += ["", *table.wrapped(map(said, others[:SHOWN]))] if others else []
    if len(others) > SHOWN:
        parts.append(f"and {len(others) - SHOWN} more, in the JSON file")
    return "\n".join([*parts, "", *table.wrapped([f"`{result['record']['command']}`"])])


def parsed(arguments):
    parser = record.parser("random", __doc__)
    parser.add_argument("--first", type=int, default=1, help="seed")
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--duration", type=float, default=500.0, metavar="MS")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float64")
    parser.add_argument("--engine", default="auto", help='or "switch": a coin decides each call')
    parser.add_argument("--library", metavar="FILE", help="compiled mechanisms of tests/mod")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="S", help="of a seed")
    parser.add_argument("--stop-after", type=float, default=1e9, metavar="S", help="of all seeds")
    return parser.parse_args(arguments)


def main(arguments):
    args = parsed(arguments)
    queue = record.queue(args.device, [args.dtype])
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="clhines-random-") as folder:
        built = str(Path(args.library).resolve() if args.library else library(Path(folder)))
        seeds = range(args.first, args.first + args.seeds)

        def work(seed):
            late = time.monotonic() - begin > args.stop_after
            return None if late else row_of(seed, args, built, args.device or "")

        with ThreadPoolExecutor(args.processes) as pool:
            rows = [*tqdm(pool.map(work, seeds), total=len(seeds), leave=False, disable=None)]
    rows = [row for row in rows if row is not None]
    result = {
        "record": record.record(queue, "random", arguments),
        "duration_ms": args.duration,
        "dtype": args.dtype,
        "processes": args.processes,
        "seconds": time.monotonic() - begin,
        "rows": rows,
    }
    name = f"random-{args.dtype}-{record.slug(queue.device)}"
    head = "\n".join(
        table.wrapped([f"{devices.label(queue.device)}, commit {result['record']['commit']}"])
    )
    record.files(Path(args.out) / f"{name}.json", result, f"{head}\n\n{text(result)}\n")
    return int(any(verdict(row) in ("failed", "differs") for row in rows))
