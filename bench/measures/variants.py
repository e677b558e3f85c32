"""Time generations of variants of a cell under three protocols, features included.

    python -m bench variants [--device SPEC] [--variants 100 1000 10000] [--stop 1000] ...

The cell is `l5pc-firing` of `bench.neurons`; three conductances of its soma vary. A generation goes
from parameter sets to features. `make s` is the time from the model's description to the first
step, compilation included; `simulate s` and `features s` are for a later generation, which plans
and compiles nothing. NEURON (a process for each core) and Arbor (its threads, its GPU code)
simulate the first of the same variants. Features are compared with the first peer's, float32's with
float64's. `set ms` is the time of `Simulation.set` and `reset` for one batch. To use some cores
only: ``taskset -c 0,1 python -m bench variants ...``; ``--variants --peers --with FILE ...`` joins
several results. Writes ``variants-<device>.json`` and ``.txt``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

import clhines
from bench import child, neurons, record, table
from bench.peers import variants
from clhines.solver.device import devices, program

KEPT, LEFT = 100, 20  # variants whose features a file has, and one put together from several
SAME = 0.9  # share of traces with as many spikes as NEURON's, at least, in float64
PEERS = {
    "neuron": ("peers.variants_neuron", ()),
    "arbor": ("peers.variants_arbor", ("cpu",)),
    "arbor-gpu": ("peers.variants_arbor", ("gpu",)),
}


class Subject:
    """A population from the cell, and generations from it."""

    def __init__(self, queue: cl.CommandQueue, dtype: str, batch: int, stop: float) -> None:
        model = neurons.neurons(variants.CELL, neurons.cable_of(variants.CELL), 1)
        begin, duration = variants.window(stop)
        clamp = {"delay": begin, "dur": duration}
        protocols = {
            f"{amp:g} nA": {"stop": stop, "stimuli": [{"amp": amp, **clamp}]}
            for amp in variants.AMPS
        }
        self.population = clhines.Population(
            model,
            {name: (name, "gbar", "soma") for name, _ in variants.VARIED},
            protocols,
            dt=neurons.DT,
            batch=batch,
            queue=queue,
            dtype=dtype,
            v_init=neurons.V_INIT,
            features=variants.FEATURES,
        )
        self.batch, self.queue = batch, queue

    def generation(self, sets: np.ndarray) -> tuple[variants.Features, float, float]:
        """Return the features, the seconds of simulations, and those to put features in order."""
        parts, simulated, extracted = [], 0.0, 0.0
        for first in range(0, len(sets), self.batch):
            start = time.perf_counter()
            evaluated = self.population.evaluate(sets[first : first + self.batch])
            simulated += time.perf_counter() - start
            start = time.perf_counter()
            features, shape = evaluated.features, (len(evaluated.num_spikes), len(variants.AMPS))
            parts.append({n: variants.mean_of(features[n], shape) for n in variants.FEATURES})
            extracted += time.perf_counter() - start
        return variants.joined(parts), simulated, extracted

    def set_seconds(self, sets: np.ndarray) -> float:
        """Return the seconds for `set` with all varied parameters and `reset`, median of nine."""
        sim, seconds = self.population.simulation, []
        assert sim is not None
        soma = sim.network.nodes(at="soma")
        groups = {g.mechanism.name: g for g in sim.network.groups if np.isin(g.nodes, soma).all()}
        for k in range(9):
            each = np.repeat(np.roll(sets[: self.batch], k, axis=0), len(variants.AMPS), axis=0)
            self.queue.finish()
            start = time.perf_counter()
            for (name, _), column in zip(variants.VARIED, each.T, strict=True):
                sim.set(groups[name], gbar=sim.network.per_cell(column))
            sim.reset()
            self.queue.finish()
            seconds.append(time.perf_counter() - start)
        return float(np.median(seconds))


def row_of(
    queue: cl.CommandQueue, args: argparse.Namespace, dtype: str, count: int
) -> dict[str, Any]:
    sets, batch = variants.sets(count), min(count, args.batch)
    begin, early = time.perf_counter(), len(program.build_seconds)
    subject = Subject(queue, dtype, batch, args.stop)
    subject.generation(sets[:batch])
    first = time.perf_counter() - begin
    compiled = sum(program.build_seconds[early:])
    used = time.process_time()
    features, simulated, extracted = subject.generation(sets)
    used = time.process_time() - used
    seconds = subject.set_seconds(sets)
    assert subject.population.simulation is not None
    print(f"{count} variants, {dtype}: {simulated + extracted:.2f} s", file=sys.stderr)
    return {
        "name": "clhines",
        "where": f"{record.cores()} cores" if devices.is_cpu(queue.device) else "GPU",
        "device": devices.label(queue.device),
        "engine": subject.population.simulation.engine.partition("-")[0],
        "dtype": dtype,
        "variants": count,
        "first_s": first,
        "first_variants": batch,
        "compile_s": compiled,
        "simulate_s": simulated,
        "features_s": extracted,
        "cpu_s": used,
        "set_s": seconds,
        "set_variants": batch,
        "load": os.getloadavg()[0],
        "features_on": "device",
        "features": features,
    }


def rows_of(queue: cl.CommandQueue, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Time all generations; an interrupt (SIGINT) leaves out the one that runs and the others."""
    most = {"float64": args.most_float64, "float32": np.inf}
    each = [(dtype, n) for dtype in args.dtype for n in args.variants if n <= most[dtype]]
    for k, (dtype, count) in enumerate(each):
        try:
            yield row_of(queue, args, dtype, count)
        except KeyboardInterrupt:
            for other, left in each[k:]:
                yield {"name": "clhines", "reason": f"{other} interrupted", "variants": left}
            return


