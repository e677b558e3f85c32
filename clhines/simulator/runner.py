"""Parts of a simulation: the network as a model, the run in use, and its progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import pyopencl as cl

from clhines.core.arrays import repeat_moved
from clhines.core.errors import BuildError, InputError
from clhines.core.progress import phase
from clhines.core.summary import counted
from clhines.simulator.choose import EngineRun, by_steps, make_run
from clhines.simulator.engines.arena_run import ArenaRun
from clhines.simulator.engines.run import Request, Restarts, take_chunk
from clhines.simulator.engines.table import FAMILY
from clhines.simulator.kinds.spec import check_constants
from clhines.simulator.model.compiling import compile, with_values
from clhines.simulator.model.instances import place_electrodes, sums_of_nodes
from clhines.simulator.model.model import Model
from clhines.simulator.network.changes import Changes
from clhines.simulator.network.copies import changed_copies
from clhines.simulator.network.groups import inside
from clhines.simulator.network.network import Network
from clhines.simulator.ranks.mpi import Ranks
from clhines.simulator.records.records import Record
from clhines.simulator.state import saved as saved_states
from clhines.simulator.state.changes import DeviceChanges
from clhines.simulator.state.chunk import Chunk, UnderWay
from clhines.simulator.state.decisions import incoming_scale
from clhines.simulator.state.host_grid import settled
from clhines.solver.plan.plan import real_name


class Staleness(IntEnum):
    """Parts of a model that changed after it was compiled."""

    NOTHING, VALUES, WIRING = range(3)  # WIRING: weights, perhaps also values


class CurrentModel:
    """A simulation's network as a model.

    `compiled` is the model that was compiled last; later changes may be missing in it.
    """

    def __init__(self, network: Network, settings: Mapping[str, Any]) -> None:
        self.network, self.settings = network, dict(settings)
        self.changes = Changes()
        phase(f"making a model of {counted(network.num_cells, 'cell')}")
        self.compiled = compile(network, **settings, changes=self.changes)
        self._staleness = Staleness.NOTHING

    @property
    def current(self) -> Model:
        if self._staleness:
            self.replace(self.compile_changes())
        return self.compiled

    def compile_changes(self) -> Model:
        """Return the model with all changes by `set`, and leave `compiled` as it is."""
        net, settings = self.network, self.settings
        if not self._staleness:
            return self.compiled
        if self._staleness < Staleness.WIRING:
            return with_values(net, self.compiled, net.groups, settings["v_init"], self.changes)
        return compile(net, **settings, changes=self.changes)

    def copied(self, count: int) -> tuple[Network, dict[str, Any]]:
        """Return a network of `count` copies with all changes, and their model's settings."""
        net, model = self.network, self.current
        groups, wiring = self.changes.groups(net.groups), inside(net).wiring.changed(self.changes)
        streams = [*model.streams()]
        copies = changed_copies(net, count, groups, wiring, streams, branched_from=net)
        copies.settings.update(net.settings)
        return copies, dict(self.settings, v_init=np.tile(model.v_init, count))

    def replace(self, model: Model) -> None:
        self.compiled, self._staleness = model, Staleness.NOTHING
        _protect(model)

    def mark_stale(self, staleness: Staleness) -> None:
        if staleness > self._staleness:
            self._staleness = staleness
        vars(self).pop("signature", None)

    def sums(self) -> dict[str, np.ndarray]:
        """Return the constant mechanisms' sums with all changes, each (n,) float64, by name."""
        structure, count = inside(self.network).structure, self.network.forest.num_nodes
        groups = place_electrodes(self.changes.groups(self.network.groups), structure.around)
        return {k: repeat_moved(a, count) for k, a in sums_of_nodes(groups, structure).items()}

    @cached_property
    def signature(self) -> str:
        return saved_states.signature(self.current)


def _protect(model: Model) -> None:
    """Make a model's arrays read-only, because changes there would have no effect."""
    owners: list[object] = [model, *model.kinds, model.connections, model.events]
    arrays = [a for owner in owners for a in vars(owner).values()]
    arrays += [a for kind in model.kinds for a in vars(kind).get("parameters", {}).values()]
    for array in arrays:
        if isinstance(array, np.ndarray):
            array.setflags(write=False)


