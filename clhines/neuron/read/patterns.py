"""PatternStim: spikes (time and gid) of cells outside the model, stored behind VERBATIM."""

from __future__ import annotations

import ctypes
from collections.abc import Container
from dataclasses import dataclass

import numpy as np

from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.raw import Readable, words_at
from clhines.neuron.read.catalogue import plain
from clhines.neuron.read.contents import Contents

OF_GID = "a gid"  # sender name for a gid's spikes: PatternStim, or another rank
# NEURON's pattern.mod, without comments and spaces
_RECEIVES = "NET_RECEIVE(w){LOCALnstif(flag==1){nst=sendgroup()if(nst>=t){net_send(nst-t,1)}}}"
_KEEPS = "structInfo{intsize;double*tvec;int*gidvec;intindex;};"
_SLOT, _WORD = 2, 2  # the instance's dparam slot, and the word in it, with the Info's address
_SIZE, _TIMES, _GIDS, _INDEX = 0, 8, 16, 24  # bytes into an Info


def is_pattern(text: str) -> bool:
    code = plain(text)
    return _RECEIVES in code and _KEEPS in code and "nrn_fake_fire(gidvec[" in code


@dataclass(frozen=True, eq=False)
class Pattern:
    """Spikes that a PatternStim has not sent yet: times in ms, ascending, and gids."""

    t: np.ndarray
    gid: np.ndarray
    index: int  # where the count of sent events is

    def go_on(self, count: int) -> None:
        """Mark the next `count` spikes as sent in NEURON's memory."""
        ctypes.c_int.from_address(self.index).value += count


def read_patterns(
    memory: NeuronMemory, contents: Contents, due: Container[tuple[str, int]], name: str
) -> list[Pattern | str]:
    """Return the unsent spikes of each instance of PatternStim, or why they are not supported.

    `name` is the mechanism. `due`: instances with a pending self event.
    """
    patterns, readable = list[Pattern | str](), Readable(_INDEX + 8)
    for k, thing in enumerate(contents.points[name].things):
        begin, width, size = memory.points.slots_of(memory.object_address(thing))
        words = words_at(begin, width // 8 * size)
        info = words[_SLOT * (width // 8) + _WORD] if size > _SLOT else 0
        if info not in readable:
            patterns.append(f"where {thing} keeps its spikes is not found in NEURON's memory")
            continue
        count, sent = (ctypes.c_int.from_address(info + at).value for at in (_SIZE, _INDEX))
        if (name, k) not in due or not 0 <= sent < count:
            patterns.append(Pattern(np.zeros(0), np.zeros(0, np.int64), info + _INDEX))
            continue
        t = np.array((ctypes.c_double * count).from_address(words_at(info + _TIMES, 1)[0]))
        gid = np.array((ctypes.c_int * count).from_address(words_at(info + _GIDS, 1)[0]))
        t, gid = t[sent:], gid[sent:].astype(np.int64)
        if (np.diff(t) >= 0).all():
            patterns.append(Pattern(t, gid, info + _INDEX))
        else:
            patterns.append(f"the times of {thing} do not ascend; sort them")
    return patterns


def by_gid(patterns: list[Pattern]) -> dict[int, np.ndarray]:
    """Return the ascending spike times (ms) of each gid in all patterns."""
    if not patterns:
        return {}
    t, gid = (np.concatenate([getattr(p, name) for p in patterns]) for name in ("t", "gid"))
    order = np.lexsort((t, gid))
    t, gid = t[order], gid[order]
    gids, begin = np.unique(gid, return_index=True)
    return dict(zip(gids.tolist(), np.split(t, begin)[1:], strict=True))
