"""Give seeded hostile and lawful input to each reader, with oracles from outside.

    python -m bench fuzz --minutes 10 --seed 1 [--only mechanism,rule,api]
    python -m bench fuzz --case rule:123456

Each target runs its cases in its own process, under a watchdog of CPU time and memory. Case k of a
target comes from a generator seeded by (seed, k) alone. The first failure of each kind is printed
with its seed and its case; the exit code is then 1.
"""

import argparse
import os
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path

import numpy as np

from bench.measures.fuzz.worker import Worker

PACKAGE = "bench.measures.fuzz."
TARGETS = ("mechanism", "rule", "api")
SHOWN = 1500  # letters in a reproduction


def generator(seed):
    return np.random.default_rng([2018, seed])


def seed_of(run, k):
    return run * 10_000_000 + k


def fuzz_target(name, options, seconds, folder):
    """Run a target's cases, print the first of each fault, and count outcomes and faults."""
    module, outcomes, faults = import_module(PACKAGE + name), Counter(), Counter()
    worker = Worker(PACKAGE + name, folder)
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end and outcomes.total() != options.cases:
            seed = seed_of(options.seed, outcomes.total())
            case = module.generate(generator(seed))
            verdict = worker.run(case)
            outcomes[verdict.outcome] += 1
            if not verdict.failed:
                continue
            fault = f"{name} {verdict.outcome}: {verdict.signature}"
            faults[fault] += 1
            if faults[fault] == 1:
                print(f"\n{name}:{seed}  {fault}\n  {verdict.detail}\n  {shown(case)}", flush=True)
    finally:
        worker.close()
    return outcomes, faults


def shown(case):
    text = repr(case)
    if len(text) > SHOWN:
        text = f"{text[: SHOWN // 2]} ... {len(text) - SHOWN} letters ... {text[-SHOWN // 2 :]}"
    return text


def table(counts):
    names = "accepted", "refused", "traceback", "crash", "hang", "wrong", "memory"
    rows = [("target", "cases", *names)]
    rows += [(name, c.total(), *(c[n] for n in names)) for name, c in counts.items()]
    return "\n".join("".join(f"{value:>11}" for value in row) for row in rows)


def one_case(text, folder):
    name, _, seed = text.partition(":")
    if name not in TARGETS or not seed.isdigit():
        raise SystemExit(f"--case {text}: expected TARGET:SEED, the target one of {TARGETS}")
    module = import_module(PACKAGE + name)
    case = module.generate(generator(int(seed)))
    print(shown(case))
    worker = Worker(PACKAGE + name, folder)
    try:
        verdict = worker.run(case)
    finally:
        worker.close()
    print(f"{verdict.outcome} {verdict.signature} {verdict.detail}")
    print(f"{verdict.seconds:.2f} s of CPU, {verdict.peak >> 20} MiB")
    return int(verdict.failed)


def main(arguments):
    parser = argparse.ArgumentParser("python -m bench fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="in all (default: 10)")
    parser.add_argument("--seed", type=int, default=1, help="of the run (default: 1)")
    parser.add_argument("--only", default=",".join(TARGETS), help="targets, with commas between")
    parser.add_argument("--cases", type=int, help="of each target at most")
    parser.add_argument("--case", metavar="TARGET:SEED", help="repeat one case")
    options = parser.parse_args(arguments)
    os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker")  # warnings of ended workers
    names = options.only.split(",")
    if not set(names) <= set(TARGETS):
        parser.error(f"--only {options.only}: expected some of {','.join(TARGETS)}")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as room:
        if options.case is not None:
            return one_case(options.case, Path(room))
        counts, faults = {}, Counter()
        for name in names:
            folder = Path(room) / name
            folder.mkdir()
            seconds = 60 * options.minutes / len(names)
            counts[name], more = fuzz_target(name, options, seconds, folder)
            faults += more
    print(f"\nseed {options.seed}, {options.minutes:g} minutes\n{table(counts)}")
    for fault, count in faults.items():
        print(f"{count:>5} x {fault}"[:100])
    return int(bool(faults))
