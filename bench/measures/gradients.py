"""Gradients by all conductances of copies of a neuron, beside runs of them.

    python -m bench gradients [--device SPEC] [--copies 1000] [--duration 100] [--neurons NAME ...]
                              [--jaxley-steps 200]

The neurons are in `bench.neurons`. The loss is the mean square of the soma's voltages; its
derivatives are by the density of each channel in each node of each copy. `first s` is the time of
the first gradient, over 4 steps, compilation included. `gradient` and `run` are microseconds per
step of later calls, the host's work included. `apart` is the largest difference from the
reference's gradient of two copies, relative to the largest derivative by the same channel.
`forward` is a gradient in forward mode by two numbers for all copies. `network` is the gradient by
the weights of 4,000 connections between 200 point neurons, by NumPy and on the device.

If Jaxley is installed, it computes the same gradient in its own process (`jaxley`, microseconds per
step, over fewer steps as it is slow), and derivatives of a small cable, which are compared relative
to the largest one by the same channel.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

import clhines
from bench import child, neurons, record, table
from bench.neurons import given_as
from bench.peers import gradients_jaxley as jaxley

DT, REST = 0.025, -75.0  # ms, mV
COMPARED = 1.0  # ms in the run that is compared with the reference
NEEDED = 1e-8  # relative
POINT = """
point neuron
parameter drive = 0.3 nA
current i = 0.02*(v + 65) - drive
spike: v > -50
reset: v = -65
refractory: 2 ms
"""


def loss(v: np.ndarray) -> tuple[float, np.ndarray]:
    return float((v**2).mean()), 2 * v / v.size


class Subject:
    def __init__(self, name: str, copies: int, **options: Any) -> None:
        network = neurons.neurons(name, neurons.cable_of(name), copies)
        self.simulation = clhines.Simulation(network, DT, v_init=REST, **options)
        self.simulation.record("v", network.soma)
        channels = [g for g in network.groups if g.mechanism.name != "iclamp"]
        self.of = [(group, given_as(group.mechanism.name)) for group in channels]
        self.few = [(g, "e") for g in channels if "e" in g.mechanism.parameters][-2:]

    def gradient(
        self, duration: float, of: Any = None, mode: str = "reverse"
    ) -> tuple[list[np.ndarray], float]:
        begin = time.perf_counter()
        gradient = self.simulation.gradient(duration, loss, of or self.of, mode=mode)
        return gradient.slopes, time.perf_counter() - begin

    def run(self, duration: float) -> float:
        self.simulation.reset()
        begin = time.perf_counter()
        self.simulation.run(duration)
        return time.perf_counter() - begin


def apart(name: str, queue: cl.CommandQueue) -> float:
    """Return how far the gradient for two copies differs from the reference's."""
    gradient = Subject(name, 2, queue=queue).gradient(COMPARED)[0]
    expected = Subject(name, 2, engine="reference").gradient(COMPARED)[0]
    pairs = zip(gradient, expected, strict=True)
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def measured(name: str, queue: cl.CommandQueue, copies: int, duration: float) -> dict[str, Any]:
    difference = apart(name, queue)
    subject, steps = Subject(name, copies, queue=queue), round(duration / DT)
    first = subject.gradient(4 * DT)[1]
    seconds = min(subject.gradient(duration)[1] for _ in range(2))
    subject.run(duration)
    run = min(subject.run(duration) for _ in range(2))
    options = duration, subject.few, "forward"
    few = min(subject.gradient(*options)[1] for _ in range(2)) if subject.few else None
    return {
        "neuron": name,
        "first": first,
        "gradient": seconds / steps * 1e6,
        "forward": few and few / steps * 1e6,
        "run": run / steps * 1e6,
        "apart": difference,
    }


def network(queue: cl.CommandQueue) -> dict[str, Any]:
    """Return microseconds per step for a network's gradient by its weights."""
    cells, inputs, steps = 200, 20, 200
    rng = np.random.default_rng(1)
    one = [1e4] * cells, [0.0] * cells, [0.2] * cells
    net = clhines.Network.from_arrays([-1] * cells, np.arange(cells + 1), *one)
    net.add(POINT, net.soma, drive=rng.uniform(0.28, 0.4, cells))
    synapses = net.add("expsyn", net.soma, tau=5.0)
    source, target = rng.integers(cells, size=cells * inputs), np.repeat(np.arange(cells), inputs)
    net.connect(source, synapses, target, weight=5e-4, delay=1.5)
    row: dict[str, Any] = {"neuron": "points"}
    for name, options in (("host", {"engine": "reference"}), ("device", {"queue": queue})):
        simulation = clhines.Simulation(net, 0.5, v_init=rng.uniform(-65, -51, cells), **options)
        simulation.record("v", net.soma)
        seconds = []
        for _ in range(4):
            begin = time.perf_counter()
            simulation.gradient(steps * 0.5, loss, ["weight"], surrogate=3.0)
            seconds.append(time.perf_counter() - begin)
        row[name] = min(seconds) / steps * 1e6
    return row


