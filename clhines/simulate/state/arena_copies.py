"""A network of copies that are alike: started once, and repeated on the device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.model.copied import CopiedModel
from clhines.model.model import Model
from clhines.simulate.engines.axial import neighbours
from clhines.simulate.engines.reference import wanted_outputs
from clhines.simulate.engines.steps import NEIGHBOURS, Matrix, Steps
from clhines.simulate.engines.variables import Variables
from clhines.simulate.kinds.layouts import node_numbers
from clhines.simulate.records.records import Record
from clhines.simulate.state.arena import Arena
from clhines.simulate.state.chunk import Chunk
from clhines.simulate.state.tiled import Tiled, Tiler, tiled_arenas


class CopiedSteps(Steps):
    """Advance copies that are alike; see `Steps`.

    Variables are put on the device when they are needed: until then they are of one copy, and may
    be replaced by `load`.

    Parameters
    ----------
    model : CopiedModel
    queue : pyopencl.CommandQueue
    dtype : float64 or float32
    **options
        As of `Steps`.
    """

    in_place = False
    model: CopiedModel

    def __init__(
        self, model: CopiedModel, queue: cl.CommandQueue, dtype: np.dtype, **options: Any
    ) -> None:
        self._waiting: Variables | None = None
        self._tiled: Tiled | None = None  # what is on the device, unless it was of all copies
        self._loaded: dict[str, np.ndarray] | None = None  # of one copy, and nothing since
        self._tiler = Tiler(queue, dtype, model.copies)
        super().__init__(model, queue, dtype, **options)
        self.early = self._of_all(self.early)

    def _of_all(self, early: Chunk | None) -> Chunk | None:
        """Return a chunk of one copy as one of all."""
        if early is None:
            return None
        source = self.model.sources_of(early.spike_cell)
        failed = np.tile(early.failed, self.model.copies)
        time = np.tile(early.spike_time, self.model.copies)
        return Chunk.of(time, source, self.model.dt, failed, early.values)

    @cached_property
    def place(self) -> np.ndarray:  # type: ignore[override]
        """(n,) int64: place of each node in the solver's order."""
        return self._tiler.places(self._gather, self.model.forest.num_nodes)

    def put_matrix(self) -> None:
        """Put what does not change, by place, on the device."""
        once = self.model.once
        gather = np.ascontiguousarray(self.solver.plan.gather, np.int32)
        self._gather, self.places = cla.to_device(self.queue, gather), len(gather)
        self.base_d = once.capacitance_over_dt + once.constant_d
        values = once.constant_g, once.constant_b, self.base_d, once.u, once.v_init
        g, b, d, u, v = (self._tiler.packed(a, self._gather) for a in values)
        places = self._tiler.neighbours(self._gather, neighbours(once.forest))
        beside, active = (
            dict(zip(NEIGHBOURS, places, strict=True)),
            cla.empty(self.queue, self.places, np.int32),
        )
        room = cla.zeros_like(d), cla.zeros_like(d)
        self.matrix = Matrix(g, b, u, d, *room, beside, active)
        self.v = [v, v.copy(self.queue)]

    def restart(self, model: Model) -> bool:
        """Return False: another network of copies is made."""
        return False

    def build(self, variables: Variables) -> None:
        """Note that variables, of one copy or of all, are to be put on the device."""
        self._waiting = variables

    def _ready(self) -> None:
        """Put the variables on the device, if they are not there yet."""
        if self._waiting is None:
            return
        given, self._waiting = self._waiting, None
        of_one = given.model is self.model.once
        self._tiled = Tiled(given, self.model, self.wires) if of_one else None
        super().build(given if self._tiled is None else self._tiled.variables)
        once = self.model.once
        number = node_numbers(once)
        at = self.arenas["ints"].offset["place_of"]
        self._tiler.find_places(self._gather, number, self.matrix.active, self.ints, at)

    def fill(self, variables: Variables) -> dict[str, Arena]:
        """Put the voltages on the device, and return the arenas."""
        if self._tiled is not None:
            self.v[0] = self._tiler.packed(variables.v, self._gather)
            tables = tiled_arenas(self._tiled, self._tiler, self.base_d, lambda: self.place)
            return self.with_lists(tables)
        self.base_d, once = np.tile(self.base_d, self.model.copies), self.base_d
        try:
            return super().fill(variables)
        finally:
            self.base_d = once

    # -- records -------------------------------------------------------------------------------

    def want(self, records: Sequence[Record]) -> None:
        """Have the outputs that are recorded worked out; variables are then on the device."""
        wanted = wanted_outputs(self.model, records)
        if wanted != self.wanted:
            saved = self._loaded
            if saved is None and self.taken:
                saved = self.save()
            self.wanted = wanted
            self.host.want(records)
            if saved is not None:
                self._load_values({**self._all_values(saved), **saved})
            else:
                self.build(self.host.variables)
        self._ready()

    def _all_values(self, like: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Values of the host, of one copy or of all, as another state is."""
        known = self.host.variables
        if self._is_once(like):
            return known.save()
        return Tiled(known, self.model, self.wires).whole().save()

    def _is_once(self, saved: dict[str, np.ndarray]) -> bool:
        return len(saved["v"]) == self.model.once.forest.num_nodes

    def begin(self, rows: int, records: Sequence[Record]) -> None:
        """Make room for rows of records."""
        super().begin(rows, records)
        self._ready()

    def advance(self, first: int, count: int, row: int) -> None:
        """Enqueue `count` steps from step `first`; the first is recorded in `row`."""
        self._loaded = None
        super().advance(first, count, row)

    # -- the whole -----------------------------------------------------------------------------

    def voltages(self) -> np.ndarray:
        """(n,) of the dtype, mV: in natural order."""
        self._ready()
        return super().voltages()

    def weights(self) -> np.ndarray:
        """(w,) float64: of all connections, those of one after another, as they are now."""
        self._ready()
        return super().weights()

    def save(self) -> dict[str, np.ndarray]:
        """Return arrays of all copies, which `load` takes."""
        self._ready()
        if self._tiled is not None:
            self.variables, self._tiled = self._tiled.whole(), None
        return super().save()

    def save_once(self) -> dict[str, np.ndarray]:
        """Return arrays of one copy as it was started, which `load` takes."""
        return self.host.variables.save(self.dtype)

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Go on from what `save` or `save_once` gave."""
        self.taken, self.early = True, None
        once = self._is_once(saved)
        failed = np.tile(saved["failed"], self.model.copies) if once else saved["failed"]
        self.failed.set(failed.astype(np.int32), self.queue)
        self._loaded = saved if once else None
        self._load_values(saved)

    def _load_values(self, saved: dict[str, np.ndarray]) -> None:
        """Let variables have the values of a state, of one copy or of all."""
        known = self.host
        if self._is_once(saved):
            known.load(saved)
            self.build(known.variables)
            return
        known.load(known.variables.save())  # which is then no start
        whole = Tiled(known.variables, self.model, self.wires).whole()
        whole.load(saved)
        self.build(whole)
