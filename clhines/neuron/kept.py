"""A model and its simulation, kept from one call of `run` to the next.

A call takes all steps but the last, which is NEURON's own. Where NEURON's memory is then as that
step has left it, the next call goes on from the simulation's state, which lags behind by that step:
pieces give what one call gives. Where only values differ, as after ``h.finitialize()``, they are
taken again; all else is read anew. Nothing of NEURON's is held between calls: it would live on.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from clhines.neuron.back.records import Records, clock, last_delivery
from clhines.neuron.back.states import put_values, take_values
from clhines.neuron.back.writeback import put_events
from clhines.neuron.fingerprint import Fingerprint
from clhines.neuron.importer import Imported
from clhines.neuron.model import Model
from clhines.neuron.read.counters import Counters
from clhines.simulate.simulation import Simulation

Request = tuple[object, object, str]


class Kept:
    """A model as it was read, and its simulation, if there is one.

    `request` is the device, dtype and engine.
    """

    def __init__(self, model: Model, request: Request) -> None:
        self.model, self.request = model, request
        self.sim: Simulation | None = None
        self.imported: Imported | None = None
        self._records: Records | None = None
        self._counters: Counters | None = None
        self._print: Fingerprint | None = None
        self._lag, self._delivered = 0, -np.inf

    def is_of(self, request: Request) -> bool:
        """Whether NEURON has this model still; what of it changes in a run is read again."""
        if self._print is None or request != self.request:
            return False
        if not self._print.structure_is_same():
            return False
        same = self._print.values_are_same()
        self.model.refresh(not same)
        if not same and self.sim is not None:
            self._take()
        return True

    def _take(self) -> None:
        """Let the simulation start from NEURON's values; drop it where events need another."""
        imported, pending = self.imported, self.model.pending
        assert self.sim is not None and imported is not None
        began = float(imported.network.settings["t"]), float(self.model.h.t)
        has_events = pending.netcons or self.model.trains.names or (imported.connections < 0).any()
        if any(began) or has_events:
            self.sim = None
            return
        self.sim.reset()
        take_values(self.sim, imported)
        self._lag, self._delivered = 0, -np.inf

    def start(self, sim: Simulation, imported: Imported) -> None:
        """Take a simulation that has NEURON's present values."""
        self.sim, self.imported = sim, imported
        self._records, self._counters = Records(sim, imported), Counters(sim, imported)
        self._lag, self._delivered = 0, -np.inf

    def advance(self, steps: int, progress: bool) -> None:
        """Take steps by the simulation, and write what comes of it into NEURON's memory."""
        sim, imported, h = self.sim, self.imported, self.model.h
        assert sim is not None and imported is not None
        assert self._records is not None and self._counters is not None
        begin, dt = float(h.t), sim.model.dt
        first = self._lag + (1 if sim.step == 0 else 0)
        result = sim.run((steps + self._lag) * dt, progress)
        h.t = float(clock(begin, dt, steps)[-1])
        last = last_delivery(begin, dt, steps)
        self._records.fill(result, begin, first)
        self._counters.fill(result, first)
        self._records.fill_spikes(result, begin, self._delivered, last)
        arrays = sim.arrays()
        put_values(sim, imported, arrays)
        put_events(sim, imported, arrays, last)
        imported.crossed.clear()
        self._lag = 0

    def step(self) -> None:
        """Take a step by NEURON, which sets currents and all other ASSIGNED variables."""
        h = self.model.h
        self._delivered = last_delivery(float(h.t), float(h.dt), 1)
        h.fadvance()
        self._lag += 1
        if self._print is not None:
            self._print.take_values()
        elif self._is_free:
            with suppress(OSError):  # something is not found: it is read again each time
                self._print = Fingerprint(self.model)

    @property
    def _is_free(self) -> bool:
        """Whether nothing of NEURON's must be held, and the network has all of the model."""
        model, counters = self.model, self._counters
        has_more = model.memory.transfers or model.trains.patterns
        return model.lone is None and not has_more and not (counters and counters.has_any)

    @property
    def can_stay(self) -> bool:
        """Whether it can be kept: all of it can be compared."""
        return self._is_free and self._print is not None and self._print.covers_all


_kept: list[Kept] = []


def kept_model(request: Request) -> Kept | None:
    """Return the model that is kept, if NEURON has it still; it is kept no more."""
    found = _kept.pop() if _kept else None
    return found if found is not None and found.is_of(request) else None


def keep(kept: Kept) -> None:
    """Keep a model for the next call, in place of any other."""
    _kept.clear()
    if kept.can_stay:
        kept.model.forget()
        _kept.append(kept)
