"""Give seeded hostile and lawful input to each reader, with oracles from outside.

    python -m bench fuzz --minutes 10 --seed 1 [--only swc,mechanism,rule,cli,state,api]
    python -m bench fuzz --case swc:123456

Each target runs its cases in its own process, under a watchdog of CPU time and memory. Case k of a
target comes from a generator seeded by (seed, k) alone. A failure is printed with its seed and the
smallest input that shows the same fault; the exit code is then 1.
"""

import argparse
import os
import tempfile
import time
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import numpy as np

from bench.measures.fuzz.common import MIB, Verdict, shrink
from bench.measures.fuzz.worker import Worker

PACKAGE = "bench.measures.fuzz."
TARGETS = ("swc", "mechanism", "rule", "cli", "state", "api")
SHRINK_TRIES, SHRINK_TRIES_SLOW = 80, 6  # slow: each try may take the watchdog's time
SHOWN = 1500  # letters in a reproduction


@dataclass
class Fault:
    """One kind of failure: its count, the first seed, and the smallest case."""

    verdict: Verdict
    seed: int
    count: int = 1
    smallest: str = ""


@dataclass
class Tally:
    name: str
    cases: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    faults: dict[str, Fault] = field(default_factory=dict)
    slowest: float = 0.0
    peak: int = 0
    kept: int = 0

    def __getitem__(self, outcome):
        return self.outcomes.get(outcome, 0)

    def add(self, verdict, seed):
        """Count a verdict; return whether it is the first of its fault."""
        self.cases += 1
        self.outcomes[verdict.outcome] = self[verdict.outcome] + 1
        self.slowest = max(self.slowest, verdict.seconds)
        self.peak = max(self.peak, verdict.peak)
        if not verdict.failed:
            return False
        key = f"{verdict.outcome}: {verdict.signature}"
        if key in self.faults:
            self.faults[key].count += 1
            return False
        self.faults[key] = Fault(verdict, seed)
        return True


def generator(seed):
    return np.random.default_rng([2018, seed])


def seed_of(run, k):
    return run * 10_000_000 + k


def fuzz_target(name, options, seconds, folder):
    module, tally = import_module(PACKAGE + name), Tally(name)
    worker = Worker(PACKAGE + name, folder)
    end = time.monotonic() + seconds
    try:
        k = 0
        while time.monotonic() < end and (options.cases is None or k < options.cases):
            seed = seed_of(options.seed, k)
            case = module.generate(generator(seed))
            verdict = worker.run(case)
            if tally.add(verdict, seed):
                fault = list(tally.faults.values())[-1]
                left = 0 if options.no_shrink else max(end - time.monotonic(), 0)
                fault.smallest = module.show(_smallest(module, worker, case, verdict, left))
                _print_fault(name, fault)
            k += 1
    finally:
        worker.close()
        tally.kept = worker.kept
    return tally


def _smallest(module, worker, case, verdict, seconds):
    """Cut a case while it shows the same fault, for at most a tenth of the time."""
    slow = verdict.outcome in ("hang", "memory", "crash")
    if verdict.signature == "memory kept":
        return case  # no single case has the fault
    end = time.monotonic() + max(5.0, seconds / 10)

    def fails(candidate):
        if time.monotonic() > end:
            return False
        verdict_now = worker.run(candidate)
        return (verdict_now.outcome, verdict_now.signature) == (verdict.outcome, verdict.signature)

    return shrink(case, module.smaller, fails, SHRINK_TRIES_SLOW if slow else SHRINK_TRIES)


def _print_fault(target, fault):
    verdict = fault.verdict
    print(f"\n{target}:{fault.seed}  {verdict.outcome}: {verdict.signature}")
    if verdict.detail:
        print(f"  {verdict.detail}")
    text = fault.smallest
    if len(text) > SHOWN:
        text = f"{text[: SHOWN // 2]}\n... {len(text) - SHOWN} letters ...\n{text[-SHOWN // 2 :]}"
    print("  | " + text.replace("\n", "\n  | "), flush=True)


def table(tallies):
    head = ("target", "cases", "accepted", "refused", "tracebacks", "crashes", "hangs", "wrong")
    rows = [(*head, "memory", "slowest", "peak", "kept")]
    for t in tallies:
        names = "accepted", "refused", "traceback", "crash", "hang", "wrong", "memory"
        counts = [str(t[name]) for name in names]
        memory = f"{t.peak / MIB:.0f} MiB", f"{t.kept / MIB:.0f} MiB"
        rows.append((t.name, str(t.cases), *counts, f"{t.slowest:.1f} s", *memory))
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join("  ".join(c.rjust(w) for c, w in zip(row, widths)) for row in rows)


def one_case(text, folder):
    name, _, seed = text.partition(":")
    if name not in TARGETS or not seed.isdigit():
        raise SystemExit(f"--case {text}: expected TARGET:SEED, the target one of {TARGETS}")
    module = import_module(PACKAGE + name)
    case = module.generate(generator(int(seed)))
    print(module.show(case))
    worker = Worker(PACKAGE + name, folder)
    try:
        verdict = worker.run(case)
    finally:
        worker.close()
    print(f"{verdict.outcome} {verdict.signature} {verdict.detail}")
    print(f"{verdict.seconds:.2f} s of CPU, {verdict.peak / MIB:.0f} MiB")
    return int(verdict.failed)


def main(arguments):
    parser = argparse.ArgumentParser("python -m bench fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="in all (default: 10)")
    parser.add_argument("--seed", type=int, default=1, help="of the run (default: 1)")
    parser.add_argument("--only", default=",".join(TARGETS), help="targets, with commas between")
    parser.add_argument("--cases", type=int, help="of each target at most")
    parser.add_argument("--case", metavar="TARGET:SEED", help="repeat one case")
    parser.add_argument("--no-shrink", action="store_true", help="print failures as they are")
    options = parser.parse_args(arguments)
    os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker")  # warnings of ended workers
    names = options.only.split(",")
    if not set(names) <= set(TARGETS):
        parser.error(f"--only {options.only}: expected some of {','.join(TARGETS)}")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as room:
        if options.case is not None:
            return one_case(options.case, Path(room))
        tallies = []
        for name in names:
            folder = Path(room) / name
            folder.mkdir()
            tallies.append(fuzz_target(name, options, 60 * options.minutes / len(names), folder))
    print(f"\nseed {options.seed}, {options.minutes:g} minutes")
    print(table(tallies))
    faults = [(t.name, f) for t in tallies for f in t.faults.values()]
    for name, fault in faults:
        what = f"{fault.verdict.outcome}: {fault.verdict.signature}"
        print(f"{fault.count:>5} x {name}:{fault.seed}  {what}"[:100])
    return int(bool(faults))
