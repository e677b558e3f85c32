"""Time the algorithms that deliver spikes: Brette and Goodman (2012), figure 4.

A network of two layers, whose neurons are all texts: 100 leaky neurons that spike as by a Poisson
process, since their leak follows a random voltage within a step, and 100,000 that only receive. The
axes are the share of connected pairs and the mean number of spikes a step. A reset neuron cannot
spike in the next step, so at most 45 of the 100 do. The sums that the targets receive in the
simulation are compared with the sums over its spikes. Then the review's three algorithms deliver
these spikes in turn, and their results are compared bit by bit.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from tqdm import tqdm

import clhines
from bench import MissingError, record, table
from bench.papers import staged
from bench.papers.cases import Run
from clhines import Drawn, Pairs
from clhines.simulator.events.grid import Delivery, NewSpikes
from clhines.simulator.model.connections import GridConnections
from clhines.solver.device.timing import TimedRun, seconds_in_turns

Algorithm = Callable[[NewSpikes, cla.Array], cl.Event]
DT = 0.1  # ms
SOURCE = f"""
    point source
    parameter mean = 0 mV
    parameter sd = {DT**0.5} mV                 # of 1 mV in each step
    current i = 1000*(v - mean - sd*noise) [nA] # 500 times the capacitance over the step
    spike: v > 0 mV
    reset: v = -10 mV
    refractory: {DT} ms
"""
TARGET = """
    point target
    state a = 0
    da/dt = 0*a [1/ms]
    current i = 0*v [nA]
    on event: a += weight
