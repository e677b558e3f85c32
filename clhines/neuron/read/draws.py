"""Random.play: NEURON draws the numbers of a run in advance, in its own order.

NEURON draws after the events of the first half of each step, before it computes currents. Here
NEURON's function draws the numbers of all steps of a run; the run then plays them step by step.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from clhines.neuron.convert import Rejected, reject
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.raw import Place, words_at
from clhines.neuron.read.hooks import random_plays
from clhines.neuron.read.places import MemoryPlaces, Variable
from clhines.neuron.read.played import Player, name_of, steps_at_once

_RANDOM_WORDS = 2  # hoc Random: generator, distribution
_CACHING = "Normal", "LogNormal"  # distributions that store every second number
_STREAM_BYTES, _COUNTER_BYTES, _CACHE_BYTES = 33, 4, 16


def drawn_from(memory: NeuronMemory, random: int) -> tuple[dict[int, int], int]:
    """Return the memory that a draw from the Random at address `random` changes.

    The first result has sizes in bytes by address, the second is the address of the counter.
    """
    table = memory.table_of_class
    generator, distribution = words_at(random, _RANDOM_WORDS)
    kind = words_at(generator, 1)[0]
    if kind == table("NrnRandom123"):
        stream = words_at(generator, 2)[1]
        kept = {stream: _STREAM_BYTES}
    elif kind == table("MCellRan4"):
        stream = generator + 8
        kept = {stream: _COUNTER_BYTES}
    else:
        raise OSError("a generator of Random is not as expected")
    if words_at(distribution, 1)[0] in map(table, _CACHING):
        kept[distribution + 16] = _CACHE_BYTES
    return kept, stream


class Draws:
    """Variables that Randoms play into, and the numbers drawn for the next steps."""

    def __init__(self, memory: NeuronMemory, places: MemoryPlaces) -> None:
        self._memory = memory
        self._places: dict[Variable, Place] = {}  # if two Randoms play, the last one counts
        self._kept: dict[int, int] = {}  # what drawing changes: sizes in bytes by address
        self.streams: set[int] = set()  # addresses of Random123 streams and counters
        self.rejected: list[Rejected] = []
        for random, place in random_plays(memory.h, memory):
            variable = places.find(place)
            if variable is None:
                name = name_of(memory, place)
                self.rejected.append(reject("", "neuron.random-play-into", name_of=name))
                continue
            self._places[variable] = place
            kept, stream = drawn_from(memory, random)
            self._kept |= kept
            self.streams.add(stream)
        self._t, self._y = np.zeros(1), np.array([[memory.value(p) for p in self._places.values()]])

    def __bool__(self) -> bool:
        return bool(self._places)

    @property
    def most_steps(self) -> int:
        """Most steps to draw numbers for at once; the device takes all but the last one of them."""
        return steps_at_once(len(self._places)) + 1

    @property
    def players(self) -> list[Player]:
        t, every, what = self._t, zip(self._places, self._y.T, strict=True), "Random.play"
        return [Player(v, t, y, False, what, after_events=True) for v, y in every]

    @contextmanager
    def ahead(self, t: np.ndarray) -> Iterator[None]:
        """Draw numbers for steps that begin at times `t`, ms; undo the draws if the block fails."""
        if not self or not len(t):
            yield
            return
        memory, places = self._memory, [*self._places.values()]
        before = [memory.value(place) for place in places]
        kept = {at: ctypes.string_at(at, size) for at, size in self._kept.items()}
        draw = memory.function("nrn_random_play", None)
        numbers = [memory.number(place) for place in places]
        try:
            drawn = np.empty((len(t), len(places)))
            for row in drawn:
                draw()
                row[:] = [number.value for number in numbers]
            self._set(places, before)
            self._t, self._y = t, drawn
            yield
            self._set(places, drawn[-1].tolist())
        except BaseException:
            for at, copy in kept.items():
                ctypes.memmove(at, copy, len(copy))
            self._set(places, before)
            raise

    def _set(self, places: list[Place], values: list[float]) -> None:
        for place, value in zip(places, values, strict=True):
            self._memory.number(place).value = value
