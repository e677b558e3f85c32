"""Time turns of a closed loop: one step, one recorded voltage, and a current set from it.

    python -m bench turns [--device SPEC] [--rounds 20] [--turns 200] [--out FOLDER]

A small cell and a pyramidal one with `hh` everywhere; events in whole steps (``grid``), and at
exact times as models of NEURON and of .mod files have them (``exact``). Cases take turns in rounds;
times are the least and the median of the rounds' wall time per turn, in microseconds. The first
round, in which the simulation may be planned again, is not timed; its voltages are compared with
those of ``reference``. The aim is 120 us for the small cell on a CPU.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

import clhines
from bench import neurons, record, table

DT, TARGET, GAIN = 0.025, -60.0, 0.02  # ms, mV, nA/mV
AIM, WORST = 120e-6, 1e-6  # s per turn; mV
CHECKED = 20  # turns of the first round
CELLS = {"small": neurons.small, "pyramidal": neurons.pyramidal}
LEAK = """
    NEURON { SUFFIX slow NONSPECIFIC_CURRENT i RANGE g }
    PARAMETER { g = 1e-5 (S/cm2) }
    ASSIGNED { v (mV) i (mA/cm2) }
    BREAKPOINT { i = g*(v + 60) }
"""


class Loop:
    """A cell whose clamp pulls its soma to a voltage."""

    def __init__(self, cell: str, events: str, **given: Any) -> None:
        net = clhines.Network(clhines.discretise(CELLS[cell]()))
        net.insert("hh", at="all")
        if events == "exact":
            net.insert(clhines.Mechanism.from_nmodl(LEAK), at="all")
        self._clamp = net.add("iclamp", at=net.soma, dur=1e9)
        self.sim = clhines.Simulation(net, DT, **given)
        self._record, self._v = self.sim.record("v", net.soma), -65.0

    def turns(self, count: int) -> np.ndarray:
        """Take turns, and return the voltage after each."""
        found = np.empty(count)
        for k in range(count):
            self.sim.set(self._clamp, amp=GAIN * (TARGET - self._v))
            self._v = found[k] = self.sim.run(DT)[self._record][-1, 0]
        return found

    def seconds(self, count: int) -> float:
        """Wall time per turn, s."""
        begin = time.perf_counter()
        self.turns(count)
        return (time.perf_counter() - begin) / count


def text(result: dict[str, Any]) -> str:
    """Return the rows as text."""
    head = f"{'cell':<10} {'events':<6} {'nodes':>5} {'engine':<10} {'least':>7} {'median':>7}"
    lines = [
        f"{r['cell']:<10} {r['events']:<6} {r['nodes']:>5} {r['engine']:<10} "
        f"{r['seconds'] * 1e6:>7.0f} {r['median_seconds'] * 1e6:>7.0f}"
        for r in result["rows"]
    ]
    return table.ruled(head, lines, [r["cell"] for r in result["rows"]])


def main(arguments: Sequence[str]) -> None:
    """Run the cases and write ``turns-<device>.json`` and ``.txt``."""
    parser = record.parser("turns", __doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--turns", type=int, default=200)
    args = parser.parse_args(arguments)
    queue = record.queue(args.device, ["float64"], timestamps=False)  # as a simulation makes it
    cases = [(cell, events) for cell in CELLS for events in ("grid", "exact")]
    loops = [Loop(*case, queue=queue) for case in cases]
    for case, loop in zip(cases, loops):
        worst = np.abs(loop.turns(CHECKED) - Loop(*case, engine="reference").turns(CHECKED)).max()
        if not worst < WORST:
            sys.exit(f"{case}: voltages differ by {worst:.3g} mV: wrong, so not timed")
    rounds = [[loop.seconds(args.turns) for loop in loops] for _ in tqdm(range(args.rounds))]
    rows = [
        {
            "cell": cell,
            "events": events,
            "nodes": loop.sim.network.forest.num_nodes,
            "engine": loop.sim.engine,
            "seconds": min(some),
            "median_seconds": float(np.median(some)),
        }
        for (cell, events), loop, some in zip(cases, loops, zip(*rounds))
    ]
    result = {"record": record.record(queue, "turns", arguments), "aim_seconds": AIM, "rows": rows}
    record.write("turns", queue, result, text(result), args.out)