"""
SOURCES = 100
STEPS, LISTS = 20, 4  # steps in a run; last steps with spikes, used in turn
ROUNDS, ENOUGH = 9, 3.0  # s; at most so many rounds for a case, and none begins after so long
SPIKES = (1.0, 2.0, 5.0, 10.0, 20.0, 45.0)  # a step; a neuron is reset for a step
COLOURS = {"vpo": "#009E73", "vsn": "#F0E442", "vssn": "#CC79A7"}


class Layers:
    """The network: sources that spike at random, and targets that sum up their input."""

    def __init__(self, queue: cl.CommandQueue, targets: int, share: float) -> None:
        n = SOURCES + targets
        points = np.full(n, -1), np.arange(n + 1)
        net = clhines.Network.from_arrays(*points, [2e4] * n, [0.0] * n, [0.2] * n)
        self._source = net.add(SOURCE, at=net.soma[:SOURCES])
        target = net.add(TARGET, at=net.soma[SOURCES:])
        pairs, weight = Pairs.bernoulli(share, seed=record.SEED), Drawn.uniform(0.5, 2.0)
        net.connect(np.arange(SOURCES), target, pairs, weight=weight, delay=DT)
        options = {"dt": DT, "v_init": -10.0, "queue": queue, "seed": record.SEED}
        self._simulation = clhines.Simulation(net, **options)
        c = self._simulation.runner.model.connections
        self.connections = GridConnections(c.source, c.target, c.weight, c.delay, SOURCES, targets)

    def lists(self, spikes: float) -> list[np.ndarray]:
        """Simulate; return the cells that spiked in some steps, never an empty list."""
        share = spikes / SOURCES  # a neuron is ready in all steps except after a spike
        self._simulation.set(self._source, mean=NormalDist().inv_cdf(share / (1 - share)))
        self._simulation.reset()
        spike_lists: list[np.ndarray] = []
        spike_cells, steps = [], 0
        while len(spike_lists) < LISTS:
            result = self._simulation.run(STEPS * DT)
            spike_cells.append(result.spike_cell)
            step = np.rint(result.spike_time / DT).astype(int)
            spike_lists += [result.spike_cell[step == k] for k in np.unique(step)]
            steps += STEPS
        self._simulation.set(self._source, mean=-1e3)  # the last ones arrive
        spike_cells.append(self._simulation.run(3 * DT).spike_cell)
        self._check(np.bincount(np.concatenate(spike_cells), minlength=SOURCES), steps)
        return spike_lists[-LISTS:]

    def _check(self, fired: np.ndarray, steps: int) -> None:
        c = self.connections
        expected = np.bincount(c.target, c.weight * fired[c.source], c.num_targets)
        received = self._simulation.runner.save()["state1_a"]
        # rounded: weights, each step's sum, and its addition; and as many terms here
        bound = (2 * steps + fired.sum()) * np.finfo(np.float64).eps
        if not np.allclose(received, expected, rtol=bound, atol=0):
            raise MissingError("targets have received other sums than those of the spikes")


def algorithms(delivery: Delivery) -> dict[str, Algorithm]:
    """Return the algorithms by name; each adds weights for spikes of step 0 to the sums."""

    def vpo(spikes: NewSpikes, incoming: cla.Array) -> cl.Event:
        return delivery.deliver(spikes, incoming, range(1), ends=False)

    by_name: dict[str, Algorithm] = {"vpo": vpo}
    for columns, name in itertools.product(staged.widths(delivery), ("vsn", "vssn")):
        by_name[f"{name} {columns}"] = staged.Staged(delivery, name, columns)
    return by_name


def on_device(queue: cl.CommandQueue, cells: np.ndarray) -> NewSpikes:
    arrays = cells, np.zeros(len(cells)), np.array([len(cells)])
    source, step, count = (cla.to_device(queue, a.astype(np.int32)) for a in arrays)
    return source, step, count


def same_bits(delivery: Delivery, ways: Iterable[Algorithm], cells: np.ndarray) -> bool:
    queue, sums = delivery.queue, []
    for add in ways:
        incoming = cla.zeros(queue, delivery.slots * delivery.num_targets, np.int64)
        add(on_device(queue, cells), incoming)
        sums.append(incoming.get())
    expected = np.zeros((delivery.slots, delivery.num_targets), np.int64)
    c = delivery.connections
    here = np.flatnonzero(np.isin(c.source, cells))
    place = (1 + c.delay[here]) % delivery.slots, c.target[here]
    np.add.at(expected, place, delivery.quantise(c.weight[here]))
    return all(np.array_equal(s, expected.reshape(-1)) for s in sums)


def measure(run: Run) -> dict[str, Any]:
    shares, numbers = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0], [*SPIKES]
    targets = 100_000
    if run.is_host:
        shares, numbers = [0.001, 0.01, 0.1, 1.0], [1.0, 5.0, 20.0, 45.0]
    if run.quick:
        shares, numbers, targets = [0.01, 0.1], [1.0, 20.0], 1000
    rows = []
    bar = tqdm(total=len(shares) * len(numbers), disable=None)
    for share in shares:
        layers = Layers(run.queue, targets, share)
        delivery = Delivery(run.queue, layers.connections, targets, 2, SOURCES, "vpo")
        ways = algorithms(delivery)
        for number in numbers:
            rows.append(row_of(delivery, ways, layers.lists(number)))
            rows[-1] |= {"probability": share, "spikes": number}
            bar.update()
    bar.close()
    neurons = f"100 leaky ones that spike at random and {targets:,.0f} that receive, all as texts"
    synapses = f"{100 * targets * min(shares):,.0f} to {100 * targets * max(shares):,.0f}"
    setup = {"neurons": neurons, "synapses": f"{synapses}, delays of one step"}
    scaled = [f"{1e5:,.0f} targets scaled to {targets:,.0f}"] if run.quick else []
    scaled.append("100 spikes a step at most: 45, as a neuron that is reset skips a step")
    return {"dtype": "int64 sums", "setup": setup, "scaled": scaled, "missing": [], "rows": rows}


def row_of(
    delivery: Delivery, ways: dict[str, Algorithm], lists: list[np.ndarray]
) -> dict[str, Any]:
    if not same_bits(delivery, ways.values(), lists[0]):
        raise MissingError("an algorithm delivers other sums than the reference")
    seconds = least(delivery, ways, lists)
    return {
        "found": float(np.mean([len(cells) for cells in lists])),
        "connections": delivery.connections.count,
        "seconds": seconds,
        "best": best_of(seconds),
        "good": True,
    }


def least(
    delivery: Delivery, ways: dict[str, Algorithm], lists: list[np.ndarray]
) -> dict[str, float]:
    """Measure in rounds, as other programs come in between; the least mean per algorithm."""
    queue, begin = delivery.queue, time.perf_counter()
    spike_lists = [on_device(queue, cells) for cells in lists]
    incoming = cla.zeros(queue, delivery.slots * delivery.num_targets, np.int64)

    def run_of(add: Algorithm) -> TimedRun:
        return lambda _: [add(spikes, incoming) for spikes in spike_lists]

    ready = [partial(run_of, add) for add in ways.values()]
    rounds: list[list[float]] = []
    while len(rounds) < ROUNDS and (not rounds or time.perf_counter() - begin < ENOUGH):
        rounds.append(seconds_in_turns(queue, ready, budget=0, progress=False))
    return dict(zip(ways, (np.min(rounds, 0) / len(lists)).tolist(), strict=True))


def best_of(seconds: dict[str, float]) -> str:
    return min(seconds, key=lambda name: seconds[name])


def family(seconds: dict[str, float]) -> dict[str, float]:
    """Return each algorithm's best time, whatever its columns."""
    least_of: dict[str, float] = {}
    for name, t in seconds.items():
        algorithm = name.split()[0]
        least_of[algorithm] = min(t, least_of.get(algorithm, np.inf))
    return least_of


