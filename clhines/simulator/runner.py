"""Parts of a simulation: the run in use, its model, changes that wait, and recordings."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import pyopencl as cl
from numpy.typing import ArrayLike

from clhines.core.checks import as_array, as_real
from clhines.core.errors import BuildError, DeviceMemoryError, InputError, meant, shown
from clhines.core.files import PathLike
from clhines.core.progress import phase
from clhines.core.summary import counted
from clhines.simulator.choose import MadeRun, by_steps, make_own, make_run
from clhines.simulator.engines.run import Request, Run, take_chunk
from clhines.simulator.engines.table import FAMILY
from clhines.simulator.kinds.spec import check_constants
from clhines.simulator.mechanisms.ir.program import HELD_STEPS
from clhines.simulator.model.compiling import compile, with_values
from clhines.simulator.model.instances import ConstantSums, placed
from clhines.simulator.model.model import Model
from clhines.simulator.network.changes import (
    Changes,
    ParameterValue,
    as_events,
    as_value,
    check_not_past,
)
from clhines.simulator.network.groups import Group, check_begins, inside
from clhines.simulator.network.network import Network
from clhines.simulator.network.times import refractory_steps
from clhines.simulator.ranks.mpi import Ranks, agreed
from clhines.simulator.records import records as recorded
from clhines.simulator.records import requests
from clhines.simulator.records.columns import Recording, columns_of
from clhines.simulator.records.records import Record
from clhines.simulator.records.writer import RecordWriter
from clhines.simulator.state import saved as saved_states
from clhines.simulator.state.changes import ParameterChanges, from_start, with_other_events
from clhines.simulator.state.chunk import Chunk, UnderWay
from clhines.simulator.state.decisions import incoming_scale
from clhines.simulator.state.host_grid import settled
from clhines.solver.plan.plan import real_name

_log = logging.getLogger(__name__)
_WHOLE = ("v_init", "weight", "events")


class Outdated(IntEnum):
    """Parts of a model that changed after it was compiled."""

    NOTHING, VALUES, WIRING = range(3)  # WIRING: connections or events, and perhaps values


class CurrentModel:
    """The network of a simulation as arrays; `known`, compiled last, may be outdated."""

    def __init__(self, network: Network, settings: Mapping[str, Any]) -> None:
        self.network, self.settings, self.changes = network, dict(settings), Changes()
        phase(f"making a model of {counted(network.num_cells, 'cell')}")
        self.known, self._outdated = compile(network, **settings), Outdated.NOTHING

    @property
    def now(self) -> Model:
        if self._outdated:
            self.take(self.compiled())
        return self.known

    def compiled(self) -> Model:
        net, settings = self.network, self.settings
        if not self._outdated:
            return self.known
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
        net, structure = self.network, inside(self.network).structure
        return ConstantSums(
            placed(net.groups, structure.around), net.forest, net.area, structure.whole("g_total")
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
    """Progress of a simulation; `broken`: why its state cannot be used further, or empty."""

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
        self, model: CurrentModel, ranks: Ranks | None, request: Request, overlap: bool | None
    ) -> None:
        self.model, self.ranks, self.request, self.overlap = model, ranks, request, overlap
        self.take(self.make(model.known), model.known)

    def make(self, model: Model) -> MadeRun:
        """Make a run of a model; an InputError says what its precision lacks of constants."""
        network, dtype, of_nodes = self.model.network, self.request.dtype, model.of_nodes
        with agreed(self.ranks):
            for group in network.groups:
                if group.mechanism.constant:  # which no kernel calls: its numbers are checked here
                    group.mechanism.functions(real_name(dtype), blocks=("current",))
            check_constants(
                dtype,
                constant_conductance=of_nodes.once("constant_d"),
                constant_current=of_nodes.once("constant_b"),
                capacitance_per_step=of_nodes.once("capacitance") / model.solved_dt,
            )
        if self.ranks is not None and network.gids is not None:
            return make_own(self.ranks, network, model, self.request, self.overlap)
        return make_run(self.ranks, model, self.request, bool(self.overlap))

    def take(self, made: MadeRun, model: Model) -> None:
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
        self.take(make_run(None, model, self.request, overlap=False), model)
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


class Recordings:
    """Records of the runs of a simulation, by number."""

    def __init__(self, runner: Runner, dtype: np.dtype) -> None:
        self._runner, self._dtype = runner, dtype
        self._records: list[Record] = []
        self._unwritten = False  # whether rows wait for `write`, on the first rank

    def __len__(self) -> int:
        return len(self._records)

    @property
    def any_computed(self) -> bool:
        """Whether the host computes any from rows and parameters."""
        model, computed = self._runner.model.known, recorded.MEMBRANE
        return any(r.kind == computed or recorded.is_current(r, model) for r in self._records)

    def add(
        self,
        what: str,
        at: ArrayLike | Group,
        index: ArrayLike | None,
        to: PathLike | None,
        label: str | None,
        **kept: Any,
    ) -> Recording:
        """Add a record, and return its number and names; `kept`: for `with_reduction`."""
        network, model = self._runner.model.network, self._runner.model.known
        if not isinstance(at, Group):
            at = network.nodes(at=at)
        record = requests.find_record(network, model, what, at, index)
        if recorded.is_current(record, model) and (reduce := kept["reduce"]) in recorded.CROSSED:
            raise InputError(f"reduce={reduce!r} of a current; expected a voltage or a state")
        record = requests.with_reduction(record, model.dt, **kept)
        if label is not None and (not isinstance(label, str) or not label):
            raise InputError(f"name is {shown(label)}; expected a text")
        if label is not None and any(label == r.label for r in self._records):
            raise InputError(f"name is {shown(label)}, of another record; expected another one")
        rows = None if record.matrix is None else len(record.matrix)
        columns = columns_of(network, at, index, rows)
        record = replace(
            record, label=label or what, unit=recorded.unit_of(record), columns=columns
        )
        self._records.append(self._with_file(record, to))
        return Recording(len(self._records) - 1, record.label, what, record.unit, columns)

    def _with_file(self, record: Record, to: PathLike | None) -> Record:
        if self._runner.ranks is not None and record.matrix is not None:
            raise InputError("matrix is for one process; expected a simulation without comm")
        if to is None:
            return record
        if self._runner.ranks is not None and self._runner.model.network.gids is not None:
            raise InputError("to: each rank has described its own cells; expected no file")
        if record.reduce:
            raise InputError("to is for rows; expected none with reduce")
        with agreed(self._runner.ranks):
            stream = RecordWriter(to)
            if any(r.stream is not None and r.stream.file == stream.file for r in self._records):
                raise InputError(f"to: {stream.file} is of another record; expected another name")
            return replace(record, stream=stream)

    def keep(self, records: list[Record], chunk: Chunk, begin: int, last: int) -> None:
        """Keep the rows of a chunk that go to files, until `write`."""
        dt, first = self._runner.model.known.dt, self._is_first
        for k, record in enumerate(records):
            if record.stream is None:
                continue
            steps = np.arange(-(-begin // record.every) * record.every, last + 1, record.every)
            chunk.values[k] = chunk.values[k][: len(steps)]
            self._unwritten = True
            if first:
                record.stream.keep(steps * dt, chunk.values[k])

    @property
    def _is_first(self) -> bool:
        return self._runner.ranks is None or self._runner.ranks.rank == 0

    def write(self, chunks: Sequence[Chunk] = ()) -> None:
        """Write the rows that were kept, and drop them from these chunks.

        If that fails, as on a full disk, the next call writes them.
        """
        for k, record in enumerate(self._records if self._unwritten else ()):
            if record.stream is None:
                continue
            with agreed(self._runner.ranks):
                if self._is_first:
                    record.stream.write()
            for chunk in chunks:
                if k < len(chunk.values):
                    chunk.values[k] = chunk.values[k][:0].copy()
        self._unwritten = False

    def of_run(self, begin: int, steps: int) -> tuple[list[Record], int]:
        """Return the records of a run, and the steps of its chunks; their memory is checked."""
        runner, model = self._runner, self._runner.model.known
        records = recorded.for_run(self._records, begin, steps, model.dt)
        exchanges = runner.ranks is not None or not model.has_times
        epoch = runner.run.max_steps if exchanges else 1
        return records, recorded.chunk_of(
            records, steps, self._dtype.itemsize, runner.made.chunk, epoch
        )

    def first_values(self, records: list[Record], step: int) -> list[Chunk]:
        """Return the values at t = 0; crossings begin with those before any run."""
        if step and not any(r.follows for r in records):
            return []
        values = self._runner.run.now(records, step)
        if step:
            return []
        values = [v[:0] if r.reduce else v for r, v in zip(records, values, strict=True)]
        start = Chunk.of_none(np.zeros(0, np.int32), values)
        self.keep(records, start, 0, 0)
        return [start]


class Changing:
    """Gives the network of a simulation other values; see `Simulation.set`."""

    def __init__(self, runner: Runner, progress: Progress, recordings: Recordings) -> None:
        self._runner, self._model = runner, runner.model
        self._progress, self._recordings = progress, recordings

    def set(self, group: Group | None, values: Mapping[str, object]) -> None:
        ranks, network = self._runner.ranks, self._model.network
        with agreed(ranks):
            if group is None:
                checked = self._checked_whole(values)
            else:
                group = _own_group(network, group)
                checked = {k: self._checked(group, k, v) for k, v in values.items()}
        if ranks is not None:
            ranks.same({"digest of what is set": _digest(group, checked)})
        if group is not None:
            self._set_parameters(group, checked)  # type: ignore[arg-type]
        else:
            self._set_whole(checked)

    def reset(self) -> None:
        check_begins(self._model.network.settings, "reset()")
        self._progress.broken, self._progress.at_start = "a reset failed", True
        self._settle_values()
        self._to_start()
        self._progress.begin()

    # -- checks --------------------------------------------------------------------------------

    def _checked(self, group: Group, name: str, value: object) -> ParameterValue:
        checked = as_value(group, name, value)
        spike = group.mechanism.program.spike
        if spike is not None and name == spike.refractory and checked.numbers.min() < 0:
            raise InputError(f"{group.mechanism.name}: {name} is below 0 ms; expected 0 or more")
        model = self._model.known
        k = model.instances[group.number][0]
        if not model.has_times and name in group.mechanism.program.begins:
            raise InputError(
                f"{group.mechanism.name}: {name} is set by its blocks; expected a new Network"
            )
        if any(p.kind == k and p.parameter == name for p in model.played):
            raise InputError(
                f"{group.mechanism.name}: {name} takes values in time, of play(); expected another "
                "parameter"
            )
        return checked

    def _checked_whole(self, values: Mapping[str, object]) -> dict[str, object]:
        found: dict[str, object] = {}
        for name, value in values.items():
            if name not in _WHOLE:
                raise InputError(
                    f"{shown(name)} cannot be set; expected a group, or {', '.join(_WHOLE)}"
                    f"{meant(name, _WHOLE)}"
                )
            if name == "v_init":
                nodes = np.arange(self._model.known.forest.num_nodes)
                net = self._model.network
                found[name] = inside(net).parameter("Simulation", name, value, nodes, "mV")
            elif name == "weight":
                found[name] = as_real(name, np.atleast_1d(as_array(name, value))).copy()
            else:
                found[name] = as_events(value)
                dt, step = self._model.known.dt, self._progress.step
                check_not_past(found[name], dt, step)  # type: ignore[arg-type]
        return found

    # -- parameters ----------------------------------------------------------------------------

    def _set_parameters(self, group: Group, values: Mapping[str, ParameterValue]) -> None:
        changes, unsettled = self._model.changes, self._runner.unsettled
        known = changes.parameters.setdefault(group.number, {})
        mechanism, again = group.mechanism, []
        for name, value in values.items():
            known[name] = value
            self._model.outdate(Outdated.VALUES)
            if mechanism.constant:
                unsettled.constants = True
                continue
            unsettled.start |= name in mechanism.initial_uses
            if name in mechanism.program.begins:
                unsettled.begun.add((group.number, name))
            device = None if unsettled.no_memory else self._runner.on_device
            if device is None or not self._put(device, group, name, value):
                changes.stored.add((mechanism.name, name))
                again.append(name)
            else:
                unsettled.on_device = True
        if again:  # once for all that is set before the run is used
            unsettled.no_memory.append(f"{mechanism.name}: {', '.join(again)}")

    def _put(
        self, device: ParameterChanges, group: Group, name: str, value: ParameterValue
    ) -> bool:
        """Change a parameter, and steps of a refractory time, where they lie; whether it could."""
        program, number = group.mechanism.program, group.number
        if program.spike is not None and name == program.spike.refractory:
            steps = refractory_steps(value.numbers, self._model.known.dt)
            if not device.set_parameter(number, HELD_STEPS, replace(value, numbers=steps)):
                return False
        return device.set_parameter(number, name, value)

    def _settle_values(self) -> None:
        """Apply changed parameters: plan again where that is needed, or sum constants again."""
        runner, model, unsettled = self._runner, self._model, self._runner.unsettled
        if unsettled.no_memory:
            self._remake(f"no memory for other values of {'; '.join(unsettled.no_memory)}")
        elif unsettled.on_device and self._recordings.any_computed:
            assert runner.on_device is not None
            runner.on_device.run.take_parameters(model.now)
            unsettled.on_device = False
        if not runner.unsettled.constants:
            return
        sums, changes, device = model.sums, model.changes, runner.on_device
        d, b = sums.sums(changes)
        dtype = runner.request.dtype
        check_constants(dtype, constant_conductance=d, constant_current=b)
        runner.unsettled.constants = False
        if device is not None and device.set_constants(d, b, sums.conductances(changes)):
            return
        changed = model.changes.parameters
        for group in model.network.groups:
            if group.mechanism.constant and group.number in changed:
                model.changes.stored |= {(group.mechanism.name, n) for n in changed[group.number]}
                model.outdate(Outdated.VALUES)
        self._remake("conductances that were constant")

    # -- weights, events, start ----------------------------------------------------------------

    def _set_whole(self, values: Mapping[str, object]) -> None:
        runner, model = self._runner, self._model
        changes, settings = model.changes, model.settings
        if "weight" in values:
            self._check_spikes_known()
        before = settings["v_init"], runner.unsettled.start, changes.weight, changes.events
        if "v_init" in values:
            settings["v_init"], runner.unsettled.start = values["v_init"], True
            model.outdate(Outdated.VALUES)
        device, weight = runner.on_device, values.get("weight")
        again = [name for name in ("weight", "events") if name in values]
        if isinstance(weight, np.ndarray):
            if weight.shape == (1,):
                weight = np.repeat(weight, len(model.known.given_weights) or 1)
            changes.weight = weight
            model.outdate(Outdated.WIRING)
            good = weight.shape == model.known.connections.weight.shape  # none of trains
            good &= "events" not in values  # which may be wrong, and then nothing changes
            if device is not None and good and device.set_weights(weight):
                again.remove("weight")
                if len(self._progress.under_way) and not self._progress.at_start:
                    runner.run.load(self._with_weights(runner.run.save(), weight))
        if "events" in values:
            changes.events = values["events"]  # type: ignore[assignment]
            model.outdate(Outdated.WIRING)
        if not again:
            return
        try:
            self._remake(f"other {' and '.join(again)}", weight, "events" in values)  # type: ignore[arg-type]
        except (InputError, DeviceMemoryError):
            settings["v_init"], runner.unsettled.start, changes.weight, changes.events = before
            raise

    def _check_spikes_known(self) -> None:
        """Raise InputError where other weights could not act on all events under way."""
        model, progress, spikes = self._model.known, self._progress, self._progress.under_way
        if progress.at_start or progress.broken or not model.has_sums or spikes.since < 0:
            return
        saved = self._runner.run.save()
        with agreed(self._runner.ranks):
            spikes.check_known(saved.get("incoming", np.zeros(0)), model, progress.step)

    def _with_weights(
        self, saved: dict[str, np.ndarray], weight: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Return a state whose events under way have other weights."""
        if "incoming" not in saved:  # of other ranks, and networks with exact times
            return saved
        model, unit, progress = self._model.known, self._runner.unit, self._progress
        sums = progress.under_way.sums(weight, model, unit, progress.step)
        return saved | {"incoming": sums.reshape(saved["incoming"].shape)}

    # -- runs ----------------------------------------------------------------------------------

    def _remake(self, why: str, weight: np.ndarray | None = None, events: bool = False) -> None:
        """Make another run of the network as it is now, which goes on from the same state."""
        runner = self._runner
        keep = not (self._progress.at_start or self._progress.broken)
        saved = runner.run.save() if keep else {}
        unit, unsettled = runner.unit, runner.unsettled
        with agreed(runner.ranks):
            model = self._model.compiled()
            if saved and events:
                own = inside(self._model.network).added.num_sources
                saved = with_other_events(saved, self._model.known, model, own)
        restart = getattr(runner.run, "restart", None)  # of runs on one device
        same = model.sources is self._model.known.sources
        if same and restart is not None and restart(model):
            made = runner.made
        else:
            made = runner.make(model)
            _log.info("the simulation is planned again (%s)", why)
        runner.take(made, model)
        if not keep:
            return
        runner.unsettled.start = unsettled.start
        with agreed(runner.ranks):
            if weight is None:
                saved = in_unit(saved, unit, runner.unit)
            else:
                saved = self._with_weights(saved, weight)
            for number, name in unsettled.begun if saved else ():  # the first rank has it
                k, place = model.instances[number]
                kind, states = model.kinds[k], model.schema.named(saved, "state", k)
                states[name][place] = np.broadcast_to(kind.parameters[name], kind.count)[place]
            if weight is not None:
                saved = settled(model, saved, self._progress.step - 1)
                both = {"weight": model.netcons.weight, "plastic_weight": model.connections.weight}
                saved |= {key: values for key, values in both.items() if key in saved}
        runner.load(saved, runner.unit)

    def settle(self) -> None:
        """Bring the run to all that was set, before it is used."""
        self._settle_values()
        if self._progress.at_start and self._runner.unsettled.start:
            self._to_start()

    def _to_start(self) -> None:
        runner, old = self._runner, self._runner.unsettled.start
        device = runner.on_device
        if device is None or not device.keeps_start:
            if runner.moved or old:
                self._remake("back to the start")
            return
        if not old and device.reset():
            return
        model = self._model.now if old or device.run.grid.plasticity else self._model.known
        device.run.load(from_start(model, device.run.dtype))
        device.keep_start(model)
        runner.unsettled.start = False


def _digest(group: Group | None, values: Mapping[str, object]) -> str:
    """Digest of what is set, which all ranks compare."""
    digest = hashlib.sha256(repr((-1 if group is None else group.number, [*values])).encode())
    for value in values.values():
        if isinstance(value, list):
            for target, *rest in value:
                digest.update(
                    repr((target.number, [np.asarray(a).tolist() for a in rest])).encode()
                )
        else:
            numbers = value.numbers if isinstance(value, ParameterValue) else np.asarray(value)
            digest.update(np.ascontiguousarray(numbers).tobytes())
    return digest.hexdigest()[:8]


def _own_group(network: Network, group: object) -> Group:
    """Return a network's group, or the one that is copies of a group branched from."""
    if not isinstance(group, Group):
        raise InputError(
            f"group is {type(group).__name__}; expected a Group, from insert() or add()"
        )
    known = network
    while group.network is not known:
        if known.branched_from is None:
            raise InputError(f"group {group.mechanism.name} belongs to another network")
        known = known.branched_from
    return network.groups[group.number]
