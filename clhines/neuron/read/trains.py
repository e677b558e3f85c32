"""VecStim and PatternStim: sources whose .mod files keep fixed event times behind VERBATIM.

Many such files exist under several names. They are recognised by their text: how VERBATIM reads the
Vector, and how NET_RECEIVE uses it.
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass, field

import numpy as np

from clhines.neuron.convert import Rejected, reject
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.objects import on_ranks
from clhines.neuron.memory.raw import WORD, words_at
from clhines.neuron.memory.session import Hoc
from clhines.neuron.read.catalogue import plain
from clhines.neuron.read.contents import Contents
from clhines.neuron.read.patterns import OF_GID, Pattern, by_gid, is_pattern, read_patterns
from clhines.neuron.read.queue import PendingEvents

# index and etime must be a file's first variables; spaces are removed before matching
_VARIABLES = re.compile(r"ASSIGNED\{index(\(1\))?etime(\(ms\))?\w+\}")
_TAKEN = re.compile(r"if\(i<size\)\{etime=[\w()]+\[i\];index\+=1\.?0?;\}else\{index=-1\.?0?;\}")
_NEXT = r"net_send\(etime-t,1\)"
_CHECKED = rf"if\(etime-t>=0\)\{{{_NEXT}\}}else\{{(printf\([^)]*\))?net_send\(0,2\)\}}"
_STARTS = re.compile(rf"INITIAL\{{index=0element\(\)if\(index>0\)\{{({_NEXT}|{_CHECKED})\}}\}}")
_RECEIVES = re.compile(
    r"NET_RECEIVE\(\w+\)\{if\(flag==1\)\{net_event\(t\)"
    rf"(element\(\)if\(index>0\)\{{{_NEXT}\}}\}}"
    rf"|\}}if\(flag==1\|\|flag==2\)\{{element\(\)if\(index>0\)\{{{_CHECKED}\}}\}})\}}"
)
_INDEX, _TIME = 0, 1  # positions among its variables
_NEAR = 1e-9  # ms: rounding error in an event's time


def is_train(text: str) -> bool:
    """Whether an NMODL text is a VecStim, which sends events at the times in a Vector."""
    code = plain(text)
    parts = (_VARIABLES, _TAKEN, _STARTS, _RECEIVES)
    return "vector_arg(1)" in code and all(part.search(code) for part in parts)


@dataclass(eq=False)
class Trains:
    """Unsent events of VecStims and PatternStims, by mechanism and instance."""

    names: tuple[str, ...] = ()
    # ms: as NEURON rounds them, and as the Vectors hold them
    times: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)
    vector_times: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)
    # where a VecStim's variables index and etime are
    fields: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    patterns: dict[tuple[str, int], Pattern] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)

    def follow(self, earlier: Trains) -> bool:
        """Whether the unsent times end the `earlier` ones, as they do if no Vector has changed."""
        for stim, now in self.vector_times.items():
            before = earlier.vector_times.get(stim, now[:0])
            if len(now) > len(before) or not np.array_equal(now, before[len(before) - len(now) :]):
                return False
        return True

    def go_on(self, stim: tuple[str, int], count: int) -> None:
        """Tell NEURON that `stim`, (mechanism, instance), has sent its next `count` events."""
        if stim in self.patterns:
            self.patterns[stim].go_on(count)
            return
        index, etime = (ctypes.c_double.from_address(a) for a in self.fields[stim])
        if count < len(self.times[stim]):
            index.value, etime.value = index.value + count, float(self.vector_times[stim][count])
        else:
            index.value, etime.value = -1.0, float(self.vector_times[stim][-1])


def read_trains(memory: NeuronMemory, contents: Contents, pending: PendingEvents) -> Trains:
    trains = Trains(tuple(n for n, i in contents.points.items() if is_train(i.entry.text)))
    due = {event.target: event.time for event in pending.selves if event.flag == 1}
    waits = {event.target for event in pending.selves if event.flag != 1}
    _read_vectors(memory, contents, trains, (due, waits))
    _add_patterns(trains, memory, contents, due)
    if on_ranks(memory.h):
        trains.rejected += [
            reject(name, "neuron.patternstim-on-ranks")
            for name in sorted({name for name, _ in trains.patterns})
        ]
        trains.names += (OF_GID,) * (OF_GID not in trains.names)
    return trains


def _read_vectors(
    memory: NeuronMemory,
    contents: Contents,
    trains: Trains,
    events: tuple[dict[tuple[str, int], float], set[tuple[str, int]]],
) -> None:
    """Read the unsent times of each VecStim.

    `events`: the time (ms) of each VecStim's next event; VecStims whose next event sends nothing.
    """
    due, waits = events
    vector_at = memory.vectors.by_address() if trains.names else {}
    for name in trains.names:
        for k, thing in enumerate(contents.points[name].things):
            if (name, k) not in due and (name, k) not in waits:  # it sends nothing any more
                trains.times[name, k] = np.zeros(0)
                continue
            try:
                fields = memory.points.fields_of(memory.object_address(thing))
                vector = held_vector(memory, thing, vector_at)
                times = np.array(vector if vector is not None else [], np.float64)
                coming = _coming(times, fields, due.get((name, k)))
                trains.times[name, k], trains.vector_times[name, k] = coming
            except OSError as error:
                said = str(error).format(thing)
                trains.rejected.append(reject(name, "neuron.vecstim", error=said))
                continue
            trains.fields[name, k] = fields[_INDEX], fields[_TIME]


def _add_patterns(
    trains: Trains, memory: NeuronMemory, contents: Contents, due: dict[tuple[str, int], float]
) -> None:
    names = [n for n, i in contents.points.items() if is_pattern(i.entry.text)]
    for name in names:
        for k, one in enumerate(read_patterns(memory, contents, due, name)):
            if isinstance(one, str):
                trains.rejected.append(reject(name, "neuron.patternstim", one=one))
            else:
                trains.patterns[name, k], trains.times[name, k] = one, one.t
    if names:
        trains.names += (*names, OF_GID)
        by = by_gid([*trains.patterns.values()])
        trains.times |= {(OF_GID, gid): times for gid, times in by.items()}


def _coming(
    times: np.ndarray, fields: list[int], due: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return a VecStim's unsent times (ms) twice: as NEURON adds them up, and as in its Vector.

    `times` is the Vector, `due` the time of the pending event. OSError if there is none, or if the
    VecStim's variables (at the addresses `fields`) do not match the Vector.
    """
    index, etime = (ctypes.c_double.from_address(fields[f]).value for f in (_INDEX, _TIME))
    at = int(index) - 1
    if not (0 <= at < len(times) and times[at] == etime):
        raise OSError("the Vector of {} is not found in NEURON's memory")
    rest = times[at:]
    if due is None or abs(rest[0] - due) > _NEAR or (np.diff(rest) < 0).any():
        raise OSError("the times of {} do not ascend")
    coming = [due]
    for time in rest[1:].tolist():
        coming.append(coming[-1] + time - coming[-1])  # in the order of NEURON's C++
    return np.array(coming, np.float64), rest


def held_vector(memory: NeuronMemory, thing: Hoc, vectors: dict[int, Hoc]) -> Hoc | None:
    """Return the only one of `vectors` to which an instance refers; None if none or several."""
    addresses = held(memory, thing, vectors)
    return vectors[addresses.pop()] if len(addresses) == 1 else None


def held(memory: NeuronMemory, thing: Hoc, vectors: dict[int, Hoc]) -> set[int]:
    """Return the addresses of Vectors that an instance's dparam slots and variables hold."""
    fields = memory.points.fields_of(memory.object_address(thing))
    begin, width, size = memory.points.slots_of(memory.object_address(thing))
    words = [*words_at(begin, width // 8 * size), *(WORD.from_address(a).value for a in fields)]
    return {word for word in words if word in vectors}
