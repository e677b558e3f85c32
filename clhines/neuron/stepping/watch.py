"""Whether a loop's body has changed anything since the last step that it was given."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence, Set
from itertools import chain

import numpy as np

from clhines.neuron.fingerprint import Fingerprint, counts
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.raw import compare, ref, words_in
from clhines.neuron.memory.session import Hoc
from clhines.neuron.model import NeuronModel
from clhines.neuron.read.hooks import list_words

_NUMBERS = "dt", "celsius"  # of hoc
_STRUCTURE = "structure_change_cnt", "tree_changed", "v_structure_change", "n_memb_func"
_SWITCHES = ("diam_changed", "diam_change_cnt", "cvode_active_", "nrn_use_fast_imem",
             "nrn_use_selfqueue_", "nrn_use_bin_queue_", "secondorder",
             "nrn_netrec_state_adjust")  # fmt: skip
_OWNERS = np.uint64(0xFFFFFFFF)
_LONG = 32  # words that are compared at once
_POINTERS = "nrn_multisplit_solve_", "nrnmpi_splitcell_compute_", "nrn_nonvint_block"
_CLASSES = "LinearMechanism", "StateTransitionEvent"


class Halves:
    """Words that stay, and variables of NEURON's library that are whole numbers of 32 bits."""

    def __init__(
        self, memory: NeuronMemory, names: Sequence[str], words: np.ndarray | None = None
    ) -> None:
        at = np.array([memory.address(name) for name in names], np.int64)
        shift = np.uint64(8) * (at % 8).astype(np.uint64)
        whole = np.zeros(0, np.int64) if words is None else words
        every = np.full(len(whole), ~np.uint64(0))
        self._mask = np.append(every, np.uint64(0xFFFFFFFF) << shift)
        self._words, self._where = words_in(np.append(whole, at & -8))
        self.take()

    def take(self) -> None:
        self._kept = self._words[self._where] & self._mask

    def same(self) -> bool:
        return np.array_equal(self._words[self._where] & self._mask, self._kept)


class KnownWords:
    """Words of memory beside what they are to be; of the first `alone` one by one."""

    def __init__(self, at: np.ndarray, alone: int = 0) -> None:
        self.at = at
        self.words, self.where = words_in(at)
        self._runs = _runs(at, alone)
        single = np.ones(len(at), bool)
        for _, begin, end in self._runs:
            single[begin:end] = False
        self._alone = np.flatnonzero(single)
        self._where_alone = self.where[single]
        self.take()

    def take(self) -> None:
        self.known = self.words[self.where]

    def same(self) -> bool:
        at = self.known.ctypes.data
        if any(compare(a, at + 8 * b, 8 * (e - b)) for a, b, e in self._runs):
            return False
        return np.array_equal(self.words[self._where_alone], self.known[self._alone])


class Held:
    """Keeps NetCons, point processes and some Vectors of a model, so that a body takes none away.

    What has no other owner any more is to go once NEURON's memory is settled.
    """

    def __init__(self, model: NeuronModel, vectors: Sequence[Hoc]) -> None:
        # by name of those alone that there are: each text that hoc gets may overwrite an older one
        names = "NetCon", *{*model.contents.points, *model.wires.senders.names}
        every = chain.from_iterable(model.h.List(name) for name in names)
        self._things = [*vectors, *every]
        # the first half of an object's first word counts its owners
        self._words, self._where = words_in(model.memory.objects_of(self._things))

    def let_go(self) -> None:
        self._things.clear()
        self._where = self._where[:0]

    def are_left(self) -> bool:
        """Whether one of them is kept here alone."""
        return bool(((self._words[self._where] & _OWNERS) == 1).any())


