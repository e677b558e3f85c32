"""Read and write random streams (Random123) of mechanisms' instances in NEURON.

Python shows the counter of a RANDOM variable. A POINTER that VERBATIM draws from holds the address
of a stream or of a hoc Random. A stream has five words: its counter (two), the four 32-bit numbers
that the counter yields (two), and which of these numbers comes next.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clhines.core.errors import InputError
from clhines.neuron.convert import rejection
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.raw import Readable, gather, put_numbers, words_at
from clhines.neuron.memory.session import Hoc
from clhines.simulator.mechanisms import philox, scop

_RANDOM123 = 4  # NEURON's number for this generator
_STREAM_WORDS, _DISTRIBUTION_WORDS = 5, 8
_STATE = 2  # the word in a RANDOM variable's C++ object that points to its stream


@dataclass(frozen=True, eq=False)
class RandomVariable:
    """The streams of a RANDOM variable, one per instance."""

    memory: NeuronMemory
    owner: str
    things: Sequence[Hoc]
    name: str
    index: int  # all streams' global index

    def ids(self) -> np.ndarray:
        ids = [list(stream.get_ids()) for stream in self._each()]
        return np.array(ids).astype(np.uint32).reshape(-1, 3)

    def drawn(self) -> np.ndarray:
        """Return how many numbers each stream has drawn, (k,) int64."""
        return np.array([stream.get_seq() for stream in self._each()]).astype(np.int64)

    def check(self) -> None:
        """Raise a RejectedError if a stream's numbers do not belong to its counter.

        This happens if ids or the global index were set after NEURON computed the numbers.
        """
        streams = self._each()
        inside = self.memory.insides_of(self.memory.objects_of(streams))
        words = gather(gather(inside, _STATE + 1)[:, _STATE].astype(np.int64), _STREAM_WORDS)
        counter = _halves(words[:, :2])
        same = np.array_equal(_ids(counter), self.ids())
        if not same or (_drawn(words) != self.drawn()).any():
            raise InputError(f"RANDOM {self.name} of {self.owner} is not laid out as in NEURON 9.0")
        if not _in_turn(words, self.index):
            raise rejection(self.owner, "neuron.random-words-before-set-ids", name=self.name)

    def put(self, drawn: np.ndarray) -> None:
        for stream, count in zip(self._each(), drawn.tolist(), strict=True):
            stream.set_seq(count)

    def distribution(self) -> np.ndarray:
        """Return low, width, mean of ``low + width*u - mean*log(u)``, u uniform, (k, 3) float64."""
        return np.tile([0.0, 1.0, 0.0], (len(self.things), 1))

    def _each(self) -> list[Hoc]:
        return [getattr(thing, self.name) for thing in self.things]


class PointerStreams:
    """The streams to which a mechanism's POINTER `name` points, one per instance.

    `owner` is the mechanism, `index` the global index of all streams. `pointers` has the address in
    each instance's POINTER. Address 0 raises a RejectedError, or with `lack` means no stream.
    """

    def __init__(
        self,
        memory: NeuronMemory,
        owner: str,
        name: str,
        pointers: np.ndarray,
        index: int,
        lack: bool,
    ) -> None:
        self._owner, self._name, self._index = owner, f"POINTER {name}", index
        self._has_stream = pointers != 0
        if not (lack or pointers.all()):
            raise rejection(owner, "neuron.pointer-without-stream", name=self._name)
        random = list(memory.h.List("Random"))
        hoc_randoms = memory.insides_of(memory.objects_of(random)) if random else np.zeros(0)
        self._at = pointers[self._has_stream]
        of_hoc = np.flatnonzero(np.isin(self._at, hoc_randoms))
        self._distribution = np.tile([0.0, 1.0, 0.0], (len(self._at), 1))
        if of_hoc.size:
            self._at[of_hoc] = self._of_random(memory, of_hoc)
        readable = Readable(8 * _STREAM_WORDS)
        if not all(readable.likely(at) for at in self._at.tolist()):
            raise rejection(owner, "neuron.pointer-to-no-stream", name=self._name)
        if np.unique(self._at).size < len(self._at):
            raise rejection(owner, "neuron.stream-shared", name=self._name)
        self.check()

    @property
    def addresses(self) -> set[int]:
        return {*self._at.tolist()}

    def ids(self) -> np.ndarray:
        return self._of_all(_ids(self._counters()))

    def drawn(self) -> np.ndarray:
        return self._of_all(_drawn(gather(self._at, _STREAM_WORDS)))

    def _of_all(self, values: np.ndarray) -> np.ndarray:
        """Expand rows of instances with a stream to all instances; other rows are 0."""
        rows = np.zeros((len(self._has_stream), *values.shape[1:]), values.dtype)
        rows[self._has_stream] = values
        return rows

    def check(self) -> None:
        if self._at.size and not _in_turn(gather(self._at, _STREAM_WORDS), self._index):
            raise rejection(self._owner, "neuron.stream-of-another-index", name=self._name)

    def put(self, drawn: np.ndarray) -> None:
        drawn, counter = drawn[self._has_stream], self._counters()
        counter[:, 0] = drawn // 4
        last = gather(self._at, _STREAM_WORDS)[:, 4] & ~np.uint64(255)
        turn = np.hstack([counter, _turn(counter, self._index)])
        halves = np.ascontiguousarray(turn).view(np.uint64)
        words = np.column_stack([halves, last | (drawn % 4).astype(np.uint64)])
        for k in range(_STREAM_WORDS):
            put_numbers(self._at + 8 * k, np.ascontiguousarray(words[:, k]).view(np.float64))

    def distribution(self) -> np.ndarray:
        """Return `RandomVariable.distribution`, and whether there is a stream, 1 or 0, (k, 4)."""
        return np.column_stack([self._of_all(self._distribution), self._has_stream])

    def _counters(self) -> np.ndarray:
        return _halves(gather(self._at, 2))

    def _of_random(self, memory: NeuronMemory, indices: np.ndarray) -> np.ndarray:
        """Return the addresses of the streams of hoc Randoms, and store their distributions.

        `indices` are those of the instances whose POINTER has the address of a Random.
        """
        generator, numbers, kind = gather(self._at[indices], 3).T.astype(np.int64)
        if (kind & 0xFFFFFFFF != _RANDOM123).any():
            raise rejection(self._owner, "neuron.random-generator", name=self._name)
        example = memory.h.Random()
        inside = memory.object_address(example)
        example.uniform(2.5, 7.25)
        uniform, low, high = self._distribution_words(inside, 2.5, 7.25)
        example.negexp(3.5)
        exponential, mean = self._distribution_words(inside, 3.5)
        words = gather(numbers, _DISTRIBUTION_WORDS)
        values, kinds = words.view(np.float64), words[:, 0].astype(np.int64)
        if not np.isin(kinds, (uniform, exponential)).all():
            raise rejection(self._owner, "neuron.random-distribution", name=self._name)
        is_uniform = kinds == uniform
        width = values[:, high] - values[:, low]
        columns = np.column_stack([values[:, low], width, 0.0 * width])
        of_mean = values[:, [mean]] * [0.0, 0.0, 1.0]
        self._distribution[indices] = np.where(is_uniform[:, None], columns, of_mean)
        return gather(generator + 8)[:, 0].astype(np.int64)

    def _distribution_words(self, random: int, *values: float) -> list[int]:
        """Return a Random's distribution: its first word, and where each of `values` is in it."""
        words = words_at(words_at(random, 2)[1], _DISTRIBUTION_WORDS)
        bits = np.array(values).view(np.uint64).tolist()
        if not all(bit in words for bit in bits):
            raise OSError("Random's distributions are not as expected")
        return [words[0], *(words.index(bit) for bit in bits)]


