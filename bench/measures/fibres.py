"""Fibres in an electrode's field beside NEURON, thresholds, and the LFP of many cells.

    python -m bench fibres [--device SPEC] [--fibres 10000] [--double 100000] [--cells 1000]

`clhines.fields.fibres` makes the fibres: ``mrg``, a double cable whose layers ``steps`` solves, and
``senn``. Each has 21 nodes of Ranvier and runs for 5 ms, 1,000 steps. Up to 1,000 fibres have
different diameters and distances from a point electrode; further ones are copies. `us` is the time
of a step of all fibres in microseconds. `x 1 core` is the time of one fibre in NEURON times the
number of fibres, over the time of clhines; the next column uses the time per fibre of many fibres
on all cores. On CPUs, and in NEURON, time is processor time over the number of cores. `apart` is
the largest voltage difference of one fibre. Thresholds of all ``senn``, to 0.1 %, are counted in
runs of 5 ms. The LFP of pyramidal cells of `bench.neurons` is computed at 100 electrodes: its row
compares steps that record it at every step, or every 0.1 ms, with steps that do not.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

import clhines
from bench import child, neurons, record, table
from bench.peers.fibres_neuron import AT, CURRENT, DT, FIBRES, NODES, PULSE
from clhines.fields import Geometry, fibres, point_potential
from clhines.solver.device import devices

STOP, ELECTRODES, DISTINCT = 5.0, 100, 1000  # ms
# mV: for senn's currents, which are not ohmic, NEURON takes the slope over 0.001 mV
APART = {"mrg": 1e-8, "senn": 1e-2}
LONGEST = 600.0  # s, in NEURON


def made_fibres(name: str, count: int) -> tuple[fibres.Fibres, clhines.Network, Any]:
    """Return fibres 0.5 to 1.5 mm from the electrode; the first one is NEURON's."""
    rng = np.random.default_rng(1)
    place = np.zeros((count, 3))
    place[1:, 1], place[1:, 2] = rng.uniform(-500, 500, (2, count - 1))
    diameters = np.full(count, FIBRES[name][0])
    make = fibres.myelinated if name == "mrg" else fibres.senn
    if name == "mrg":
        diameters[1:] = rng.choice(fibres.TABLE[:, 0], count - 1)
    made = make(diameters, NODES, place)
    net = made.network(clhines.Network.from_arrays)
    net.celsius = FIBRES[name][1]
    potential = CURRENT * point_potential(made.geometry, AT)
    return made, net, net.field(potential, PULSE, continuous=False)


