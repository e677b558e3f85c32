"""Runner: the run of a simulation, and what of its network the run does not have yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import pyopencl as cl

from clhines.errors import BuildError, InputError
from clhines.model.compiling import compile, with_values
from clhines.model.instances import ConstantSums
from clhines.model.model import Model
from clhines.network.changes import Changes
from clhines.network.inside import inside
from clhines.network.network import Network
from clhines.plan.plan import real_name
from clhines.simulate.engines.choose import Made, by_steps, make_run
from clhines.simulate.engines.run import Request, Run, take_chunk
from clhines.simulate.engines.table import FAMILY
from clhines.simulate.kinds.spec import check_constants
from clhines.simulate.ranks.mpi import Ranks
from clhines.simulate.records.records import Record
from clhines.simulate.state import saved as saved_states
from clhines.simulate.state.chunk import Chunk, UnderWay
from clhines.simulate.state.decisions import incoming_scale


class Outdated(IntEnum):
    """Parts of a model that changed after it was compiled."""

    NOTHING, VALUES, WIRING = range(3)  # WIRING: connections or events, and perhaps values


class CurrentModel:
    """The network of a simulation as arrays; `known`, compiled last, may be outdated."""

    def __init__(self, network: Network, settings: Mapping[str, Any]) -> None:
        self.network, self.settings, self.changes = network, dict(settings), Changes()
        self.known, self._outdated = compile(network, **settings), Outdated.NOTHING

    @property
    def now(self) -> Model:
        if self._outdated:
            self.take(self.compiled())
        return self.known

    def compiled(self) -> Model:
        net, settings = self.network, self.settings
        if self.known.alike is None and self._outdated < Outdated.WIRING:
            values = settings["v_init"], self.changes, self.sums
            return with_values(net, self.known, net.groups, *values)
        return compile(net, **settings, changes=self.changes)

    def take(self, model: Model) -> None:
        self.known, self._outdated = model, Outdated.NOTHING
        _protect(model)

    def outdate(self, what: Outdated) -> None:
        self._outdated = max(self._outdated, what)
        vars(self).pop("signature", None)

    @cached_property
    def sums(self) -> ConstantSums:
        net = self.network
        return ConstantSums(
            net.groups, net.forest, net.area, inside(net).structure.whole("g_total")
        )

    @cached_property
    def signature(self) -> str:
        return saved_states.signature(self.now)


def _protect(model: Model) -> None:
    """Make the arrays of a model read-only: what is written there would act nowhere."""
    owners: list[object] = [model, *model.kinds, model.connections, model.events]
    arrays = [a for owner in owners for a in vars(owner).values()]
    arrays += [a for kind in model.kinds for a in vars(kind).get("parameters", {}).values()]
    for array in arrays:
        if isinstance(array, np.ndarray):
            array.setflags(write=False)


class Progress:
    """How far a simulation is; `broken`: why there is no state to go on from, or empty."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.step, self.at_start, self.broken, self.under_way = 0, True, "", UnderWay()

    def go_to(self, step: int, spikes: UnderWay | None = None) -> None:
        """Go on at a step from a state that was loaded, after these spikes."""
        self.under_way.forget(step)
        self.under_way = self.under_way if spikes is None else spikes
        self.step, self.at_start, self.broken = step, False, ""

    def check(self, otherwise: str) -> None:
        """Raise InputError where there is no state to go on from."""
        if self.broken:
            raise InputError(f"{self.broken}; {otherwise}")


@dataclass
class Unsettled:
    """Changes that are not in the run or its model yet."""

    no_memory: list[str] = field(default_factory=list)  # parameters: the run is planned again
    begun: set[tuple[int, str]] = field(default_factory=set)  # groups, and their states
    constants: bool = False  # parameters of constant mechanisms
    start: bool = False  # values that the state at the start depends on
    on_device: bool = False  # parameters that the device has, and the model of the run has not


class Runner:
    """The run of a simulation; `moved`: its state is another than when it was made."""

    def __init__(
        self, model: CurrentModel, ranks: Ranks | None, request: Request, overlap: bool
    ) -> None:
        self.model, self.ranks, self.request, self.overlap = model, ranks, request, overlap
        self.take(self.make(model.known), model.known)

    def make(self, model: Model) -> Made:
        """Make a run of a model; an InputError says what its precision lacks of constants."""
        dtype, of_nodes = self.request.dtype, model.of_nodes
        for group in self.model.network.groups:
            if group.mechanism.constant:  # which no kernel calls: its numbers are checked here
                group.mechanism.functions(real_name(dtype), blocks=("current",))
        check_constants(
            dtype,
            constant_conductance=of_nodes.once("constant_d"),
            constant_current=of_nodes.once("constant_b"),
            capacitance_per_step=of_nodes.once("capacitance") / model.solved_dt,
        )
        return make_run(self.ranks, model, self.request, self.overlap)

    def take(self, made: Made, model: Model) -> None:
        self.made, self.moved, self._tried, self.unsettled = made, False, False, Unsettled()
        run: Any = made.runner
        in_place = self.ranks is None and getattr(run, "in_place", False)
        self.on_device = run.changes(run) if in_place else None
        self.unit = incoming_scale(model) if model.has_sums else 1.0
        self.model.take(model)

    @property
    def run(self) -> Run:
        return self.made.runner

    @property
    def saved_unit(self) -> float:
        """Unit of events under way in arrays that leave the run: that of a new simulation."""
        return incoming_scale(self.model.now) if self.model.known.has_sums else self.unit

    def save(self) -> dict[str, np.ndarray]:
        return in_unit(self.run.save(), self.unit, self.saved_unit)

    def load(self, saved: dict[str, np.ndarray], unit: float) -> None:
        self.moved = True  # even if it fails on the way
        self.run.load(in_unit(saved, unit, self.unit))

    def advance(
        self, step: int, count: int, records: Sequence[Record], cost: dict[str, float]
    ) -> Chunk:
        """Take a chunk; by steps where the device does not take the kernels of the first one."""
        tried, self._tried = self._tried, True
        at_start, self.moved = not self.moved, True
        if tried or self.ranks is not None or not self.made.engine.startswith(FAMILY):
            return take_chunk(self.run, step, count, records, cost)
        saved = {} if at_start else self.run.save()
        try:
            return take_chunk(self.run, step, count, records, cost)
        except (BuildError, cl.Error) as error:
            self.request = by_steps(self.request, self.made.engine, error)
        model = self.model.now
        self.take(make_run(None, model, self.request, self.overlap), model)
        if saved:
            self.run.load(saved)
        self.moved = True
        return take_chunk(self.run, step, count, records, cost)


def in_unit(saved: dict[str, np.ndarray], old: float, new: float) -> dict[str, np.ndarray]:
    """Return a saved state whose events under way are in another unit."""
    if "incoming" not in saved or old == new:
        return saved
    sums = saved["incoming"] * (old / new)
    if np.abs(sums).max(initial=0.0) >= 2.0**62:
        raise InputError(
            "weight: the events under way are too large for the unit of the new ones; expected "
            "larger weights, or reset() first"
        )
    times, parts = max(round(old / new), 1), max(round(new / old), 1)  # powers of two
    return saved | {"incoming": (saved["incoming"] * times + parts // 2) // parts}
