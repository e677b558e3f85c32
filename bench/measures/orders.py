"""Time where weights lie in memory: by source, by target, by a graph cut.

    python -m bench orders [--device SPEC] [--sparse 4000] [--dense 500] [--out FOLDER]

Section 2.3.3 and figure 2 of Brette and Goodman (2012): a network of `--sparse` cells with 2 % of
the pairs connected, and one of `--dense` cells with all pairs connected. The measure counts the
chunks of 128 bytes that hold the synapses of one source and delay, and of one target. It times the
delivery of the spikes of a step (`vpo` by source, `pull` by target) and a step of `STDP`, with 1 %
and 20 % of the cells spiking. Sums and weights are compared bit by bit.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from bench import record, table, weight_order
from bench.made import random_connections
from clhines.simulator.events.grid import Delivery
from clhines.simulator.events.plasticity import Plasticity
from clhines.simulator.model.connections import GridConnections
from clhines.simulator.network.plasticity import STDP

STEPS, TURNS, ROUNDS = 20, 9, 5
ACTIVITY = (0.01, 0.2)  # cells that spike in a step
RULE = STDP(0.01, 0.011, tau_plus=20.0, tau_minus=20.0, w_min=0.0, w_max=1.0)


def orders_of(connections: GridConnections) -> dict[str, tuple[np.ndarray, dict[str, float]]]:
    """Weight places in each order, chunks per synapse, and the time to find them, s."""
    c = connections
    source, delay, target = (a[c.order] for a in (c.source, c.delay, c.target))
    forward, backward = (
        weight_order.group_numbers(source, delay),
        weight_order.group_numbers(target),
    )
    makers = {
        "source": lambda: np.arange(c.count),
        "target": lambda: weight_order.sorted_places(target, source, delay),
        "cut": lambda: weight_order.graph_cut(forward, backward),
    }
    orders = {}
    for name, make in makers.items():
        begin = time.perf_counter()
        place = make()
        numbers = {"found_in": time.perf_counter() - begin}
        for direction, groups in (("forward", forward), ("backward", backward)):
            numbers[direction] = weight_order.cost(place, groups) / c.count
        orders[name] = place, numbers
    return orders


class Changing:
    def __init__(self, queue: cl.CommandQueue, c: GridConnections, place: np.ndarray) -> None:
        self.queue, self.slots, self.first, cells = queue, 32, 0, c.num_sources
        largest = RULE.max_weight(c, np.ones(c.count, bool))
        place = None if (np.diff(place) == 1).all() else place
        self.delivery = Delivery(
            queue, c, cells, self.slots, STEPS * cells, "pull", largest=largest, place=place
        )
        self.plasticity = Plasticity(self.delivery, RULE, 0.1, np.arange(cells))
        self.incoming = cla.zeros(queue, self.slots * cells, np.int64)

    def step(self, spikes: tuple[np.ndarray, np.ndarray]) -> float:
        """Deliver spikes in the next steps, and change weights; seconds per step."""
        shifted = spikes[0], spikes[1] + self.first
        arrays = [cla.to_device(self.queue, a.astype(np.int32)) for a in shifted]
        count = cla.zeros(self.queue, 1, np.int32)
        self.delivery.reset(count)
        count.fill(len(spikes[0]))
        self.queue.finish()
        begin = time.perf_counter()
        self.plasticity.enqueue((*arrays, count), self.incoming, self.first, STEPS)
        self.queue.finish()
        self.first += STEPS
        return (time.perf_counter() - begin) / STEPS


def rows_of(queue: cl.CommandQueue, name: str, cells: int, share: float) -> list[dict[str, Any]]:
    c = random_connections(cells, cells, share, record.SEED, (0.2, 0.8), (1, 5))
    orders = orders_of(c)
    networks = {order: Changing(queue, c, place) for order, (place, _) in orders.items()}
    rows = []
    for activity in ACTIVITY:
        rng = np.random.default_rng(record.SEED)
        spikes = max(1, round(activity * cells))
        lists = [rng.choice(cells, spikes, replace=False) for _ in range(STEPS)]
        fired = np.concatenate(lists), np.repeat(np.arange(STEPS), spikes)
        times: dict[str, list[float]] = {order: [] for order in networks}
        delivered: dict[str, dict[str, float]] = {order: {} for order in networks}
        for _ in range(ROUNDS):
            for order, network in networks.items():
                now = network.delivery.measure([(a, np.zeros(spikes)) for a in lists[:4]])
                best = delivered[order]
                best |= {kind: min(now[kind], best.get(kind, np.inf)) for kind in now}
        for network in networks.values():
            network.delivery.use("vpo")
        for turn in range(-1, TURNS):
            for order, network in networks.items():
                seconds = network.step(fired)
                if turn >= 0:
                    times[order].append(seconds)
        sums = [n.incoming.get() for n in networks.values()]
        weights = [n.plasticity.weight for n in networks.values()]
        good = all(np.array_equal(a, b) for some in (sums, weights) for a, b in zip(some, some[1:]))
        changed = bool((weights[0] != c.weight).any()) and bool(sums[0].any())
        for order, (_, numbers) in orders.items():
            row = {"network": name, "synapses": c.count, "order": order, **numbers}
            row |= {"activity": activity, "seconds": delivered[order]}
            row |= {"stdp": float(np.median(times[order])), "good": good and changed}
            rows.append(row)
    return rows


def text(result: dict[str, Any]) -> str:
    head = (
        f"{'network':<8}{'synapses':>9} {'spiking':>7} {'order':<6} {'forward':>8}{'backward':>9}"
    )
    head += f"{'found in s':>11}{'vpo us':>9}{'pull us':>9}{'stdp us':>9}  good"
    lines = []
    for r in result["rows"]:
        shown = [table.narrow(r["seconds"][name] * 1e6, 9, 1) for name in ("vpo", "pull")]
        lines.append(
            f"{r['network']:<8}{r['synapses']:>9} {r['activity']:>7.0%} {r['order']:<6} "
            f"{r['forward']:>8.3f}{r['backward']:>9.3f}{r['found_in']:>11.2f}{''.join(shown)}"
            f"{table.narrow(r['stdp'] * 1e6, 9, 1)}  {table.verdict(r['good'])}"
        )
    about = table.wrapped([
        "forward, backward: chunks of 128 bytes in which groups of synapses are, a synapse; times a"
        " step, the orders in turn; stdp: weights changed by both ends, and spikes delivered"
    ])  # fmt: skip
    groups = [(r["network"], r["activity"]) for r in result["rows"]]
    return "\n".join(about) + "\n" + table.ruled(head, lines, groups)


def main(arguments: Sequence[str]) -> int:
    parser = record.parser("orders", __doc__)
    parser.add_argument("--sparse", type=int, default=4000, help="cells, 2 %% of pairs connected")
    parser.add_argument("--dense", type=int, default=500, help="cells, all connected")
    args: argparse.Namespace = parser.parse_args(arguments)
    queue = record.queue(args.device, ("float64",))
    rows = rows_of(queue, "sparse", args.sparse, 0.02) + rows_of(queue, "dense", args.dense, 1.0)
    result = {"record": record.record(queue, "orders", arguments), "rows": rows}
    record.write("orders", queue, result, text(result), args.out)
    return 0 if all(row["good"] for row in rows) else 1