class Watch:
    """Words of memory beside what they are to be: `handed` first, then ends of Vectors, the rest.

    Parameters
    ----------
    handed : (n,) int64
        Addresses of what steps change, hoc's t last.
    ends : (v,) int64
        Addresses of the words with the ends of Vectors that record.
    whole : bool
        Watch variables, too, and not only that all is where it was.
    names : set of str, optional
        Of hoc's code, which changes no others: `rest_is_same` tells whether that is so.
    """

    def __init__(
        self,
        model: NeuronModel,
        known: Fingerprint,
        handed: np.ndarray,
        ends: np.ndarray,
        whole: bool,
        names: Set[str] | None = None,
    ) -> None:
        memory = model.memory
        own, changed, left = known.words(names if whole else None)
        numbers = [memory.place(ref(model.h, name)).column for name in _NUMBERS]
        of_globals = [np.array(numbers, np.int64)]
        for name, instances in model.every.items():
            for variable, size in instances.entry.globals_.items():
                place = memory.known_place(model.h, f"{variable}_{name}", size)
                if place is not None:
                    of_globals.append(place.column + 8 * np.arange(size))
        lists = [*list_words(), memory.plays_at(), model.sources.listed_at()]
        played = [memory.vector_words(at) for at in model.plays.watched]
        inside = [words_from(at) for at in (*lists, *played)]
        pairs = [at + 8 * k for at in (*lists, *played) for k in range(2)]
        every = [changed, *of_globals, model.sources.word_addresses()] if whole else []
        rest = np.concatenate([*every, *inside, model.queue.word_addresses()])
        first = np.concatenate([handed, ends])
        rest = np.setdiff1d(rest, first)
        self._count, self._vectors = len(handed), len(ends)
        self._seen = KnownWords(np.concatenate([first, rest]), len(first))
        left = np.setdiff1d(left, self._seen.at) if whole else left[:0]
        self._rest = KnownWords(left)
        guards = [own, pairs, [memory.address(name) for name in _POINTERS]]
        guards += [[ctypes.addressof(one) for one in counts(memory, _CLASSES)]]
        stay = np.concatenate([np.array(some, np.int64) for some in guards])
        self._there = Halves(memory, _STRUCTURE, stay)
        self._switches = Halves(memory, _SWITCHES)
        self.take()

    def take(self) -> None:
        """Let all be as it is now."""
        self._there.take()
        self._switches.take()
        self._seen.take()
        self._rest.take()

    def is_there(self) -> bool:
        """Whether all words are where they were."""
        return self._there.same()

    def switches_are_same(self) -> bool:
        return self._switches.same()

    def same(self) -> bool:
        """Whether nothing has been changed that the code in hoc may change."""
        return self._there.same() and self._switches.same() and self._seen.same()

    def rest_is_same(self) -> bool:
        """Whether nothing else has been changed; all is where it was."""
        return self._rest.same()

    def changed(self) -> tuple[np.ndarray, np.ndarray]:
        """Return addresses of words that have been changed, and these; all are where they were."""
        seen = self._seen
        now = seen.words[seen.where]
        at = np.flatnonzero(now != seen.known)
        return seen.at[at], now[at]

    def handed(self) -> np.ndarray:
        """(n,) float64: what steps change, as it was given."""
        return self._seen.known[: self._count].view(np.float64).copy()

    def put(self, row: np.ndarray) -> None:
        """Put numbers of a step, (n,) float64, into memory."""
        self._put(slice(0, self._count), row.view(np.uint64))

    def put_back(self) -> None:
        """Let all be as it is to be."""
        self._put(slice(None), self._seen.known)

    def put_ends(self, which: np.ndarray, ends: np.ndarray) -> None:
        """Put ends of some of the Vectors, by number."""
        self._put(self._count + which, ends)

    def _put(self, at: slice | np.ndarray, words: np.ndarray) -> None:
        self._seen.known[at] = words
        self._seen.words[self._seen.where[at]] = words

    def take_ends(self) -> np.ndarray:
        """(v,) int64: the ends of the Vectors, which may have moved."""
        seen, at = self._seen, slice(self._count, self._count + self._vectors)
        seen.known[at] = seen.words[seen.where[at]]
        return seen.known[at].astype(np.int64)


def _runs(at: np.ndarray, first: int) -> list[tuple[int, int, int]]:
    """Return addresses, begins and ends of long runs of words that follow each other."""
    cuts = np.flatnonzero(np.diff(at[first:]) != 8) + 1 + first
    bounds = np.concatenate([[first], cuts, [len(at)]])
    long = np.diff(bounds) >= _LONG
    begin, end = bounds[:-1][long], bounds[1:][long]
    return list(zip(at[begin].tolist(), begin.tolist(), end.tolist(), strict=True))


def words_from(at: int) -> np.ndarray:
    """(n,) int64: addresses of the words of a ``std::vector``, by its own."""
    begin, end = (ctypes.c_uint64.from_address(at + 8 * k).value for k in range(2))
    return np.arange(begin, end, 8, dtype=np.int64)
