"""Time the CUBA network of 4,000 point neurons beside Brian 2's C++ standalone.

    python -m bench points [--device SPEC] [--brian PYTHON] [--neurons 4000] [--seconds 1]
                           [--threads 0 2] [--rounds 9] [--out FOLDER]

Vogels and Abbott 2005, benchmark 2 of Brette et al. 2007: leaky neurons, synapses that are decaying
currents, 2 % of all pairs connected (80 synapses per neuron), dt = 0.1 ms. Brian runs with its own
interpreter, and a process for each number of threads (0: without OpenMP). Its program reports the
time of the loop over steps: processor time without OpenMP, else wall time. Ours are both times, of
`run` in one launch. All take turns; the table has the least times, and medians of the ratios of
each round. Networks and initial values have equal distributions but differ, and events act a step
later here, so rates are compared, not spikes. Aim: 2 x Brian's best.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import clhines
from bench import record, table
from clhines import Pairs

DT, AIM = 0.1, 2.0  # ms; times as fast as Brian
NEAR = 0.15  # relative: rates in two such networks are nearer
BRIAN = Path(__file__).parents[1] / "peers" / "points_brian.py"
LIF = """
    point lif
    current i = 0.01*(v + 49) [nA]
    spike: v > -50 mV
    reset: v = -60 mV
    refractory: 5 ms
"""
JUMP = """
    point {name}
    parameter tau = {tau} ms
    state a = 0 [nA]
    da/dt = -a/tau
    current i = -a [nA]
    on event: a += weight