def rows_of_peer(name: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    module, more = PEERS[name]
    rows = []
    for count in args.peer_variants:
        row = child.run(module, [str(count), f"{args.stop:g}", *more], args.most)
        if "reason" not in row:
            first = row["make_s"] + row["simulate_s"] + row["features_s"]
            row |= {"dtype": "float64", "first_s": first, "features_on": "host"}
            row["load"] = os.getloadavg()[0]
        rows.append({"name": name, **row, "variants": count})
    return rows


def compare(rows: list[dict[str, Any]]) -> None:
    """Compare features: of peers and float64 with the first peer's, of float32 with float64's."""
    peer = next((r for r in rows if r["name"] != "clhines"), None)
    for row in rows:
        truth = peer
        if row["name"] == "clhines" and row["dtype"] == "float32":
            same = [r for r in rows if r["name"] == "clhines" and r["dtype"] == "float64"]
            same = [r for r in same if r.get("where") == row.get("where")]
            truth = max(same, key=lambda r: min(r["variants"], row["variants"]), default=None)
        if truth is None or truth is row:
            continue
        count = min(truth["variants"], row["variants"])
        against = f"{truth['name']} {truth['dtype']}, {count} variants"
        if row.get("against") != against or row["variants"] <= KEPT:
            row["against"] = against
            row["apart"] = variants.compared(row["features"], truth["features"])


def check(rows: list[dict[str, Any]]) -> None:
    for r in rows:
        if r["name"] == "clhines" and r.get("against", "").startswith("NEURON"):
            share = r["apart"]["same_count"]
            if share < SAME:
                sys.exit(
                    f"{r['variants']} variants: {share:.0%} of the traces have NEURON's spikes"
                )


def differences(apart: dict[str, float]) -> str:
    return ", ".join(f"{name} {apart[name]:.1e}" for name in variants.FEATURES[1:])


def typical(apart: dict[str, Any]) -> str:
    """Return as text the difference that 95 % of the traces do not exceed, if it is known."""
    if "most" not in apart:
        return ""
    return f"; in 95 % of all traces by at most {differences(apart['most'])}"


def text(result: dict[str, Any]) -> str:
    rows = result["variants"]
    head = (
        f"{'simulator':<12} {'on':<11} {'dtype':<7} {'variants':>8} {'first s':>8} {'gen. s':>8} "
        f"{'feat. s':>7} {'ms/variant':>10} {'cpu ms':>8} {'set ms':>6} {'load':>4}"
    )
    lines, groups = [], []
    for r in rows:
        spent = r["simulate_s"] + r["features_s"]
        on_device = f"{'-':>7}" if r["features_on"] == "device" else None
        of_set = f"{r['set_s'] * 1e3:>6.1f}" if "set_s" in r else f"{'-':>6}"
        lines.append(
            f"{r['name']:<12} {r['where']:<11} {r['dtype']:<7} {r['variants']:>8} "
            f"{r['first_s']:>8.2f} {spent:>8.2f} {on_device or format(r['features_s'], '>7.2f')} "
            f"{spent / r['variants'] * 1e3:>10.2f} "
            f"{table.narrow(r['cpu_s'] / r['variants'] * 1e3, 8, 2)} {of_set} {r['load']:>4.1f}"
        )
        groups.append((r["name"], r["where"], r["dtype"]))
    explained = [
        f"A variant is simulated under {len(variants.AMPS)} protocols of {result['stop']:g} ms at "
        f"dt {neurons.DT:g} ms; {len(variants.FEATURES)} features of each trace. gen. s: a later "
        "generation, features included, which plans and compiles nothing; first s: the first one, "
        f"of at most {result['batch']} variants, with all that comes before it. cpu ms: processor "
        "time per variant, of all cores of the host, which says more where a machine has other "
        "work; Arbor's threads spin while they wait. feat. s: of these features, where the host "
        "computes them. set ms: Simulation.set of all that varies, and reset, of a batch of at "
        f"most {result['batch']} variants under all protocols. load: of the "
        f"{result['record']['host_cores']} cores of the host, after the run; a row's process may "
        "use those in column `on`.",
    ]
    apart = [
        f"{r['name']}, {r['where']}, {r['dtype']}, {r['variants']} variants, against "
        f"{r['against']}: "
        f"{r['apart']['same_count']:.1%} of the traces have as many spikes; in those the features "
        f"differ by at most {differences(r['apart'])}" + typical(r["apart"])
        for r in rows
        if "apart" in r
    ]
    notes = [f"{r['name']}: {note}" for r in rows for note in r.get("notes", [])]
    missing = [(m["name"], m["reason"], f"{m['variants']} variants") for m in result["missing"]]
    parts = [table.ruled(head, lines, groups), "", *table.wrapped(explained), ""]
    parts += [*table.wrapped(apart), "", *table.wrapped(dict.fromkeys(notes))]
    return "\n".join([*parts, *table.missing(missing)]).rstrip()


def main(arguments: Sequence[str]) -> None:
    parser = record.parser("variants", __doc__)
    add = parser.add_argument
    add("--variants", type=int, nargs="*", default=[100, 1000, 10000])
    add("--dtype", nargs="+", choices=["float64", "float32"], default=["float64", "float32"])
    add("--most-float64", type=float, default=np.inf, help="variants of a generation in float64")
    add("--stop", type=float, default=1000.0, help="of each protocol, ms")
    add("--batch", type=int, default=1000, help="sets that are simulated at once")
    add("--peers", nargs="*", choices=list(PEERS), default=["neuron", "arbor"])
    add("--peer-variants", type=int, nargs="+", default=[100])
    add("--with", dest="earlier", nargs="*", default=[], metavar="JSON", help="add their rows")
    add("--most", type=float, default=600.0, help="seconds of a peer's process")
    args = parser.parse_args(arguments)
    queue = record.queue(args.device, args.dtype)
    every, earlier = list[dict[str, Any]](), list[str]()
    for path in args.earlier:
        result_of = json.loads(Path(path).read_text("utf-8"))
        every += result_of["variants"] + result_of["missing"]
        earlier += [*result_of["record"].get("earlier", []), result_of["record"]["command"]]
    every += [row for name in args.peers for row in rows_of_peer(name, args)]
    every += rows_of(queue, args)
    rows = [r for r in every if "reason" not in r]
    compare(rows)
    check(rows)
    kept = LEFT if args.earlier else KEPT  # they suffice to compare another run with this one
    for row in rows:
        row["features"] = {name: values[:kept] for name, values in row["features"].items()}
    result = {
        "record": {"earlier": earlier},
        "variants": rows,
        "missing": [r for r in every if "reason" in r],
        "stop": args.stop,
        "batch": args.batch,
    }
    record.write("variants", queue, arguments, result, text, args.out)
