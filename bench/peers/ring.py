"""Run the ring network in one simulator, in a process of its own, and time its steps.

    python -m bench peers.ring NEURON '{"cells": 16}' result.json

The measure `ring` starts this for each simulator, so that none has the threads, the memory or the
crashes of another. The result is one row, or the reason for its absence.

Every simulator gets the same cells (`bench.ring.ring_cables`): the same sections, cut into the
same numbers of compartments, with the same areas and resistances as far as it accepts them. The
simulation runs in pieces of equal numbers of steps; a piece, divided by its steps, is one timing.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from bench import MissingError, ring
from clhines.simulator.cells.cable import Cable

WARM = 8  # steps before any is timed
LEAST, MOST = 3, 25  # timed pieces
CELSIUS = 6.3


@dataclass(frozen=True)
class Case:
    """One network and how long it may take."""

    cells: int
    shapes: int = ring.SHAPES  # different cells, repeated in turn
    hh: str = "soma"  # ``soma``: and passive dendrites; ``all``: in every compartment
    levels: int = ring.LEVELS  # this and the next three: from `bench.ring.ring_cables`
    branching: float = ring.BRANCHING
    compartments: int = ring.COMPARTMENTS
    seed: int = 0
    dt: float = 0.025  # ms
    duration: float = 200.0  # ms, at most
    seconds: float = 10.0  # for the timed pieces
    threads: int = 2  # threads for simulators on the host
    dtype: str = "float64"  # this and the next two: for clhines
    engine: str = "auto"
    device: str | None = None
    least_steps: int = WARM  # least steps in a timed piece, if `duration` allows it

    def cables(self) -> list[Cable]:
        shapes = min(self.shapes, self.cells)
        return ring.ring_cables(
            shapes, self.levels, self.branching, self.compartments, seed=self.seed
        )


@dataclass
class Running:
    """A simulation that is ready for its first step."""

    name: str
    where: str  # its device or processors
    compartments: int  # with membrane
    nodes: int  # all matrix rows
    # goes on by steps and waits; seconds by a simulator's clock, or None for wall time
    advance: Callable[[int], float | None]
    spikes: Callable[[], tuple[np.ndarray, np.ndarray]] | None  # times [ms] and cells so far
    # compiles, outside the clock, the code in `advance`
    prepare: Callable[[int], object] = lambda steps: None
    built: dict[str, float] = field(default_factory=dict)  # seconds for each part of the set-up
    dtype: str = "float64"
    notes: list[str] = field(default_factory=list)  # differences from the other simulators
    keep: Any = None  # must live as long as the simulation


class Clock:
    def __init__(self) -> None:
        self.parts: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.parts[name] = self.parts.get(name, 0.0) + time.perf_counter() - begin


def totals(case: Case, cables: list[Cable]) -> int:
    each = [int(cable.nseg.sum()) for cable in cables]
    return int(np.resize(each, case.cells).sum())


@contextmanager
def printed_to(file: Any) -> Iterator[None]:
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(file.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


# -- clhines -----------------------------------------------------------------------------------


def clhines_start(case: Case) -> Running:
    import clhines
    from clhines.solver.device import devices, program

    clock = Clock()
    cables = case.cables()
    queue = devices.make_queue(devices.choose(case.device, np.dtype(case.dtype)))
    early = len(program.build_seconds)
    with clock.part("build"):
        network = ring.ring_network(cables, case.cells, hh=case.hh)
    with clock.part("plan"):
        simulation = clhines.Simulation(
            network,
            dt=case.dt,
            v_init=ring.V_INIT,
            dtype=case.dtype,
            queue=queue,
            engine=case.engine,
        )
    clock.parts["compile"] = sum(program.build_seconds[early:])
    clock.parts["plan"] -= clock.parts["compile"]
    times: list[np.ndarray] = []
    cells: list[np.ndarray] = []

    def advance(steps: int) -> None:
        result = simulation.run(steps * case.dt)
        times.append(result.spike_time)
        cells.append(result.spike_cell)

    return Running(
        name=f"clhines ({simulation.engine}), {case.dtype}",
        where=devices.label(queue.device),
        compartments=totals(case, cables),
        nodes=network.forest.num_nodes,
        advance=advance,
        spikes=lambda: (np.concatenate(times), np.concatenate(cells)),
        built=clock.parts,
        dtype=case.dtype,
        keep=simulation,
    )


# -- timing ------------------------------------------------------------------------------------

OWN = "clhines"
PEERS = {
    OWN: "ring.clhines_start",
    "NEURON": "neuron.neuron",
    "CoreNEURON": "neuron.coreneuron",
    "Arbor": "arbor.arbor_start",
    "Arbor GPU": "arbor.arbor_gpu",
    "Jaxley": "jaxley.jaxley_start",
}  # function in `bench.peers`, whose module only that simulator's process imports


def start(name: str, case: Case) -> Running:
    module, _, function = PEERS[name].partition(".")
    running: Running = getattr(import_module(f"bench.peers.{module}"), function)(case)
    return running


def timed(running: Running, steps: int) -> tuple[float, float]:
    running.prepare(steps)
    begin = time.perf_counter()
    seconds = running.advance(steps)
    wall = time.perf_counter() - begin
    return (wall if seconds is None else seconds) / steps, wall


def measure(running: Running, case: Case) -> dict[str, Any]:
    """Time pieces of the simulation until the seconds or the simulated time are used up."""
    total = round(case.duration / case.dt)
    if total < 2 * WARM + LEAST:
        raise MissingError(f"{total} steps; expected at least {2 * WARM + LEAST}")
    warm = min(WARM, (total - LEAST) // 2)
    first, wall = timed(running, warm)
    if wall > 2 * first * warm:  # time outside the simulator's own clock
        running.built["plan"] = running.built.get("plan", 0.0) + wall - first * warm
    step, _ = timed(running, warm)
    pieces = max(LEAST, 9)
    left = total - 2 * warm
    steps = int(np.clip(case.seconds / pieces / step, case.least_steps, max(left // pieces, 1)))
    seconds: list[float] = []
    used = 0.0
    while len(seconds) < MOST and (len(seconds) + 1) * steps <= left:
        if len(seconds) >= LEAST and used > case.seconds:
            break
        step, wall = timed(running, steps)
        seconds.append(step)
        used += wall
    done = 2 * warm + steps * len(seconds)
    result = row(running, case, seconds)
    result |= {"first_steps_s": first * warm, "piece_steps": steps, "simulated_ms": done * case.dt}
    return result


def row(running: Running, case: Case, taken: list[float]) -> dict[str, Any]:
    step = float(np.median(taken))
    spikes = None
    if running.spikes is not None:
        times, cells = running.spikes()
        order = np.lexsort((cells, times))
        spikes = {"time": np.round(times[order], 6).tolist(), "cell": cells[order].tolist()}
    return {
        "name": running.name,
        "where": running.where,
        "cells": case.cells,
        "hh": case.hh,
        "shapes": min(case.shapes, case.cells),
        "dtype": running.dtype,
        "asked": case.engine,
        "compartments": running.compartments,
        "nodes": running.nodes,
        "seconds": step,
        "best_seconds": min(taken),
        "pieces": len(taken),
        "taken": taken,
        "ns_per_compartment": step / running.compartments * 1e9,
        "setup_s": {k: round(v, 4) for k, v in running.built.items()},
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "spikes": spikes,
        "notes": running.notes,
    }


def run(name: str, case: Case) -> dict[str, Any]:
    row = attempted(lambda: measure(start(name, case), case))
    return {"name": name, "cells": case.cells, **row} if "reason" in row else row


def attempted(measured: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return a row, or the ``reason`` for having none."""
    try:
        return measured()
    except ImportError as error:
        reason = f"not installed: {error}"
    except MissingError as error:
        reason = str(error)
    except Exception as error:  # whatever a simulator does, the others are timed
        reason = f"{type(error).__name__}: {error}"
    return {"reason": first_line(reason)}


def first_line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason"])[0][:200]


def arguments_of(case: Case) -> str:
    return json.dumps(asdict(case))


def main(arguments: Sequence[str]) -> None:
    name, case, out = arguments
    result = run(name, Case(**json.loads(case)))
    Path(out).write_text(json.dumps(result), "utf-8")