"""
INPUTS = (("excite", 5, 0.0162), ("inhibit", 10, -0.09))  # ms, nA


def network(count: int) -> clhines.Network:
    parents = np.full(count, -1), np.arange(count + 1)
    net = clhines.Network.from_arrays(*parents, [2e4] * count, [0.0] * count, [0.2] * count)
    net.add(LIF, at=net.soma)
    border, pairs = count * 4 // 5, Pairs.bernoulli(0.02 * 4000 / count, seed=record.SEED)
    for (name, tau, weight), first, end in zip(INPUTS, (0, border), (border, count)):
        synapses = net.add(JUMP.format(name=name, tau=tau), at=net.soma)
        net.connect(np.arange(first, end), synapses, pairs, weight=weight, delay=DT)
    return net


class Ours:
    def __init__(self, queue: Any, dtype: str, args: argparse.Namespace) -> None:
        begin = time.perf_counter()
        v_init = np.random.default_rng(record.SEED).uniform(-60.0, -50.0, args.neurons)
        options = {"dt": DT, "v_init": v_init, "dtype": dtype, "queue": queue}
        options["chunk"] = round(args.seconds * 1e3 / DT)  # one launch
        self.sim = clhines.Simulation(network(args.neurons), engine=args.engine, **options)
        spikes = len(self.sim.run(args.seconds * 1e3).spike_time)
        self.found = {
            "name": f"clhines {dtype}", "threads": queue.device.max_compute_units,
            "engine": self.sim.engine, "hz": spikes / args.neurons / args.seconds,
            "build_s": time.perf_counter() - begin, "seconds": [], "processor": [],
            "cost": [],
        }  # fmt: skip
        self._duration = args.seconds * 1e3

    def end(self) -> None:
        """Do nothing: there is no process."""

    def turn(self) -> None:
        begin, used = time.perf_counter(), time.process_time()
        result = self.sim.run(self._duration)
        self.found["processor"].append(time.process_time() - used)
        self.found["seconds"].append(time.perf_counter() - begin)
        self.found["cost"].append(result.cost)


class Brian:
    """The network in Brian, with a number of threads, in a separate process."""

    def __init__(self, args: argparse.Namespace, threads: int) -> None:
        self.found: dict[str, Any] = {"name": "Brian 2", "threads": threads or 1, "seconds": []}
        self.found |= {"engine": "OpenMP" if threads else "no OpenMP"}
        numbers = args.neurons, args.seconds, threads, record.SEED
        self._child = subprocess.Popen(
            [args.brian, str(BRIAN), *map(str, numbers)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._read()

    def _read(self) -> None:
        """Take the next JSON line; other lines are from compilers."""
        assert self._child.stdout is not None
        for line in self._child.stdout:
            if line.startswith("{"):
                message = json.loads(line)
                self.found["seconds"] += [message.pop("seconds")] if "seconds" in message else []
                self.found |= message
                return
        self.found["reason"] = f"ended with code {self._child.wait()}"

    def turn(self) -> None:
        if "reason" not in self.found:
            assert self._child.stdin is not None
            print("turn", file=self._child.stdin, flush=True)
            self._read()

    def end(self) -> None:
        self._child.communicate()


def text(result: dict[str, Any]) -> str:
    head = (
        f"{'simulator':<16} {'threads':>7} {'engine':<10} {'Hz':>5} {'build s':>8} {'proc. us':>8} "
        f"{'wall us':>8} {'x Brian':>7}"
    )
    lines = [
        f"{r['name']:<16} {r['threads']:>7} {r['engine']:<10} {r['hz']:>5.2f} {r['build_s']:>8.2f} "
        f"{in_us(r['processor_step'])} {in_us(r['step'])} "
        f"{format(r['x_brian'], '.2f') if 'x_brian' in r else '-':>7}"
        for r in result["rows"]
    ]
    missing = table.missing((r["name"], r["reason"], "CUBA") for r in result["missing"])
    about = f"{result['neurons']:,} neurons, {result['duration']:g} s, dt = {DT:g} ms"
    after = [
        "proc. us, wall us: least times of a step; of all threads, and by the clock.",
        "Brian without OpenMP reports processor time alone. x Brian: how many times as fast as the",
        "best of Brian's, by processor time where Brian has it; the median of the rounds.",
    ]
    return "\n".join([about, "", table.ruled(head, lines), "", *after, *missing])


def in_us(seconds: float | None) -> str:
    return f"{'-' if seconds is None else format(seconds * 1e6, '.2f'):>8}"


def compare(rows: list[dict[str, Any]], steps: float) -> None:
    """Add to rows the least times per step, and how they compare with Brian's best by round."""
    for r in rows:
        by_processor = r["engine"] == "no OpenMP"
        processor = r["seconds"] if by_processor else r.get("processor", [])
        r["processor_step"] = min(processor) / steps if processor else None
        r["step"] = None if by_processor else min(r["seconds"]) / steps
    brian = [r for r in rows if r["name"] == "Brian 2"]
    by_processor = any(r["processor_step"] for r in brian)
    brian = [r for r in brian if r["processor_step"] or not by_processor]
    for r in rows if brian else []:
        times, best = (
            x.get("processor", x["seconds"]) if by_processor else x["seconds"]
            for x in (r, min(brian, key=lambda r: min(r["seconds"])))
        )
        if r["processor_step"] or not by_processor:
            r["x_brian"] = float(np.median(np.divide(best, times)))


def main(arguments: Sequence[str]) -> int:
    parser = record.parser("points", __doc__)
    add = parser.add_argument
    add("--brian", default=sys.executable, metavar="PYTHON", help="an interpreter that has Brian")
    add("--neurons", type=int, default=4000)
    add("--seconds", type=float, default=1.0, help="that are simulated in a round")
    add("--threads", type=int, nargs="+", default=[0, 2], help="of Brian")
    add("--rounds", type=int, default=9)
    add("--engine", default="auto")
    add("--dtype", nargs="+", default=["float64", "float32"])
    args = parser.parse_args(arguments)
    queue = record.queue(args.device, args.dtype)
    runs: list[Ours | Brian] = [Ours(queue, dtype, args) for dtype in args.dtype]
    runs += [Brian(args, threads) for threads in args.threads]
    for _ in range(args.rounds):
        for one in runs:
            one.turn()
    for one in runs:
        one.end()
    rows = [one.found for one in runs if "reason" not in one.found]
    compare(rows, args.seconds * 1e3 / DT)
    result = {
        "neurons": args.neurons, "duration": args.seconds, "aim": AIM, "rows": rows,
        "missing": [one.found for one in runs if "reason" in one.found],
    }  # fmt: skip
    record.write("points", queue, arguments, result, text, args.out)
    rates = [r["hz"] for r in rows]
    return int(max(rates) > (1 + NEAR) * min(rates))
