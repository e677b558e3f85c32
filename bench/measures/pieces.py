"""Time models of NEURON that are run in pieces, beside NEURON itself.

    python -m bench pieces [--device SPEC] [--rounds 3] [--stop 100] [--segments N ...] [--out DIR]

The models are a ring of 20 cells, each with a soma with `hh`, a dendrite of 5 segments and an
Exp2Syn, and a NetStim with noise; and one cell of 170 segments with `hh`. Each runs from
``h.finitialize()`` for `--stop` ms by ``h.continuerun`` and by ``clhines.neuron.run``, in pieces of
several lengths, and in one. Similar cells, of `--segments`, run for 100 ms and in one piece of
1,000 ms. Times are the median of all pieces in ms; the first run of a model, which builds or loads
kernels, has its own column. Nothing is timed unless the records agree.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from bench import record, table

LENGTHS = (0.1, 1.0, 10.0)  # ms
WORST = 1e-6  # mV and ms
CELLS, SEGMENTS = 20, 170
SMALL, SHORT, LONG = (1, 10, 50, 100, 500, 1000), 100.0, 1000.0  # segments, ms


def ring(h: Any) -> tuple[list[Any], object]:
    somas, kept = [], []
    for k in range(CELLS):
        soma, dend = h.Section(name=f"soma{k}"), h.Section(name=f"dend{k}")
        soma.L = soma.diam = 20
        dend.L, dend.diam, dend.nseg = 200, 2, 5
        soma.insert("hh")
        dend.insert("pas")
        dend.connect(soma(1))
        synapse = h.Exp2Syn(dend(0.5))
        synapse.tau1, synapse.tau2 = 0.5, 2
        somas.append(soma)
        kept += [dend, synapse]
    for k, soma in enumerate(somas):
        target = kept[2 * ((k + 1) % CELLS) + 1]
        kept.append(h.NetCon(soma(0.5)._ref_v, target, -10, 1, 0.02, sec=soma))
    stim = h.NetStim()
    stim.number, stim.start, stim.interval, stim.noise = 1000, 2, 8, 1
    stim.ranvar.set_ids(1, 2, 3)
    return somas, [*kept, stim, h.NetCon(stim, kept[1], 0, 1, 0.05)]


def cell(h: Any, segments: int = SEGMENTS) -> tuple[list[Any], object]:
    soma = h.Section(name="soma")
    soma.L = soma.diam = 20
    sections = [soma]
    if segments > 1:
        dend = h.Section(name="dend")
        dend.L, dend.diam, dend.nseg = 1000 * (segments - 1) / (SEGMENTS - 1), 2, segments - 1
        dend.connect(soma(1))
        sections.append(dend)
    for section in sections:
        section.insert("hh")
    clamp = h.IClamp(soma(0.5))
    clamp.delay, clamp.dur, clamp.amp = 1, 1e9, 0.5
    return [soma], [sections, clamp]


Build = Callable[[Any], tuple[list[Any], object]]
MODELS: dict[str, Build] = {"ring": ring, "cell": cell}


class Timed:
    def __init__(self, build: Build, h: Any) -> None:
        self._h = h
        self._somas, self._kept = build(h)
        self._voltages = [h.Vector().record(s(0.5)._ref_v) for s in self._somas]

    def run(self, way: Callable[[float], object], piece: float, stop: float) -> list[float]:
        self._h.finitialize(-65)
        seconds = []
        for k in range(round(stop / piece)):
            begin = time.perf_counter()
            way((k + 1) * piece)
            seconds.append(time.perf_counter() - begin)
        return seconds

    def taken(self) -> np.ndarray:
        return np.array([np.array(v) for v in self._voltages])


def rows_of(
    name: str, timed: Timed, ways: Sequence[Callable[[float], object]],
    pieces: Sequence[float], rounds: int,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return a model's rows; end the program if records differ.

    `ways` run it by NEURON and by this package; each row's run is as long as the last of `pieces`.
    """
    rows, stop, (neuron, ours) = [], pieces[-1], ways
    timed.run(neuron, stop, stop)
    truth = timed.taken()
    first = timed.run(ours, stop, stop)[0]
    for piece in pieces:
        spent: dict[str, list[float]] = {"neuron": [], "ours": []}
        for _ in range(rounds):
            for way, run in (("neuron", neuron), ("ours", ours)):
                spent[way] += timed.run(run, piece, stop)
                worst = np.abs(timed.taken() - truth).max()
                if not worst < WORST:
                    sys.exit(f"{name} in pieces of {piece:g} ms: {worst:.3g} mV off: not timed")
        row = {"model": name, "piece": piece, "first_seconds": first}
        rows.append({**row, **{f"{k}_seconds": float(np.median(v)) for k, v in spent.items()}})
    return rows


def text(result: dict[str, Any]) -> str:
    head = f"{'model':<9} {'piece, ms':>9} {'NEURON, ms':>10} {'clhines, ms':>11} {'first, ms':>9}"
    lines = [
        f"{r['model']:<9} {r['piece']:>9g} {r['neuron_seconds'] * 1e3:>10.3f} "
        f"{r['ours_seconds'] * 1e3:>11.3f} {r['first_seconds'] * 1e3:>9.0f}"
        for r in result["rows"]
    ]
    return table.ruled(head, lines, [r["model"] for r in result["rows"]])


def main(arguments: Sequence[str]) -> None:
    parser = record.parser("pieces", __doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stop", type=float, default=100.0)
    parser.add_argument("--segments", type=int, nargs="*")
    args = parser.parse_args(arguments)
    from neuron import h

    import clhines.neuron

    h.load_file("stdrun.hoc")
    queue = record.queue(args.device, ["float64"])

    def ours(until: float) -> None:
        clhines.neuron.run(until, device=queue.device.name)

    ways, rows = (h.continuerun, ours), list[dict[str, Any]]()
    for name, build in MODELS.items():
        rows += rows_of(name, Timed(build, h), ways, (*LENGTHS, args.stop), args.rounds)
    for count in args.segments or SMALL:
        timed = Timed(partial(cell, segments=count), h)
        rows += rows_of(f"cell {count}", timed, ways, (SHORT, LONG), args.rounds)
    record.write("pieces", queue, arguments, {"rows": rows}, text, args.out)
