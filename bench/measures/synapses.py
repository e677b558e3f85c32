"""Describe and make a network of many synapses, and deliver its spikes: time and memory.

    python -m bench synapses [--device SPEC] [--neurons 1e5] [--synapses 1e3]
                             [--rule fixed_outdegree] [--rates 1 10 100] [--out FOLDER]

Leaky neurons, four fifths of which excite others and one fifth of which inhibit, connected at
random by `clhines.Pairs`. Of each stage: time by the clock and of all processors, and the most
memory that the process has had by its end, above what it had at the begin; with PoCL the device's
memory is in it. Then a step's delivery of the spikes of so many Hz: its time over that of reading
the synapses of the neurons that spiked (12 bytes each) at the bandwidth of a copy on the device.
The last lines extend the first table to 10^9 synapses. Aims: 120 s and 64 GB to describe these and
make the model; 2 x the traffic.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

import clhines
from bench import record, table
from bench.measures.scale import host_bytes
from clhines import Pairs
from clhines.simulator.events.grid import Delivery, random_list
from clhines.simulator.model import compile
from clhines.simulator.model.model import Model
from clhines.solver.device import devices

DT, RUN = 0.1, 10.0  # ms
LIF = """
    point lif
    current i = 0.01*(v + 49) [nA]
    spike: v > -50 mV
    reset: v = -60 mV
    refractory: 5 ms
"""
SYNAPSE = 12  # bytes: place of its sum, int32, and weight, int64
COPIED = 1 << 28  # bytes
TURNS, STEPS = 9, 8  # launches that are timed, over so many lists of spikes
MOST = 10**9  # synapses that the table is extended to
_Made = TypeVar("_Made")


class Stages:
    """Time and memory of one stage after another."""

    def __init__(self, synapses: int) -> None:
        self._synapses, self._begin, self.rows = synapses, host_bytes(), list[dict[str, Any]]()

    def of(self, name: str, make: Callable[[], _Made]) -> _Made:
        """Make something, and note what it took."""
        begin, used = time.perf_counter(), time.process_time()
        made = make()
        used, more = time.process_time() - used, host_bytes() - self._begin
        row = {"stage": name, "seconds": time.perf_counter() - begin, "processor_seconds": used}
        self.rows.append({**row, "bytes": more, "each": more / self._synapses})
        return made


def cells(count: int) -> tuple[clhines.Network, list[clhines.network.groups.Group]]:
    """Return leaky neurons without connections, and their excitatory and inhibitory synapses."""
    parents = np.full(count, -1), np.arange(count + 1)
    net = clhines.Network.from_arrays(*parents, [2e4] * count, [0.0] * count, [0.2] * count)
    net.add(LIF, at=net.soma)
    return net, [net.add("expsyn", at=net.soma, tau=t, e=e) for t, e in ((5.0, 0.0), (10.0, -80.0))]


def connect(net: clhines.Network, targets: list[Any], rule: str, synapses: float) -> None:
    """Connect all neurons with, on average, so many synapses from each."""
    count, excitatory = net.num_cells, net.num_cells * 4 // 5
    number = synapses / count if rule == "bernoulli" else round(synapses)
    each = [number, number]
    if rule == "fixed_indegree":
        each = [number * 4 // 5, number - number * 4 // 5]
    bounds = (0, excitatory), (excitatory, count)
    for (first, end), target, weight, n in zip(bounds, targets, (1e-4, 1e-3), each):
        pairs = getattr(Pairs, rule)(n, seed=record.SEED)
        net.connect(np.arange(first, end), target, pairs, weight=weight, delay=DT)


def bandwidth(queue: cl.CommandQueue) -> float:
    """Bytes a second that a copy on the device reads and writes."""
    a, b = (cla.zeros(queue, COPIED // 8, np.int64) for _ in range(2))
    times = []
    for _ in range(TURNS + 1):
        queue.finish()
        begin = time.perf_counter()
        cl.enqueue_copy(queue, b.data, a.data, byte_count=COPIED)
        queue.finish()
        times.append(time.perf_counter() - begin)
    return 2 * COPIED / float(np.median(times[1:]))


def deliveries(queue: cl.CommandQueue, model: Model, rates: Sequence[float]) -> Any:
    """Yield a row for each rate: what a step's delivery of its spikes takes."""
    c, speed = model.connections, bandwidth(queue)
    slots, size = c.max_delay + 2, model.num_targets
    counts = {rate: max(1, round(rate * 1e-3 * DT * c.num_sources)) for rate in rates}
    delivery = Delivery(queue, c, size, slots, STEPS * max(counts.values()))
    incoming = cla.zeros(queue, slots * size, np.int64)
    for rate, count in counts.items():
        source, _ = random_list(c.num_sources, STEPS, STEPS * count)
        lists = [a.astype(np.int32) for a in np.split(source, STEPS)]
        steps, number = cla.zeros(queue, count, np.int32), cla.zeros(queue, 1, np.int32)
        on_device = [cla.to_device(queue, a) for a in lists]
        times = []
        for turn in range(TURNS + 1):  # the first warms up
            for a in on_device:
                delivery.reset(number)
                number.set(np.array([count], np.int32), queue)
                queue.finish()
                begin = time.perf_counter()
                event = delivery.enqueue((a, steps, number), incoming, 0)
                queue.finish()
                wall = time.perf_counter() - begin
                if not devices.is_cpu(queue.device):
                    wall = 1e-9 * (event.profile.end - event.profile.start)
                times += [wall] * (turn > 0)
        sent = float(np.mean([np.diff(c.row)[a].sum() for a in lists]))
        traffic = SYNAPSE * sent / speed
        yield {
            "hz": rate, "spikes": count, "synapses": sent, "algorithm": delivery.algorithm,
            "seconds": float(np.median(times)), "traffic_seconds": traffic,
            "x_traffic": float(np.median(times)) / traffic, "bytes_per_second": speed,
        }  # fmt: skip


