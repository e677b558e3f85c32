"""Time turns of a closed loop, and starts again with another parameter.

    python -m bench turns [--device SPEC] [--rounds 20] [--turns 200] [--out FOLDER]

A turn is one step, one recorded voltage and a current set from it, for a small cell and for a
pyramidal cell with `hh` everywhere. Events come in whole steps (``grid``), or at exact times
(``exact``), as for NEURON models and .mod files. Two more cases are a ring of eight copies of the
first sample cell, without and with an idle .mod mechanism at one soma (``reset``, ``reset+mod``):
`set` of one parameter, `reset` and one step; their ratio should be at most 1.5.

Cases take turns in rounds; times are the least and the median of the rounds' wall time per turn, in
microseconds. The first round may plan the simulation again and is not timed; its voltages are
compared with ``reference``. The aim is 120 us for the small cell on a CPU.
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
CHECKED = 20  # turns in the first round
RING = 8  # cells
CELLS = {"small": neurons.small, "pyramidal": neurons.pyramidal}
LEAK = """
    NEURON { SUFFIX slow NONSPECIFIC_CURRENT i RANGE g }
    PARAMETER { g = 1e-5 (S/cm2) }
    ASSIGNED { v (mV) i (mA/cm2) }
    BREAKPOINT { i = g*(v + 60) }
"""
IDLE = """
    NEURON { SUFFIX idle NONSPECIFIC_CURRENT i RANGE g }
    PARAMETER { g = 1e-9 (S/cm2) }
    ASSIGNED { v (mV) i (mA/cm2) }
    BREAKPOINT { i = g*(v + 65) }
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
        voltages = np.empty(count)
        for k in range(count):
            self.sim.set(self._clamp, amp=GAIN * (TARGET - self._v))
            self._v = voltages[k] = self.sim.run(DT)[self._record][-1, 0]
        return voltages

    def seconds(self, count: int) -> float:
        begin = time.perf_counter()
        self.turns(count)
        return (time.perf_counter() - begin) / count


class Ring:
    """Eight cells in a ring that start again with another `gnabar` in each turn."""

    def __init__(self, cell: str, events: str, **given: Any) -> None:
        net = clhines.Network(clhines.discretise(clhines.sample_cells()[0]), num_cells=RING)
        self._hh = net.insert("hh", at="all")
        synapses = net.add("expsyn", at=net.soma)
        cells = np.arange(RING)
        net.connect(cells, synapses, (cells + 1) % RING, 0.05, 2.0)
        if events == "reset+mod":
            net.insert(clhines.Mechanism.from_nmodl(IDLE), at=net.soma[:1])
        self.sim = clhines.Simulation(net, DT, **given)
        self._soma = net.soma[0]

    def turns(self, count: int, look: bool = True) -> np.ndarray:
        voltages = np.zeros(count)
        for k in range(count):
            self.sim.set(self._hh, gnabar=0.1 + 0.0001 * k)
            self.sim.reset()
            self.sim.run(DT)
            if look:
                voltages[k] = self.sim.voltages()[self._soma]
        return voltages

    def seconds(self, count: int) -> float:
        begin = time.perf_counter()
        self.turns(count, look=False)
        return (time.perf_counter() - begin) / count


def text(result: dict[str, Any]) -> str:
    head = f"{'cell':<10} {'events':<9} {'nodes':>5} {'engine':<10} {'least':>7} {'median':>7}"
    lines = [
        f"{r['cell']:<10} {r['events']:<9} {r['nodes']:>5} {r['engine']:<10} "
        f"{r['seconds'] * 1e6:>7.0f} {r['median_seconds'] * 1e6:>7.0f}"
        for r in result["rows"]
    ]
    ruled = table.ruled(head, lines, [r["cell"] for r in result["rows"]])
    median = {r["events"]: r["median_seconds"] for r in result["rows"]}
    if "reset" not in median:
        return ruled
    ratio = median["reset+mod"] / median["reset"]
    return f"{ruled}\nset, reset and a step with an idle .mod mechanism: {ratio:.2f} x without\n"


def main(arguments: Sequence[str]) -> None:
    parser = record.parser("turns", __doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--turns", type=int, default=200)
    args = parser.parse_args(arguments)
    queue = record.queue(args.device, ["float64"], timestamps=False)  # as a simulation makes it
    cases = [(cell, events) for cell in CELLS for events in ("grid", "exact")]
    cases += [("ring", events) for events in ("reset", "reset+mod")]
    made = [Ring if cell == "ring" else Loop for cell, _ in cases]
    loops = [make(*case, queue=queue) for make, case in zip(made, cases)]
    for make, case, loop in zip(made, cases, loops):
        worst = np.abs(loop.turns(CHECKED) - make(*case, engine="reference").turns(CHECKED)).max()
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
    result = {"aim_seconds": AIM, "rows": rows}
    record.write("turns", queue, arguments, result, text, args.out)