class Generator:
    """NEURON's shared generator (scop_random and others), from which one instance draws."""

    def __init__(self, memory: NeuronMemory, owner: str, count: int) -> None:
        self._owner, self._h, self._count = owner, memory.h, count
        self._next = memory.function("_Z11scop_randomv", ctypes.c_double)
        self._set = memory.function("_Z8set_seedd", None, ctypes.c_double)

    def ids(self) -> np.ndarray:
        return np.zeros((self._count, 3), np.uint32)

    def distribution(self) -> np.ndarray:
        return np.zeros((self._count, 3))

    def drawn(self) -> np.ndarray:
        """Return, in place of a count of draws, the generator's state minus 1, (1,) int64."""
        state = round(self._next() * scop.MOST)
        before = (state - scop.TERM) * pow(scop.FACTOR, -1, scop.MOST + 1) & scop.MOST
        self._set(before)
        return np.array([(before - 1) & scop.MOST])

    def check(self) -> None:
        if self._h.use_mcell_ran4():
            raise rejection(self._owner, "neuron.mcell-ran4")

    def put(self, drawn: np.ndarray) -> None:
        self._set(float((int(drawn[0]) + 1) & scop.MOST))


Streams = RandomVariable | PointerStreams | Generator


def _halves(words: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(words).view(np.uint32).copy()


def _turn(counter: np.ndarray, index: int) -> np.ndarray:
    """Return the four 32-bit numbers that Random123 computes from each counter and `index`."""
    return philox(counter.T, (np.uint32(index), np.uint32(0))).T


def _ids(counter: np.ndarray) -> np.ndarray:
    return counter[:, [2, 3, 1]]


def _drawn(words: np.ndarray) -> np.ndarray:
    """Return how many numbers each stream has drawn, from the stream's words."""
    return _halves(words[:, :1])[:, 0].astype(np.int64) * 4 + _next(words)


def _next(words: np.ndarray) -> np.ndarray:
    """Return the index, among a stream's four numbers, of the one to draw next."""
    return words[:, 4].astype(np.int64) & 255


def _in_turn(words: np.ndarray, index: int) -> bool:
    """Whether all streams hold the numbers that their counters and `index` yield."""
    same = np.array_equal(_halves(words[:, 2:4]), _turn(_halves(words[:, :2]), index))
    return same and bool((_next(words) <= 3).all())