def text(result: dict[str, Any]) -> str:
    rows = result["rows"]
    names = list(dict.fromkeys(name for r in rows for name in r["seconds"]))
    kinds, columns = zip(*(f"{name} ".split(" ")[:2] for name in names))
    first = f"{'':>13} " + " ".join(f"{kind:>7}" for kind in kinds)
    head = f"{'pairs':>6} {'spikes':>6} " + " ".join(f"{count:>7}" for count in columns)
    head += f" {'slowest':>7} {'second':>6} good"
    lines = []
    for r in rows:
        times = [cell(r, name) for name in names]
        line = " ".join([f"{r['probability']:>6g} {r['found']:>6.1f}", *times])
        three = sorted(family(r["seconds"]).values())
        slowest, second = three[-1] / three[0], three[min(1, len(three) - 1)] / three[0]
        line += f" {slowest:>7.2f} {second:>6.2f} {table.verdict(r['good'])}"
        lines.append(line)
    table_text = table.ruled(head, lines)
    said = "slowest, second: over the fastest of vpo, vsn, vssn"
    head = f"times in us, * the best\n{said}"
    return f"{head}\n\n{first}\n{table_text}\n\n{summary(rows)}"


def cell(row: dict[str, Any], name: str) -> str:
    if name not in row["seconds"]:
        return f"{'-':>7}"
    mark = "*" if name == row["best"] else ""
    return table.narrow(row["seconds"][name] * 1e6, 7 - len(mark), 1) + mark


def summary(rows: list[dict[str, Any]]) -> str:
    lines = []
    for name in dict.fromkeys(r["best"].split()[0] for r in rows):
        won = [r for r in rows if r["best"].split()[0] == name]
        pairs, spikes = ([r[k] for r in won] for k in ("probability", "spikes"))
        lines.append(
            f"{name} is best in {len(won)} of {len(rows)} cases: pairs {min(pairs):g} to "
            f"{max(pairs):g}, {min(spikes):g} to {max(spikes):g} spikes a step"
        )
    ratios = [max(f.values()) / min(f.values()) for f in (family(r["seconds"]) for r in rows)]
    lines.append(f"slowest over fastest of the review's three: up to {max(ratios):.1f}")
    return "\n".join(lines)


# -- picture


def draw(figure: Any, result: dict[str, Any]) -> None:
    rows = result["rows"]
    figure.set_size_inches(15, 4.6)
    axes = figure.subplots(1, 3, sharey=True)
    draw_best(axes[0], rows)
    draw_ratio(axes[1], rows, -1, "slowest / fastest of vpo, vsn, vssn")
    draw_ratio(axes[2], rows, 1, "second / fastest of vpo, vsn, vssn")
    axes[0].set_ylabel("share of pairs connected")
    figure.supxlabel("mean number of spikes a step")


def ticks(axes: Any, rows: list[dict[str, Any]]) -> tuple[dict[float, int], dict[float, int]]:
    places_of = []
    for name in ("spikes", "probability"):
        values = sorted({r[name] for r in rows})
        places_of.append({v: k for k, v in enumerate(values)})
    for axis, places in zip((axes.xaxis, axes.yaxis), places_of):
        axis.set_ticks(list(places.values()), [f"{v:g}" for v in places])
    axes.set_aspect("auto")
    return places_of[0], places_of[1]


def draw_best(axes: Any, rows: list[dict[str, Any]]) -> None:
    from matplotlib.patches import Patch

    across, up = ticks(axes, rows)
    image = np.ones((len(up), len(across), 3))
    for r in rows:
        here = up[r["probability"]], across[r["spikes"]]
        colour = COLOURS[r["best"].split()[0]]
        image[here] = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        text = f"{r['best']}\n{duration(min(r['seconds'].values()))}"
        axes.text(here[1], here[0], text, ha="center", va="center", fontsize=7)
    axes.imshow(image, origin="lower", aspect="auto")
    there = {r["best"].split()[0] for r in rows}
    handles = [Patch(color=c, label=name) for name, c in COLOURS.items() if name in there]
    axes.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.06), ncols=4)
    axes.set_title("fastest")


def duration(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} µs" if seconds < 9.995e-4 else f"{seconds * 1e3:.3g} ms"


def draw_ratio(axes: Any, rows: list[dict[str, Any]], which: int, title: str) -> None:
    across, up = ticks(axes, rows)
    image = np.full((len(up), len(across)), np.nan)
    for r in rows:
        times = sorted(family(r["seconds"]).values())
        here = up[r["probability"]], across[r["spikes"]]
        image[here] = times[which if len(times) > 1 else 0] / times[0]
    shown = np.log2(image)
    top = max(1.0, float(np.nanmax(shown)))
    axes.imshow(shown, origin="lower", aspect="auto", cmap="Blues", vmin=0, vmax=top)
    for (line, column), ratio in np.ndenumerate(image):
        colour = "white" if shown[line, column] > 0.6 * top else "black"
        axes.text(column, line, f"{ratio:.1f}", ha="center", va="center", color=colour)
    axes.set_title(title)
