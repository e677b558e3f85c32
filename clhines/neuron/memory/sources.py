"""Read NEURON's sources of events (PreSyn) and their NetCons from memory."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.raw import Source, gather, halves, ref, run_in, vector_at, words_at
from clhines.neuron.memory.session import Hoc, all_sections

_MARK, _THRESHOLD, _DELAY = 0x5EED_C0DE, 1234.56789, 98.7654321  # to find in an example's words
NETCON_WORDS = 7
RECORDING = 6, 7  # columns in `EventSources.words`: the Vectors for times and numbers
_SAMPLES = 20  # NetCons to compare with hoc's values after reading all


class NetConColumns(NamedTuple):
    """The fields of all NetCons, as arrays, (m,) each."""

    address: np.ndarray
    source: np.ndarray  # the source's (PreSyn) address, 0 for none
    target: np.ndarray  # the point process's address, 0 for none
    active: np.ndarray
    delay: np.ndarray  # ms
    weight: np.ndarray  # the first weight's address, 0 for none


class EventSources:
    """Read and set sources and NetCons; OSError if they are not as expected."""

    def __init__(self, h: Hoc, memory: NeuronMemory) -> None:
        self._h, self._memory = h, memory
        self._list = memory.function("_Z22net_cvode_instance_pslv", ctypes.c_void_p)
        self._fields: dict[str, int] = {}
        self._calibrate()

    def every(self) -> list[Source]:
        return [self._source(a) for a in vector_at(self._list() or 0)]

    def _source(self, address: int) -> Source:
        f = self._fields
        words = words_at(address)
        place = self._memory.place_of(words[f["place"] : f["place"] + 4])
        variable = place if place.column else None
        signed = [i - (1 << 32) if i >> 31 else i for i in halves(words[f["rank"] :])]
        at = f["odd"]
        return Source(
            address, variable, words[f["place"] + 4], words[f["times"]], words[f["times"] + 1],
            signed[at], signed[at + 2], signed[at + 1] >= 0, bool(words[f["rank"]]),
        )  # fmt: skip

    def words(self) -> np.ndarray:
        """Return, for each source, its address and the words that define it, (s, 13) uint64."""
        f, address = self._fields, np.array(vector_at(self._list() or 0), np.int64)
        first, rank = f["place"], f["rank"]
        chosen = [*range(first, first + 5), f["times"], f["times"] + 1, rank, f["threshold"]]
        words = gather(address, max(*chosen, rank + f["odd"] // 2 + 1) + 1)
        halves_ = words.view(np.uint32)[:, 2 * rank + f["odd"] + np.arange(3)]
        return np.column_stack([address.astype(np.uint64), words[:, chosen], halves_])

    def threshold(self, address: int) -> float:
        return float(ctypes.c_double.from_address(address + 8 * self._fields["threshold"]).value)

    def netcons(self, things: Sequence[Hoc]) -> NetConColumns:
        address, f = self._memory.insides_of(self._memory.objects_of(things)), self._fields
        words = gather(address, NETCON_WORDS)
        delay = words[:, f["delay"]].copy().view(np.float64)
        source = words[:, f["of_netcon"]].astype(np.int64)
        targets = next((t for t in things if t.syn() is not None), None)
        target = weight = np.zeros(len(things), np.int64)
        active = np.zeros(len(things), np.uint8)
        try:
            if targets is not None:
                example = words_at(self._memory.object_address(targets), NETCON_WORDS)
                at = example.index(self._memory.object_address(targets.syn()))
                target = words[:, at].astype(np.int64)
                active = words.view(np.uint8)[:, self._active_byte(targets)]
            weighted = next((t for t in things if t.wcnt()), None)
            if weighted is not None:
                example = words_at(self._memory.object_address(weighted), NETCON_WORDS)
                at = example.index(self._memory.weight_address(weighted))
                weight = words[:, at].astype(np.int64)
        except ValueError:
            raise OSError("a NetCon is not as expected") from None
        columns = NetConColumns(address, source, target, active != 0, delay, weight)
        for k in range(0, len(things), max(len(things) // _SAMPLES, 1)):
            self._check_netcon(things[k], columns, k)
        return columns

    def _active_byte(self, thing: Hoc) -> int:
        """Return the offset of the active flag in NetCons, found in a NetCon with a target."""
        was = bool(thing.active())
        both = []
        for active in (not was, was):
            thing.active(active)
            words = words_at(self._memory.object_address(thing), NETCON_WORDS)
            both.append(np.array(words, np.uint64).view(np.uint8))
        return int(np.flatnonzero(np.not_equal(*both))[0])

    def _check_netcon(self, thing: Hoc, columns: NetConColumns, k: int) -> None:
        syn = thing.syn()
        same = (
            columns.target[k] == (0 if syn is None else self._memory.object_address(syn))
            and columns.active[k] == bool(thing.active())
            and (not columns.source[k] or columns.delay[k] == thing.delay)  # or NEURON has none
            and (not thing.wcnt() or columns.weight[k] == self._memory.weight_address(thing))
        )
        if not same:
            raise OSError(f"{thing} is not as expected")

    def _calibrate(self) -> None:
        """Find the offsets of variable, threshold and Vectors in a source, by a new NetCon."""
        h = self._h
        reference, netcon, source = self._new_source()
        times, numbers = h.Vector(), h.Vector()
        netcon.record(numbers, times, 0)
        before = words_at(source)
        netcon.record(times, numbers, _MARK)
        netcon.threshold, netcon.delay = _THRESHOLD, _DELAY
        at = self._memory.object_address(netcon)
        try:
            netcon_words = words_at(at, NETCON_WORDS)
            words = words_at(source)
            # words that NEURON leaves unset may hold a deleted object's address
            changed = [word * (word != old) for word, old in zip(words, before, strict=True)]
            place = words_at(id(reference), self._memory.reference + 4)[self._memory.reference :]
            pair = [self._memory.object_address(times), self._memory.object_address(numbers)]
            level, delay = (
                struct.unpack("<Q", struct.pack("<d", x))[0] for x in (_THRESHOLD, _DELAY)
            )
            first = run_in(changed, pair)
            self._fields = {
                "of_netcon": netcon_words.index(source),
                "delay": netcon_words.index(delay),
                "place": run_in(words, place),
                "threshold": changed.index(level),
                "times": first,
                "rank": first + 2,
                "odd": halves(changed[first + 2 :]).index(_MARK),
            }
        except ValueError:
            raise OSError("a source is not as expected") from None
        finally:
            netcon.record()

    def _new_source(self) -> tuple[Hoc, Hoc, int]:
        """Connect a NetCon to a voltage that is no source yet; return voltage, NetCon, PreSyn."""
        for section in all_sections():
            for x in (1.0, 0.0, 0.5):
                before = {*vector_at(self._list() or 0)}
                reference = ref(section(x), "v")
                netcon = self._h.NetCon(reference, None, sec=section)
                new = [a for a in vector_at(self._list()) if a not in before]
                if len(new) == 1:
                    return reference, netcon, new[0]
        raise OSError("each voltage is a source")

    def above(self, source: int) -> ctypes.c_bool:
        """Return the byte, to read or to set, that says whether a source is above its threshold."""
        at = source + 8 * (self._fields["threshold"] - 4)  # in front of the NetCon vector
        return ctypes.c_bool.from_address(at)
