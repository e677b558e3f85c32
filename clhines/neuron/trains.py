"""VecStim: sources whose times are in a Vector, which its file keeps behind VERBATIM."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from clhines.neuron.contents import Contents
from clhines.neuron.convert import Rejected
from clhines.neuron.memory import Memory
from clhines.neuron.queue import Pending
from clhines.neuron.session import Hoc

NAMES = ("VecStim",)


@dataclass(eq=False)
class Trains:
    """Sources of given times.

    Attributes
    ----------
    names : tuple of str
        Mechanisms that are trains.
    times : dict of (str, int) -> (k,) float64, ms
        Events that have not been sent, of each instance.
    rejected : list of Rejected
    """

    names: tuple[str, ...] = ()
    times: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)


def read_trains(
    h: Hoc, memory: Memory, contents: Contents, pending: Pending, vectors: dict[Hoc, Hoc]
) -> Trains:
    """Find the times of all VecStim."""
    found = Trains(tuple(n for n in NAMES if n in contents.points))
    given = {memory.object_of(stim): vector for stim, vector in vectors.items()}
    known = {memory.inside(v): v for v in h.List("Vector")} if found.names else {}
    due = {event.target: event.time for event in pending.selves}
    for name in found.names:
        for k, thing in enumerate(contents.points[name].things):
            next_time = due.get((name, k))
            if next_time is None:  # nothing comes any more
                found.times[name, k] = np.zeros(0)
                continue
            vector = given.get(memory.object_of(thing))
            if vector is None:
                vector = _held(memory, thing, known)
            times = np.sort(np.array(vector, np.float64)) if vector is not None else np.zeros(0)
            if not np.isclose(times, next_time, rtol=0, atol=1e-9).any():
                found.rejected.append(
                    Rejected(
                        name,
                        f"the Vector of {thing} is not found in NEURON's memory",
                        "",
                        0,
                        f"vectors={{{thing}: its Vector}}",
                    )
                )
                continue
            found.times[name, k] = times[times >= next_time - 1e-9]
    return found


def _held(memory: Memory, thing: Hoc, vectors: dict[int, Hoc]) -> Hoc | None:
    """Return the Vector that an instance holds a pointer to, if there is exactly one."""
    held = {address for address in memory.pointers_of(thing) if address in vectors}
    return vectors[held.pop()] if len(held) == 1 else None
