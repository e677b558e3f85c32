"""Gradients by all conductances of copies of a neuron, beside runs of them.

    python -m bench gradients [--device SPEC] [--copies 1000] [--duration 100] [--neurons NAME ...]

Neurons are those of `bench.neurons`. The loss is the mean square of the soma's voltages, the
derivatives are those by the density of each channel in each node of each copy. `first s` is the
time of the first gradient, of 4 steps, compilation included; `gradient` and `run` are microseconds
per step of later calls, the host's work included. `apart` is the largest difference from the
reference's gradient of two copies, relative to the largest derivative by the same channel.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

import clhines
from bench import neurons, record, table
from bench.neurons import given_as

DT, REST = 0.025, -75.0  # ms, mV
COMPARED = 1.0  # ms of the run that is compared with the reference
NEEDED = 1e-8  # relative


def loss(v: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the mean square of voltages, and its derivatives."""
    return float((v**2).mean()), 2 * v / v.size


class Subject:
    """Copies of a neuron, and what derivatives are taken by."""

    def __init__(self, name: str, copies: int, **options: Any) -> None:
        network = neurons.neurons(name, neurons.cable_of(name), copies)
        self.simulation = clhines.Simulation(network, DT, v_init=REST, **options)
        self.simulation.record("v", network.soma)
        channels = [g for g in network.groups if g.mechanism.name != "iclamp"]
        self.of = [(group, given_as(group.mechanism.name)) for group in channels]

    def gradient(self, duration: float) -> tuple[list[np.ndarray], float]:
        """Return the derivatives, and the seconds that they took."""
        begin = time.perf_counter()
        gradient = self.simulation.gradient(duration, loss, self.of)
        return gradient.slopes, time.perf_counter() - begin

    def run(self, duration: float) -> float:
        """Return the seconds of a run from the start."""
        self.simulation.reset()
        begin = time.perf_counter()
        self.simulation.run(duration)
        return time.perf_counter() - begin


def apart(name: str, queue: cl.CommandQueue) -> float:
    """Return how far the gradient of two copies is from that of the reference."""
    found = Subject(name, 2, queue=queue).gradient(COMPARED)[0]
    expected = Subject(name, 2, engine="reference").gradient(COMPARED)[0]
    pairs = zip(found, expected, strict=True)
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def measured(name: str, queue: cl.CommandQueue, copies: int, duration: float) -> dict[str, Any]:
    """Return a row of the table."""
    difference = apart(name, queue)
    subject, steps = Subject(name, copies, queue=queue), round(duration / DT)
    first = subject.gradient(4 * DT)[1]
    seconds = min(subject.gradient(duration)[1] for _ in range(2))
    subject.run(duration)
    run = min(subject.run(duration) for _ in range(2))
    return {
        "neuron": name,
        "first": first,
        "gradient": seconds / steps * 1e6,
        "run": run / steps * 1e6,
        "apart": difference,
    }


def main(arguments: Sequence[str]) -> int:
    """Run the measure; 1 where a gradient is not the reference's."""
    parser = record.parser("gradients", __doc__ or "")
    parser.add_argument("--copies", type=int, default=1000)
    parser.add_argument("--duration", type=float, default=100.0, help="ms")
    parser.add_argument("--neurons", nargs="+", default=["l5pc", "l5pc-table"])
    given = parser.parse_args(arguments)
    queue = record.queue(given.device, ["float64"])
    rows = [measured(name, queue, given.copies, given.duration) for name in given.neurons]
    found = {
        "record": record.record(queue, "gradients", arguments),
        "copies": given.copies,
        "duration": given.duration,
        "rows": rows,
    }
    record.write("gradients", queue, found, text(found), given.out)
    return int(any(row["apart"] > NEEDED for row in rows))


def text(result: dict[str, Any]) -> str:
    """Return the table."""
    steps = round(result["duration"] / DT)
    head = f"{result['copies']} copies, {steps} steps, float64; microseconds per step"
    title = f"{'neuron':<14}{'first s':>9}{'gradient':>10}{'run':>8}{'ratio':>7}{'apart':>10}"
    lines = [
        f"{row['neuron']:<14}{row['first']:>9.2f}{row['gradient']:>10.0f}{row['run']:>8.0f}"
        f"{row['gradient'] / row['run']:>7.1f}{row['apart']:>10.1e}"
        for row in result["rows"]
    ]
    return f"{head}\n\n{table.ruled(title, lines)}"