def small(queue: cl.CommandQueue) -> dict[str, list[float]]:
    n, (length, radius) = jaxley.NODES, (jaxley.LENGTH, jaxley.RADIUS)
    area, axial = 2 * np.pi * radius * length, 100 * np.pi * radius**2 / (jaxley.RA * length)
    parent = np.arange(-1, n - 1)
    arrays = [area] * n, [0.0] + [axial] * (n - 1), [area * 1e-5] * n
    network = clhines.Network.from_arrays(parent, [0, n], *arrays)
    network.celsius = neurons.CELSIUS
    groups = [network.insert(clhines.Mechanism(neurons.CHANNELS[c]), gbar=np.full(n, density))
              for c, density in jaxley.SMALL.items()]  # fmt: skip
    network.add("iclamp", at=[0], delay=0.0, dur=1e9, amp=jaxley.AMP)
    simulation = clhines.Simulation(network, DT, v_init=neurons.V_INIT, queue=queue)
    simulation.record("v", [0])

    def of_steps(v: np.ndarray) -> tuple[float, np.ndarray]:
        return float((v[1:] ** 2).mean()), 2 * v / (len(v) - 1)

    of = [(group, "gbar") for group in groups]
    slopes = simulation.gradient(jaxley.STEPS * DT, of_steps, of).slopes
    return dict(zip(jaxley.SMALL, slopes, strict=True))


def beside_jaxley(
    name: str, queue: cl.CommandQueue, copies: int, steps: int, most: float
) -> dict[str, Any]:
    """Return Jaxley's time, and how far its derivatives for the small cable differ."""
    case = json.dumps({"cell": name, "copies": copies, "steps": steps})
    row = child.run("peers.gradients_jaxley", [case], most)
    if "small" in row:
        expected, gradients = row.pop("small"), small(queue)
        pairs = ((np.array(expected[c]), gradients[c]) for c in expected)
        row["apart"] = max(float(np.abs(a - b).max() / np.abs(a).max()) for a, b in pairs)
    return {**row, "neuron": name, "steps": steps}


def main(arguments: Sequence[str]) -> int:
    parser = record.parser("gradients", __doc__ or "")
    parser.add_argument("--copies", type=int, default=1000)
    parser.add_argument("--duration", type=float, default=100.0, help="ms")
    names = list(neurons.NEURONS)
    parser.add_argument("--neurons", nargs="+", choices=names, default=["l5pc", "l5pc-table"])
    parser.add_argument("--jaxley-steps", type=int, default=196, help="a square; 0 for no Jaxley")
    parser.add_argument("--most", type=float, default=300.0, help="s, for Jaxley")
    args = parser.parse_args(arguments)
    queue = record.queue(args.device, ["float64"])
    rows = [measured(name, queue, args.copies, args.duration) for name in args.neurons]
    texts = [n for n in args.neurons if args.jaxley_steps and not neurons.NEURONS[n].from_files]
    peer = [beside_jaxley(n, queue, args.copies, args.jaxley_steps, args.most) for n in texts]
    result = {
        "copies": args.copies,
        "duration": args.duration,
        "rows": rows,
        "networks": [network(queue)],
        "jaxley": peer,
    }
    record.write("gradients", queue, arguments, result, text, args.out)
    return int(any(row["apart"] > NEEDED for row in rows))


def text(result: dict[str, Any]) -> str:
    steps = round(result["duration"] / DT)
    head = f"{result['copies']} copies, {steps} steps, float64; microseconds per step"
    title = f"{'neuron':<14}{'first s':>9}{'gradient':>10}{'forward':>9}{'run':>8}{'ratio':>7}"
    title += f"{'apart':>10}"
    lines = [
        f"{row['neuron']:<14}{row['first']:>9.2f}{row['gradient']:>10.0f}"
        f"{row['forward'] or float('nan'):>9.0f}{row['run']:>8.0f}"
        f"{row['gradient'] / row['run']:>7.1f}{row['apart']:>10.1e}"
        for row in result["rows"]
    ]
    peers = [_of_jaxley(row) for row in result["jaxley"]]
    [of] = result["networks"]
    last = f"200 point neurons, 4,000 connections: {of['host']:.0f} in NumPy, {of['device']:.0f}"
    return "\n".join([head, "", table.ruled(title, lines), last, *peers])


def _of_jaxley(row: dict[str, Any]) -> str:
    if "reason" in row:
        return f"{row['neuron']}: no Jaxley, {row['reason'].strip().splitlines()[-1]}"
    return (
        f"{row['neuron']}: {row['gradient']:.0f} by {row['name']} ({row['steps']} steps; "
        f"{row['bytes'] / 1e9:.1f} GB, {row['first']:.1f} s compile); derivatives for a small "
        f"cable differ by {row['apart']:.1e}"
    )
