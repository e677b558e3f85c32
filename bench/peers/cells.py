"""Run copies of a neuron of `bench.neurons` in another simulator, in a process of its own.

    python -m bench peers.cells NEURON '{"cell": "granule", "copies": 2}' result.json

The measure `cells` starts this for each simulator. The result is one row, with the voltages of the
first and the last soma after each step of the compared part, or the reason for its absence. Then
pieces of equal numbers of steps are timed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import clhines
from bench import neurons, nrn
from bench.peers.ring import Clock, attempted, timed
from clhines.simulator.cells.cable import Cable

LEAST, PIECES = 3, 5  # pieces that are timed
WARM = 8  # steps before any is timed
PEERS = {
    "NEURON": "cells_neuron.neuron",
    "CoreNEURON": "cells_neuron.coreneuron",
    "Arbor": "cells_arbor.arbor_host",
    "Arbor GPU": "cells_arbor.arbor_gpu",
    "Jaxley": "cells_jaxley.jaxley",
    "Jaxley GPU": "cells_jaxley.jaxley_gpu",
}  # function in `bench.peers`, whose module only that simulator's process imports


@dataclass(frozen=True)
class Case:
    """The simulated neuron, its copies, and the duration."""

    cell: str  # a name in `neurons.NEURONS`
    copies: int
    steps: int = 800  # steps per timed piece
    check: float = 5.0  # ms before these, for which voltages are returned
    threads: int = 2
    swc: str | None = None  # morphology
    library: str | None = None  # folder in which `compiled` has compiled the .mod files
    seconds: float = 10.0  # after which no more pieces are timed

    def cable(self) -> Cable:
        return neurons.cable_of(self.cell, clhines.read_swc(self.swc)[0] if self.swc else None)


@dataclass
class Running:
    """A simulation that is ready for its first step; see `bench.peers.ring.Running`."""

    name: str
    where: str
    advance: Callable[[int], float | None]
    # at the first and the last soma after each step so far, mV
    voltages: Callable[[], list[list[float]]]
    built: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    keep: Any = None

    def prepare(self, steps: int) -> None:
        """Do nothing: there is nothing to compile before steps."""


def compiled(folder: Path, tables: bool, core: bool) -> Path:
    """Compile the .mod files for NEURON, and for CoreNEURON if asked; the library's folder."""
    source = folder / "mods"
    source.mkdir(parents=True)
    for path in neurons.MODS.glob("*.mod"):
        text = path.read_text("utf-8")
        text = text if tables else neurons.without_tables(text)
        (source / path.name).write_text(text, "utf-8")
    return nrn.compiled(folder, *(["-coreneuron"] if core else []), str(source)).parent


def enough(taken: Sequence[float], steps: int, seconds: float) -> bool:
    return len(taken) >= LEAST and (len(taken) >= PIECES or sum(taken) * steps > seconds)


def measure(running: Running, case: Case) -> dict[str, Any]:
    _, wall = timed(running, 1)  # type: ignore[arg-type]
    running.built["first"] = wall
    begin = round(case.check / neurons.DT)
    timed(running, begin - 1)  # type: ignore[arg-type]
    voltages = [values[-begin:] for values in running.voltages()]
    timed(running, WARM)  # type: ignore[arg-type]
    running.prepare(case.steps)
    seconds: list[float] = []
    used = time.process_time()
    while not enough(seconds, case.steps, case.seconds):
        seconds.append(timed(running, case.steps)[0])  # type: ignore[arg-type]
    used = (time.process_time() - used) / (case.steps * len(seconds))
    return {
        "name": running.name,
        "where": running.where,
        "taken": seconds,
        "used": used,
        "voltages": voltages,
        "built": running.built,
        "notes": running.notes,
    }


def run(name: str, case: Case) -> dict[str, Any]:
    module, _, function = PEERS[name].partition(".")

    def measured() -> dict[str, Any]:
        start = getattr(import_module(f"bench.peers.{module}"), function)
        return measure(start(case, Clock()), case)

    return attempted(measured)


def arguments_of(case: Case) -> str:
    return json.dumps(asdict(case))


def main(arguments: Sequence[str]) -> None:
    name, case, out = arguments
    Path(out).write_text(json.dumps(run(name, Case(**json.loads(case)))), "utf-8")
