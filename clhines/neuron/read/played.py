"""Vectors that record or play variables, and variables that `target_var` sets."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass, replace

import numpy as np

from clhines.neuron.convert import Rejected, reject, rejection
from clhines.neuron.memory.fields import Fields
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.raw import Place, PlayEntry, ref
from clhines.neuron.memory.session import Hoc
from clhines.neuron.read.contents import Contents
from clhines.neuron.read.places import ELEMENT, MemoryPlaces, Variable
from clhines.neuron.read.tree import Tree

EVERY = -2  # number for a played GLOBAL variable, which all instances share
_MOST_NUMBERS = 1 << 22  # in a block of steps, on the host
_FIRST, _BEFORE = 3e8, -7e8  # numbers that no model contains


def name_of(memory: NeuronMemory, place: Place) -> str:
    """Return a variable's name for users, e.g. ``diam``, ``hh.gnabar``, ``celsius``."""
    owner, name = memory.named(place)
    if name:
        is_structure = owner in ("morphology", "capacitance", "Node") or owner.endswith("_ion")
        return name if is_structure or name.startswith("_") else f"{owner}.{name}"
    return memory.hoc_names.get(place.column, "a variable of a NetCon or another object")


@dataclass(eq=False)
class Recorder:
    """A Vector (at `address`) that records a variable, or the time if the variable is None."""

    address: int
    vector: Hoc  # None between runs, when no NEURON object is held
    variable: Variable | None
    interval: float = 0.0  # ms, 0 for each step
    times: np.ndarray | None = None  # (k,) float64, ms, if it records at given times
    event: int = 0  # address of the event that drives it; 0: records in each step
    now: float = 0.0  # the variable's present value
    place: Place | None = None

    @property
    def next_time(self) -> float:
        """Time for the next number, ms, if it records at given times; infinite after the last."""
        count = len(self.vector)
        return np.inf if self.times is None or count >= len(self.times) else self.times[count]


@dataclass(eq=False)
class Player:
    """Values `y` at times `t` (ms) that play into a variable."""

    variable: Variable
    t: np.ndarray
    y: np.ndarray
    continuous: bool  # interpolated in each step; otherwise set by an event at each time
    what: str = "Vector.play"
    event: int = 0  # address of the event by which NEURON goes on to a Vector's next time
    how_far: int = 0  # where that time's index is
    interval: float = 0.0  # ms, 0: the times are those of a Vector
    after_events: bool = False  # set after a step's events, as Random.play does

    def to_come(self, due: float) -> Player | None:
        """Return the player with the values still to be played; None if there are none.

        When NEURON plays a value, it already reads the next one's time: `due` (ms), infinite after
        the last value. It reads continuous values in each step.
        """
        first = ctypes.c_int.from_address(self.how_far).value
        if self.continuous:
            if due == np.inf:  # NEURON does not notice times that were added since
                return replace(self, t=self.t[: first + 1], y=self.y[: first + 1])
            if first >= len(self.t) or self.t[first] != due:
                raise rejection("", "neuron.vector-times", what=self.what)
            return self
        t, y = self.t[first:].copy(), self.y[first:]
        if due == np.inf or not len(t):
            return None
        t[0] = due
        if self.interval:
            t = _at_intervals(due, self.interval, len(t))
        return replace(self, t=np.maximum.accumulate(t), y=y)


