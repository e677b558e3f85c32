"""Stimuli of NEURON's first versions, by hoc's fstim and fsyn, as point processes.

hoc prints their values rounded. What it prints is taken where fstimi(), fsyni() and fsyng() confirm
it, bit by bit, at times before and behind each of their changes. fclamp is rejected: NEURON 9 ends
with a fault where a level of it is set.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from clhines.mechanisms.mechanism import Mechanism
from clhines.network.network import Network
from clhines.neuron.convert import Rejected
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.memory.session import Hoc, all_sections
from clhines.neuron.read.catalogue import OUTSIDE
from clhines.neuron.read.tree import Tree

OLD_STIMULI = {  # C functions that print all of them, and what to use instead
    "fstim": ("_Z10print_stimv", "use IClamp, and fstim(0)"),
    "fsyn": ("_Z9print_synv", "use AlphaSynapse, and fsyn(0)"),
    "fclamp": ("_Z11print_clampv", "use SEClamp, and fclamp(0, 0.5)"),
}
_TEXTS = {
    "fstim": """NEURON { POINT_PROCESS old_stimulus RANGE begin, end, amp, i ELECTRODE_CURRENT i }
        PARAMETER { begin = 0 (ms) end = 0 (ms) amp = 0 (nA) }
        ASSIGNED { i (nA) }
        BREAKPOINT { if (t >= begin && t < end) { i = amp } else { i = 0 } }
    """,
    "fsyn": """NEURON { POINT_PROCESS old_synapse RANGE begin, tau, gmax, e NONSPECIFIC_CURRENT i }
        PARAMETER { begin = 0 (ms) tau = 1 (ms) gmax = 0 (uS) e = 0 (mV) }
        ASSIGNED { v (mV) i (nA) x g (uS) }
        BREAKPOINT {
            x = (t - begin)/tau
            g = 0
            if (x > 0 && x < 10) { g = gmax*x*exp(1 - x) }
            i = g*(v - e)
        }
    """,
}
_LATER = 1e-9  # ms: NEURON's changes come as much earlier
_ROUNDED = 5e-6  # of what is printed, at most, by six digits
_ENDS = 10.0  # of alpha functions, in their time constants
_ASKED = 0.3, 1.0, 2.7, 9.9

StimulusValues = dict[str, float]  # the values of one, and its node


class _OtherError(Exception):
    """What hoc prints is not confirmed."""


class _PrintedStimuli:
    """Reads one after another; `lines` are printed by NEURON."""

    def __init__(self, h: Hoc, memory: NeuronMemory, tree: Tree) -> None:
        self._h, self._memory, self._tree = h, memory, tree
        self._clock = ctypes.c_double.from_address(memory.variable("nrn_threads"))
        self._sections = list(all_sections())

    def at(self, t: float, function: Callable[..., float], *of: int) -> float:
        """Return what a function of hoc gives at a time, ms."""
        before, self._clock.value = self._clock.value, t
        try:
            return float(function(*of))
        finally:
            self._clock.value = before

    def segment(self, name: str, shown: str) -> tuple[Any, int]:
        """Return a segment and its node, by its section's name and its place as printed."""
        found, x = [s for s in self._sections if s.name() == name.strip()], float(shown)
        if len(found) != 1:
            raise _OtherError(f"in section {name.strip()}, of which there are {len(found)}")
        section = found[0]
        low, high = (math.floor(x * f * section.nseg) for f in (1 - _ROUNDED, 1 + _ROUNDED))
        if x >= 1 or low != high:
            raise _OtherError(f"at {shown} of {name.strip()}, an end of a segment")
        segment = section(x)
        node = self._tree.at(segment)
        if section.has_membrane(OUTSIDE) or self._tree.branches[node] != 1:
            raise _OtherError(f"in section {name.strip()}, with extracellular or rallbranch")
        return segment, node

    def fstim(self, lines: list[str]) -> Iterator[StimulusValues]:
        current = self._h.fstimi
        for name, k, (x, delay, duration, amp) in _rows(lines, "fstim"):
            if not float(amp):
                continue
            begin, end = float(delay) - _LATER, float(delay) + float(duration) - _LATER
            times = _before(begin), begin, end, _after(end)
            found = [self.at(t, current, k) for t in times]
            if found[0] or found[3] or not found[1] or found[1] != found[2]:
                raise _OtherError(f"fstim({k}, ...), whose times have more digits")
            _, node = self.segment(name, x)
            yield {"node": node, "begin": begin, "end": _after(end), "amp": found[1]}

    def fsyn(self, lines: list[str]) -> Iterator[StimulusValues]:
        for name, k, (x, *values) in _rows(lines, "fsyn"):
            delay, tau, most, e = map(float, values)
            if not most or not tau:
                continue
            segment, node = self.segment(name, x)
            factor = 1e2 * most / (float(self._tree.area[node]) or 100.0)
            back, v, end = most / factor, segment.v, delay + _ENDS * tau
            times = [delay, _after(delay), _before(end), end, _after(end)]
            for t in [*times, *(delay + share * tau for share in _ASKED)]:
                one = (t - delay) / tau
                g = factor * (one * math.exp(1 - one) if 0 < one < _ENDS else 0.0)
                i = self.at(t, self._h.fsyni, k)
                if self.at(t, self._h.fsyng, k) != g * back or i != g * (v - e) * back:
                    raise _OtherError(f"fsyn({k}, ...), whose values have more digits")
            yield {"node": node, "begin": delay, "tau": tau, "gmax": most, "e": e}


def _rows(lines: list[str], name: str) -> Iterator[tuple[str, int, list[str]]]:
    """Yield the section's name, number and values of each, as printed."""
    for line in lines:
        found = re.fullmatch(rf"(.*?) *{name}\( *(\d+),([^()]*)\)", line)
        if found:
            yield found[1], int(found[2]), [word.strip() for word in found[3].split(",")]


def _before(t: float) -> float:
    return float(np.nextafter(t, -math.inf))


def _after(t: float) -> float:
    return float(np.nextafter(t, math.inf))


def read_stimuli(
    h: Hoc, memory: NeuronMemory, tree: Tree
) -> tuple[dict[str, list[StimulusValues]], list[Rejected]]:
    """Return the values of each, by fstim and fsyn, and what is rejected."""
    found, rejected = dict[str, list[StimulusValues]](), list[Rejected]()
    for name, (function, way_out) in OLD_STIMULI.items():
        with memory.printed() as parts:
            memory.symbol(function)()
        lines = "".join(parts).splitlines()
        if lines and name not in _TEXTS:
            rejected.append(Rejected("", name, way_out))
            continue
        try:
            rows = [*getattr(_PrintedStimuli(h, memory, tree), name)(lines)] if lines else []
        except _OtherError as error:
            rejected.append(Rejected("", f"{name}: {error}", way_out))
            continue
        if rows:
            found[name] = rows
    return found, rejected


def add_stimuli(network: Network, stimuli: dict[str, list[StimulusValues]]) -> None:
    for name, rows in stimuli.items():
        given = {key: np.array([row[key] for row in rows]) for key in rows[0]}
        nodes = given.pop("node").astype(np.int64)
        network.add(Mechanism.from_nmodl(_TEXTS[name]), nodes, **given)
