"""Lists that NEURON's library keeps to itself: found by an entry that is known.

The entry is made, a ``std::vector`` that ends with it is looked for behind the library's variables,
and the entry is removed again. The vectors stay where they are as long as the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from clhines.neuron.memory.raw import WORD, Readable, vector_at, words_at

_MOST = 1 << 20  # entries of a list
ENTRY_WORDS = 10  # of an entry that can be read
_known: dict[str, int] = {}  # addresses of the vectors


def entries(name: str) -> list[int] | None:
    """Return a list that `find` has found; None where it has not."""
    return vector_at(_known[name]) if name in _known else None


def find(name: str, path: str, is_last: Callable[[int], bool]) -> None:
    """Find a list of NEURON's library, at `path`, by its last entry, and keep it for `entries`."""
    readable = Readable(8 * ENTRY_WORDS)
    found = {at for at, last in _vectors(path, readable) if last in readable and is_last(last)}
    if len(found) == 1:
        _known[name] = found.pop()


def _vectors(path: str, readable: Readable) -> Iterator[tuple[int, int]]:
    """Yield the vectors that the library's variables point to, and the last entry of each."""
    for begin, end in readable.of_file(path):
        words = np.ctypeslib.as_array((WORD * ((end - begin) // 8)).from_address(begin)).copy()
        for at in np.unique(words[readable.among(words)]).tolist():
            first, after, room = words_at(at, 3)
            if first < after <= room and after - first < 8 * _MOST and first in readable:
                if (after - first) % 8 == 0 and after - 8 in readable:
                    yield at, words_at(after - 8, 1)[0]