def measured_fibres(name: str, count: int, queue: cl.CommandQueue, each: int) -> dict[str, Any]:
    begin = time.perf_counter()
    copies = max(1, count // DISTINCT)
    made, net, _ = made_fibres(name, min(count, DISTINCT))
    sim = clhines.Simulation(net, DT, queue=queue, v_init=made.v_init)
    sim = sim.replicate(copies) if copies > 1 else sim
    number = sim.record("v", made.ranvier[:1, -2])
    last = np.add.outer(net.forest.num_nodes * np.arange(copies), made.ranvier[:, -2])
    fired = sim.record("v", last.ravel(), reduce="count", threshold=0.0)
    v = sim.run(STOP)[number][:, 0]
    first = time.perf_counter() - begin
    sim.reset()
    on_cpu = devices.is_cpu(queue.device)
    clock = time.process_time if on_cpu else time.perf_counter
    begin = clock()
    spikes = sim.run(STOP)[fired]
    seconds = (clock() - begin) / (record.cores() if on_cpu else 1)
    peer = child.run("peers.fibres_neuron", [name, str(STOP), str(each)], LONGEST)
    row = {
        "name": name, "fibres": sim.network.num_cells, "engine": sim.engine, "first": first,
        "run": seconds, "fired": float((spikes > 0).mean()), "NEURON": peer,
    }  # fmt: skip
    if "reason" not in peer:
        row["apart"] = float(np.abs(v - peer.pop("v")).max())
    return row


def measured_thresholds(count: int, queue: cl.CommandQueue) -> dict[str, Any]:
    """Return the times for all SENN thresholds, for one run with all fibres, and for its set-up."""
    made, net, group = made_fibres("senn", count)
    options = {"queue": queue, "dt": DT, "v_init": made.v_init}
    clhines.Simulation(net, **options).run(STOP)  # kernels are compiled
    begin = time.perf_counter()
    sim = clhines.Simulation(net, **options)
    sim.record("v", made.ranvier[:, 1], reduce="count", threshold=0.0)
    sim.run(STOP)
    first = time.perf_counter() - begin
    sim.reset()
    begin = time.perf_counter()
    sim.run(STOP)
    run = time.perf_counter() - begin
    begin = time.perf_counter()
    thresholds = clhines.find_thresholds(
        net, group, made.ranvier[:, 1], low=0.1, high=100.0, duration=STOP, **options
    )
    seconds = time.perf_counter() - begin
    return {
        "fibres": count,
        "seconds": seconds,
        "runs": thresholds.runs,
        "run": run,
        "set_up": first - run,
    }


def measured_lfp(cells: int, queue: cl.CommandQueue) -> list[dict[str, Any]]:
    """Return a row: steps without a record, with one at every step, and with one every 0.1 ms."""
    rng, name = np.random.default_rng(1), "l5pc"
    cable = neurons.cable_of(name)
    net = neurons.neurons(name, cable, cells)
    geometry = Geometry.of_cable(cable)
    shift = rng.uniform(-250, 250, (cells, 3))
    at = geometry.moved(shift).of(net.nodes())
    electrodes = np.stack(
        [rng.uniform(900, 1100, ELECTRODES), *rng.uniform(-900, 900, (2, ELECTRODES))], 1
    )
    matrix = clhines.fields.point_matrix(at, electrodes)
    rows, plain = [], 0.0
    for every in (None, 0.025, 0.1):
        sim = clhines.Simulation(net, neurons.DT, queue=queue, v_init=neurons.V_INIT)
        if every is not None:
            sim.record("i_membrane", "all", matrix=matrix, every=every)
        sim.run(10.0)
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            sim.run(20.0)
            times.append((time.perf_counter() - begin) * neurons.DT / 20.0)
        step = min(times)
        plain = plain or step
        rows.append({"cells": cells, "every": every, "us": step * 1e6, "ratio": step / plain})
        sim.close()
    return rows


def main(arguments: Sequence[str]) -> int:
    """Run the measure; return 1 if a fibre differs from NEURON's."""
    parser = record.parser("fibres", __doc__ or "")
    parser.add_argument("--fibres", type=int, default=10_000, help="of senn")
    parser.add_argument("--double", type=int, default=100_000, help="of mrg")
    parser.add_argument("--cells", type=int, default=1000, help="of the LFP")
    parser.add_argument("--each", type=int, default=3, help="fibres for each core in NEURON")
    args = parser.parse_args(arguments)
    queue = record.queue(args.device, ["float64"])
    counts = {"mrg": args.double, "senn": args.fibres}
    rows = [measured_fibres(name, n, queue, args.each) for name, n in counts.items()]
    result = {
        "rows": rows,
        "thresholds": measured_thresholds(args.fibres, queue),
        "lfp": measured_lfp(args.cells, queue),
    }
    record.write("fibres", queue, arguments, result, text, args.out)
    return int(any(row.get("apart", 0.0) > APART[row["name"]] for row in rows))


def text(result: dict[str, Any]) -> str:
    steps, lines = round(STOP / DT), []
    for row in result["rows"]:
        peer = row["NEURON"]
        many = [row["fibres"] * peer[k] / row["run"] if k in peer else 0.0 for k in ("one", "all")]
        lines.append(
            f"{row['name']:<6}{row['fibres']:>8}{row['engine']:>12}{row['first']:>9.1f}"
            f"{row['run'] / steps * 1e6:>10.0f}{row['run'] / row['fibres'] * 1e6:>10.1f}"
            f"{many[0]:>10.0f}{many[1]:>9.0f}{row.get('apart', np.nan):>10.1e}"
        )
    cores = next((r["NEURON"]["cores"] for r in result["rows"] if "cores" in r["NEURON"]), 0)
    head = (
        f"{'fibre':<6}{'count':>8}{'engine':>12}{'first s':>9}{'us/step':>10}{'us/fibre':>10}"
        f"{'x 1 core':>10}{f'x {cores}':>9}{'apart':>10}"
    )
    t = result["thresholds"]
    summary = (
        f"Thresholds of {t['fibres']} senn fibres to 0.1 %: {t['seconds']:.2f} s, "
        f"{t['runs']} runs;\nthe time of {t['seconds'] / t['run']:.1f} runs, of "
        f"{(t['seconds'] - t['set_up']) / t['run']:.1f} without the set-up of the first"
    )
    lfp = [
        f"{row['cells']:>6}{row['every'] or 'none':>10}{row['us']:>10.1f}{row['ratio']:>8.2f}"
        for row in result["lfp"]
    ]
    title = f"{'cells':>6}{'every ms':>10}{'us/step':>10}{'ratio':>8}"
    parts = [table.ruled(head, lines), summary, table.ruled(title, lfp)]
    return "\n\n".join(parts)