class Progress:
    """A simulation's progress; `broken` says why its state cannot be used, or is "".

    If `lists_early`, a state at t = 0 was loaded, and the next result lists its spikes. Runs list
    those of their own start.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.step, self.at_start, self.broken, self.under_way = 0, True, "", UnderWay()
        self.lists_early = False

    def go_to(self, step: int) -> None:
        """Continue at a step from a loaded state; earlier spikes are unknown."""
        self.lists_early = step == 0
        self.under_way.forget(step)
        self.step, self.at_start, self.broken = step, False, ""

    def check(self, consequence: str) -> None:
        if self.broken:
            raise InputError(f"{self.broken}; {consequence}")


@dataclass
class PendingChanges:
    """Changed values that have not reached the run in use, or its model."""

    without_memory: list[str] = field(default_factory=list)  # parameters that need a new run
    initial_states: set[tuple[int, str]] = field(default_factory=set)  # group, state
    constants: bool = False  # constant mechanisms' parameters
    start_values: bool = False  # the initial state depends on them
    first_currents: bool = False  # only values that the first step sets depend on them
    only_on_device: bool = False  # parameters that the run's model does not have


class Runner:
    """A simulation's run; `moved` says whether it has left its start."""

    def __init__(self, model: CurrentModel, ranks: Ranks, request: Request, overlap: bool) -> None:
        self.model, self.ranks, self.request, self.overlap = model, ranks, request, overlap
        self.is_first = ranks.rank == 0  # whether this process reads and writes files, and prints
        self.replace(self.make(model.compiled), model.compiled)

    def make(self, model: Model) -> EngineRun:
        """Make a run of a model; InputError if a constant does not fit the precision."""
        network, dtype, of_nodes = self.model.network, self.request.dtype, model.of_nodes
        with self.ranks.agreed():
            for group in network.groups:
                if group.mechanism.constant:  # no kernel calls it, so check its numbers here
                    group.mechanism.functions(real_name(dtype), blocks=("current",))
            check_constants(
                dtype,
                constant_conductance=of_nodes.once("constant_d"),
                constant_current=of_nodes.once("constant_b"),
                capacitance_per_step=of_nodes.once("capacitance") / model.solved_dt,
            )
        return make_run(self.ranks, model, self.request, self.overlap)

    def replace(self, engine_run: EngineRun, model: Model) -> None:
        """Use another run, for this model, from now on."""
        self.engine_run, self.moved, self._tried = engine_run, False, False
        self.pending, self.run = PendingChanges(), engine_run.run
        run = self.run
        self.on_device = DeviceChanges(run) if isinstance(run, ArenaRun) else None
        self.unit = incoming_scale(model) if model.has_sums else 1.0
        self.model.replace(model)

    def restart(self, model: Model, in_place: bool = False) -> bool:
        run = self.run
        if not isinstance(run, Restarts) or not run.restart(model, in_place):
            return False
        if self.on_device is not None:
            self.on_device.keep_start()
        self.moved, self._tried, self.pending = False, False, PendingChanges()
        self.model.replace(model)
        return True

    def reset(self) -> bool:
        """Return to the start of the simulation; return False if the run has not stored it.

        A run that is still at its start stores it now, for the next reset.
        """
        if not self.moved:
            if self.on_device is not None:
                self.on_device.keep_start()
            return True
        if self.on_device is None or not self.on_device.reset():
            return False
        self.moved = False
        return True

    @property
    def saved_unit(self) -> float:
        """The unit of pending events in saved arrays: the one that a new simulation would use."""
        return incoming_scale(self.model.current) if self.model.compiled.has_sums else self.unit

    def save(self) -> dict[str, np.ndarray]:
        return in_unit(self.run.save(), self.unit, self.saved_unit)

    def load(self, saved: dict[str, np.ndarray], unit: float) -> None:
        self.moved = True  # also if loading fails
        self.run.load(in_unit(saved, unit, self.unit))

    def sources_above(self) -> np.ndarray:
        """Return the sources that are above their thresholds, (k,) int64."""
        sources = self.model.compiled.sources
        return np.sort(sources.detector_source[sources.above(self.run.voltages())])

    def weights(self, step: int) -> np.ndarray:
        """Return all weights at the beginning of a step, (m,) float64, as `Simulation.weights`."""
        weights, model = self.run.weights(), self.model.compiled
        grid_weights, exact_weights = np.split(weights, [len(model.numbers)])
        rule = model.connections.rule
        if rule is not None and rule.about.growth is not None:
            saved = settled(model, self.run.save(), step - 1)
            saved = self.ranks.of_first(saved)
            grid_weights = saved.get("plastic_weight", grid_weights)
        every = model.given_weights.copy()
        every[model.numbers] = grid_weights
        every[model.exact_numbers] = exact_weights[: len(model.exact_numbers)]  # the rest: external
        return every

    def advance(
        self, step: int, count: int, records: Sequence[Record], cost: dict[str, float]
    ) -> Chunk:
        """Advance by a chunk of steps.

        If the device rejects the kernels of the first chunk, make a run of engine ``steps``.
        """
        tried, self._tried = self._tried, True
        at_start, self.moved = not self.moved, True
        if tried or self.ranks.size > 1 or not self.engine_run.engine.startswith(FAMILY):
            return take_chunk(self.run, step, count, records, cost)
        saved = {} if at_start else self.run.save()
        try:
            return take_chunk(self.run, step, count, records, cost)
        except (BuildError, cl.Error) as error:
            self.request = by_steps(self.request, self.engine_run.engine, error)
        model = self.model.current
        self.replace(make_run(self.ranks, model, self.request, overlap=False), model)
        if saved:
            self.run.load(saved)
        self.moved = True
        return take_chunk(self.run, step, count, records, cost)


def in_unit(saved: dict[str, np.ndarray], old: float, new: float) -> dict[str, np.ndarray]:
    """Convert a saved state's pending events to another unit."""
    if old == new or not saved.get("incoming", np.zeros(0)).any():
        return saved
    sums = saved["incoming"] * (old / new)
    if np.abs(sums).max() >= 2.0**63 - 2.0**32:  # as in `unit_of`
        raise InputError(
            "weight: pending events are too large for the unit of the new weights; expected "
            "larger weights, or reset() first"
        )
    times, parts = max(round(old / new), 1), max(round(min(new / old, 2.0**62)), 1)
    sums, rest = np.divmod(saved["incoming"] * times, parts)  # both are powers of two
    return saved | {"incoming": sums + (rest >= (parts + 1) // 2)}
