"""Events of the second half of a step: NEURON delivers them at its end, after it has recorded.

A simulation delivers them with the next step. What hoc sees they set is set here, by NEURON's own
function of the mechanism, once all else is as it is at the end of the step. The time of the last
event, in which NEURON looks for events out of order, stays: a block that runs once more has these
events again.
"""

from __future__ import annotations

import ctypes

import numpy as np

from clhines.arrays import ranges
from clhines.neuron.importer import Imported
from clhines.neuron.memory.raw import words_at
from clhines.neuron.model import NeuronModel
from clhines.neuron.stepping.everything import late_events
from clhines.simulate.events.sources import SPIKE_LATE
from clhines.simulate.result import Result

_LAST = "_tsav"  # ms: when a point process has had its last event


class LateEvents:
    """Events on their way to what shows hoc variables that they set."""

    def __init__(self, model: NeuronModel) -> None:
        self._model, wires = model, model.wires
        senders = wires.senders
        late = late_events(model)
        known = [name in late for name in senders.names]
        of_name = np.array([*known, False])
        wanted = of_name[np.append(senders.name, len(known))[wires.target]] & (wires.target >= 0)
        self._netcons = np.flatnonzero(wanted & wires.read.active.astype(bool))
        self._netcons = self._netcons[np.argsort(wires.origin[self._netcons], kind="stable")]
        self._origin = wires.origin[self._netcons]
        pending = [(k, t) for k, t in model.pending.netcons if wanted[k]]
        self._due = np.array([t for _, t in pending]), np.array([k for k, _ in pending], np.int64)
        trains = model.trains.times
        for number, origin in enumerate(wires.origins):
            if origin.sender in trains:
                self._send(trains[origin.sender], np.full(len(trains[origin.sender]), number))
        self._steps = np.zeros(0, np.int64)
        points = model.memory.variable("pnt_receive")
        self._receive = points
        self._kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_double)

    def _send(self, times: np.ndarray, origins: np.ndarray) -> None:
        """Let origins send at times, ms."""
        first = np.searchsorted(self._origin, origins)
        count = np.searchsorted(self._origin, origins, side="right") - first
        netcons = self._netcons[ranges(first, count)]
        due = np.repeat(times, count) + self._model.wires.read.delay[netcons]
        old = self._due
        self._due = np.concatenate([old[0], due]), np.concatenate([old[1], netcons])

    def add(self, result: Result, imported: Imported, crossed: list[int], ends: np.ndarray) -> None:
        """Take the spikes of a block; `ends` (steps + 1,), ms, are its begin and ends of steps."""
        if not len(self._netcons):
            return
        origins, numbers = imported.model.wires.origins, imported.numbers
        number = np.full(int(numbers.max(initial=-1)) + 1, -1)
        number[numbers] = np.arange(len(numbers))
        heard = np.array([o.sender is None for o in origins])
        trains = imported.model.trains.times
        given = np.array([o.sender in trains for o in origins])
        inside = result.spike_cell < len(number)
        at, times = number[result.spike_cell[inside]], result.spike_time[inside]
        known = (at >= 0) & ~given[at] & ((times > ends[0]) | ~heard[at])
        at, times = at[known], times[known]
        self._send(times + np.where(heard[at], SPIKE_LATE, 0.0), at)
        early = [number[n] for n in crossed]
        self._send(np.full(len(early), ends[0] + SPIKE_LATE), np.array(early, np.int64))
        due, netcons = self._due
        half = 0.5 * (ends[1] - ends[0])
        step = np.searchsorted(ends, due) - 1
        in_block = (step >= 0) & (due <= ends[-1])
        late = in_block & (due > ends[np.minimum(step + 1, len(ends) - 1)] - half)
        order = np.flatnonzero(late)[np.argsort(due[late], kind="stable")]
        self._steps, self._now, self._which = step[order], due[order], netcons[order]
        rest = due > ends[-1]
        self._due = due[rest], netcons[rest]

    def deliver(self, n: int, t: float) -> bool:
        """Deliver those of a step of the block, at whose end it is t, ms; False where none are."""
        begin, end = np.searchsorted(self._steps, [n, n + 1]).tolist()
        if begin == end:
            return False
        h, wires = self._model.h, self._model.wires
        senders = wires.senders
        which = np.unique(senders.name[wires.target[self._which[begin:end]]]).tolist()
        every = [self._model.hidden_of(senders.names[k]) for k in which]
        last = [(one, one.values(_LAST, None)) for one in every if _LAST in one.columns]
        for k in range(begin, end):
            netcon = int(self._which[k])
            point = int(senders.points[wires.target[netcon]])
            function = words_at(self._receive + 8 * self._type(point), 1)[0]
            h.t = float(self._now[k])
            self._kind(function)(point, int(wires.read.weight[netcon]), 0.0)
        for one, times in last:
            one.put(_LAST, times, None)
        h.t = t
        return True

    def _type(self, point: int) -> int:
        return self._model.memory.type_of(point)