def text(result: dict[str, Any]) -> str:
    """Return both tables as text, and what follows for 10^9 synapses."""
    stages, synapses = result["stages"], result["synapses"]
    lines = [
        f"{r['stage']:<12} {r['seconds']:>8.2f} {r['processor_seconds']:>8.2f} "
        f"{r['bytes'] / 1e9:>8.2f} {r['each']:>12.1f}"
        for r in stages
    ]
    found = [
        f"{result['neurons']:,} neurons, {synapses:,} synapses, {result['rule']}, "
        f"engine {result['engine']}",
        "",
        table.ruled(f"{'stage':<12} {'s':>8} {'proc. s':>8} {'GB':>8} {'B a synapse':>12}", lines),
        "",
        "GB: the most memory of the process by the end of the stage, above what it had before.",
        "",
    ]
    head = (
        f"{'Hz':>6} {'spikes':>8} {'synapses':>11} {'by':<5} {'us':>9} {'traffic us':>10} "
        f"{'x traffic':>9}"
    )
    lines = [
        f"{r['hz']:>6g} {r['spikes']:>8,} {r['synapses']:>11,.0f} {r['algorithm']:<5} "
        f"{r['seconds'] * 1e6:>9.1f} {r['traffic_seconds'] * 1e6:>10.1f} {r['x_traffic']:>9.2f}"
        for r in result["rows"]
    ]
    speed = result["rows"][0]["bytes_per_second"] / 1e9 if result["rows"] else 0.0
    found += [
        table.ruled(head, lines),
        "",
        f"of one step; a copy on the device has {speed:.1f} GB/s",
        "",
        extended(result),
    ]
    return "\n".join(found)


def extended(result: dict[str, Any]) -> str:
    """Extend time and memory in proportion to 10^9 synapses."""
    stages = result["stages"]
    described = stages[: [r["stage"] for r in stages].index("model") + 1]
    wall, used = (
        sum(r[k] for r in described) * MOST / result["synapses"]
        for k in ("seconds", "processor_seconds")
    )
    size, most = (max(r["each"] for r in rows) * MOST / 1e9 for rows in (described, stages))
    return (
        f"extended to {MOST:,} synapses: {wall:.0f} s ({used:.0f} s of processors) and {size:.1f} "
        f"GB to describe and to\nmake the model, {most:.1f} GB with the simulation"
    )


def main(arguments: Sequence[str]) -> None:
    """Measure and write ``synapses-<device>.json`` and ``.txt``."""
    parser = record.parser("synapses", __doc__)
    add = parser.add_argument
    add("--neurons", type=float, default=1e5)
    add("--synapses", type=float, default=1e3, help="of each neuron")
    rules = "bernoulli", "fixed_indegree", "fixed_outdegree"
    add("--rule", choices=rules, default="fixed_outdegree")
    add("--rates", type=float, nargs="+", default=[1, 10, 100], metavar="HZ")
    args = parser.parse_args(arguments)
    queue = record.queue(args.device, ["float32"])
    neurons = int(args.neurons)
    stages = Stages(round(neurons * args.synapses))
    net, targets = stages.of("cells", lambda: cells(neurons))
    stages.of("connect", lambda: connect(net, targets, args.rule, args.synapses))
    model = stages.of("model", lambda: compile(net, DT))
    synapses = model.connections.count
    rows = list(deliveries(queue, model, args.rates))
    del model
    options = {"dt": DT, "dtype": "float32", "queue": queue, "v_init": -60.0}
    sim = stages.of("simulation", lambda: clhines.Simulation(net, **options))
    stages.of(f"run {RUN:g} ms", lambda: sim.run(RUN))
    result = {
        "record": record.record(queue, "synapses", arguments),
        "neurons": neurons, "synapses": synapses, "rule": args.rule, "engine": sim.engine,
        "stages": stages.rows, "rows": rows,
    }  # fmt: skip
    record.write("synapses", queue, result, text(result), args.out)