def steps_at_once(each: int) -> int:
    """Return the largest number of steps for which the host holds `each` numbers per step."""
    return max(_MOST_NUMBERS // max(each, 1), 1)


def _at_intervals(begin: float, interval: float, count: int) -> np.ndarray:
    """Return `count` times from `begin` on, as NEURON adds up `interval` (all ms)."""
    return np.add.accumulate(np.r_[begin, np.full(count, interval)])[:count]


def _number(word: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", word))[0])


class PlayReader:
    """Read the Vectors that record or play; with `every`, also before ``h.finitialize()``."""

    def __init__(self, memory: NeuronMemory, places: MemoryPlaces, every: bool = False) -> None:
        self._memory, self._places = memory, places
        self.vectors = memory.vectors.by_address()
        self._time = memory.place(ref(memory.h, "t")).column
        self.recorders: list[Recorder] = []
        self.players: list[Player] = []
        self.rejected: list[Rejected] = []
        self.watched: list[int] = []
        self.in_use: list[int] = []  # words of recorders and players, and Vectors' addresses
        for played in memory.vectors.played(every):
            self._read(played)
        sampled = {recorder.variable for recorder in self.recorders if recorder.event}
        for variable in dict.fromkeys(player.variable for player in self.players):
            if variable in sampled:
                how = f"at intervals or times, of {variable.name}, which Vector.play sets"
                said = reject(variable.owner, "neuron.vector-record-played", how=how)
                self.rejected.append(said)

    def continuous(self, owner: str) -> list[Variable]:
        """Return the variables of mechanism `owner` that Vectors set in each step."""
        every = [player.variable for player in self.players if player.continuous]
        return [v for v in every if v.owner == owner and v.number != EVERY]

    def forget(self) -> None:
        self.vectors = {}
        for recorder in self.recorders:
            recorder.vector = None

    def refresh(self) -> None:
        """Get the Vectors again after `forget`, and read the present values of variables."""
        self.vectors = self._memory.vectors.by_address()
        for recorder in self.recorders:
            recorder.vector = self.vectors[recorder.address]
            if recorder.place is not None:
                recorder.now = self._memory.value(recorder.place)

    def _read(self, played: PlayEntry) -> None:
        self.in_use += played.words
        if played.what == "unknown":
            self._reject("neuron.unknown-recorder")
            return
        if played.calls:
            self._reject("neuron.vector-play-statement")
            return
        is_play = "Play" in played.what
        vector = self.vectors.get(played.words[0])
        if vector is None:
            what = "Vector.play" if is_play else "Vector.record"
            self._reject("neuron.vector-unreadable", what=what)
        elif played.what == "TvecRecord":
            self.recorders.append(Recorder(played.words[0], vector, None))
        elif is_play:
            variable = self._places.find(played.place) or self._global(played.place)
            if variable is not None:
                self._play(played, vector, variable)
                return
            name = name_of(self._memory, played.place)
            self._reject("neuron.play-into-hoc", what="Vector.play", name=name)
        else:
            self._record(played, vector)

    def _record(self, played: PlayEntry, vector: Hoc) -> None:
        place = played.place
        is_time = not place.row and place.column == self._time
        variable = None if is_time else self._places.find(place)
        if variable is None and not is_time and not place.row:
            variable = Variable(ELEMENT, "x", place.column)  # if a mechanism writes it
        if variable is None and not is_time:
            self.rejected.append(self.not_recorded(place))
            return
        now = self._memory.value(place)
        recorder = Recorder(played.words[0], vector, variable, now=now, place=place)
        if played.what == "VecRecordDt":
            recorder.interval, recorder.event = _number(played.words[1]), played.words[2]
        elif played.what == "VecRecordDiscrete":
            times = np.array(self.vectors[played.words[1]], np.float64)
            recorder.times = np.maximum.accumulate(times)  # what is past is due at once
            self.watched.append(played.words[1])
            recorder.event = played.words[2]
        self.recorders.append(recorder)

    def _global(self, place: Place) -> Variable | None:
        for owner, name in self._places.globals_() if not place.row else ():
            at = self._memory.known_place(self._memory.h, f"{name}_{owner}")
            if at is not None and at.column == place.column:
                return Variable(owner, name, EVERY)
        return None

    def _play(self, played: PlayEntry, vector: Hoc, variable: Variable) -> None:
        y, continuous = np.array(vector, np.float64), played.what == "VecPlayContinuous"
        times = self.vectors.get(played.words[1])
        self.watched += [w for w in played.words[:2] if w in self.vectors]
        if continuous and played.words[2]:
            self._reject("neuron.vector-play-discontinuities")
            return
        interval = 0.0 if times is not None else _number(played.words[2])
        t = _at_intervals(0.0, interval, len(y)) if times is None else np.array(times, np.float64)
        count = min(len(t), len(y))
        if continuous and count < len(t):
            self._reject("neuron.vector-times", what="Vector.play")
        elif count:
            made = Player(variable, t[:count], y[:count], continuous)
            made.event, made.how_far = played.event, played.how_far
            made.interval = interval
            self.players.append(made)

    def not_recorded(self, place: Place) -> Rejected:
        return reject("", "neuron.vector-record", name=name_of(self._memory, place))

    def _reject(self, id_: str, **fields: str) -> None:
        self.rejected.append(reject("", id_, **fields))


@dataclass(frozen=True)
class Gap:
    """A variable that `ParallelContext.target_var` sets to a voltage in every step."""

    owner: str
    name: str
    instance: int
    node: int  # -1 if its value is no voltage in this model


def read_gaps(
    memory: NeuronMemory, fields: Fields, tree: Tree, contents: Contents, nodes: range, count: int
) -> tuple[list[Gap], list[Rejected]]:
    """Return the variables that ``target_var`` sets, with their source nodes, and rejections.

    NEURON's tables are private. So this sets each node's voltage to a unique number and calls
    NEURON's transfer, which is exported: each variable then shows its source. All MPI ranks call
    this. `nodes`: numbers of this rank's nodes among `count` nodes of all ranks.
    """
    if not memory.transfers:
        return [], []
    v, rows = fields.rows(tree.v, tree.addresses)
    candidates, voltages = {**contents.points, **contents.density}, v[rows]
    candidates_values = [
        (owner, name, instances, instances.values(name))
        for owner, instances in candidates.items()
        for name, size in instances.entry.ranges.items()
        if size == 1 and name not in instances.entry.states
    ]
    gaps, unset = [], list[Rejected]()
    try:
        v[rows] = _FIRST + nodes.start + tree.numbers
        for _, name, instances, values in candidates_values:
            instances.put(name, np.full(len(values), _BEFORE))
        memory.transfer()
        for owner, name, instances, _ in candidates_values:
            now = instances.values(name)
            for k in np.flatnonzero(now != _BEFORE).tolist():
                node = int(now[k] - _FIRST) if now[k] >= _FIRST else -1
                gaps.append(Gap(owner, name, k, node if node < count else -1))
    except RuntimeError:
        unset.append(reject("", "neuron.transfer-not-set-up"))
    finally:
        v[rows] = voltages
        for _, name, instances, values in candidates_values:
            instances.put(name, values)
    return gaps, unset
