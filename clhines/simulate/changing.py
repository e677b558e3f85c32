"""Changing: the part of `Simulation` that gives its network other values, and goes back to 0."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Mapping
from functools import cached_property
from typing import TypeVar

import numpy as np

from clhines.checks import as_array, as_finite, as_whole_number, shown
from clhines.device.guard import exclusive
from clhines.errors import InputError, meant
from clhines.model.compiling import compile, with_values
from clhines.model.constant import ConstantSums
from clhines.model.model import Model
from clhines.network.changes import Changes, Value, as_events, as_value, check_not_past
from clhines.network.groups import Group
from clhines.network.network import Network, check_begins
from clhines.simulate.engines.choose import Made, make_run
from clhines.simulate.engines.run import Request, Run
from clhines.simulate.events.under_way import UnderWay
from clhines.simulate.ranks.mpi import Ranks, agreed
from clhines.simulate.records.records import Record, is_computed
from clhines.simulate.state import saved as saved_states
from clhines.simulate.state.changes import DeviceChanges, from_start
from clhines.simulate.state.copies import copies_of, network_of_copies
from clhines.simulate.state.decisions import incoming_scale

_Self = TypeVar("_Self", bound="Changing")
_log = logging.getLogger(__name__)
_WHOLE = ("v_init", "weight", "events")


class Changing:
    """What a simulation needs to change its network; see `Simulation`.

    Attributes
    ----------
    network : Network
    ranks : Ranks or None
    runner : Run
    engine : str
    chunk : int
    """

    network: Network
    ranks: Ranks | None
    runner: Run
    engine: str
    chunk: int
    _lock: threading.RLock
    _records: list[Record]
    _step: int
    _broken: str

    def _begin_changes(
        self, model: Model, settings: Mapping[str, object], request: Request, overlap: bool
    ) -> None:
        """Keep how the model and its run were made."""
        self._changes, self._settings = Changes(), dict(settings)
        self._request, self._overlap = request, overlap
        self._fresh = self._was_fresh = True  # nothing has happened since the start
        self._under_way = UnderWay()
        self._take(make_run(self.ranks, model, request, overlap), model)

    @cached_property
    def _sums(self) -> ConstantSums:
        net = self.network
        return ConstantSums(net.groups, net.forest, net.area, net.structure.whole("g_total"))

    def _take(self, made: Made, model: Model) -> None:
        """Go on with another run."""
        own = vars(self)  # as users cannot set these
        own["runner"], own["engine"], own["chunk"] = made.runner, made.engine, made.chunk
        self._model, self._used, self._tried = model, False, False
        self._model_is_old = self._wiring_is_old = False
        self._constants_are_old = self._start_is_old = self._kept = False
        self._again: list[str] = []  # why to plan again
        self._begun = set[tuple[int, str]]()  # groups and their states that were set
        self._in_place = False  # parameters are others on the device than in the run's model
        in_place = self.ranks is None and getattr(made.runner, "in_place", False)
        self._on_device = DeviceChanges(made.runner) if in_place else None  # type: ignore[arg-type]
        self._unit = incoming_scale(model) if model.has_sums else 1.0
        _protect(model)

    @property
    def model(self) -> Model:
        """The network as arrays, with all that `set` has changed; read-only."""
        if self._model_is_old:
            self._model = self._compiled()
            self._model_is_old = self._wiring_is_old = False
            _protect(self._model)
        return self._model

    def _compiled(self) -> Model:
        if type(self._model) is Model and not self._wiring_is_old:
            net, v_init = self.network, self._settings["v_init"]
            return with_values(net, self._model, net.groups, v_init, self._changes, self._sums)  # type: ignore[arg-type]
        return compile(self.network, **self._settings, changes=self._changes)  # type: ignore[arg-type]

    @property
    def _saved_unit(self) -> float:
        """Unit of events under way in arrays that leave the run: that of a new simulation."""
        return incoming_scale(self.model) if self._model.has_sums else self._unit

    @property
    def _first(self) -> bool:
        """Whether this process is the one that reads, writes and prints."""
        return self.ranks is None or self.ranks.rank == 0

    @cached_property
    def _signature(self) -> str:
        """Digest of everything the arrays of a saved state depend on."""
        return saved_states.signature(self.model)

    # -- what users call -----------------------------------------------------------------------

    @exclusive
    def set(self, group: Group | None = None, /, **values: object) -> None:
        """Change values from now on; time and state stay as they are.

        Before the first step, and after `reset`, the state is that at the start with the new
        values: as of a simulation made with them.

        Parameters
        ----------
        group : Group, optional
            Of the network, or of one that it was branched from.
        **values
            Of a group its parameters, as `Network.insert` takes them. Without a group: `v_init`,
            as of `Simulation`, or one value per cell, for the next `reset`; `weight`, (m,) float,
            of all connections in the order of `weights`, which acts on events under way, too, as
            in NEURON; `events`, a list of ``(group, index,
            time, weight)`` in place of all events from outside, each as `Network.event` takes it
            and none of them in the past.

        Notes
        -----
        A parameter that was one number for all instances is a constant of the kernels on GPUs, and
        elsewhere has no memory for other values. The first change of such a one to several values
        plans the run again, once; the logger ``clhines`` says so at INFO. All other changes of
        parameters cost a copy to the device; where events act at exact times the host computes
        INITIAL blocks again. Weights plan again where they grow, become much smaller, or are
        plastic; events and several ranks do so each time, and ``reference`` computes all arrays
        again.

        Raises
        ------
        InputError
            It cannot be changed, or a wrong value; nothing has then changed. So for weights where
            events are under way of spikes before `restore` or `set_arrays`.
        """
        with agreed(self.ranks):
            if group is None:
                checked = self._checked_whole(values)
            else:
                group = _own_group(self.network, group)
                checked = {k: self._checked(group, k, v) for k, v in values.items()}
        if self.ranks is not None:
            self.ranks.same({"digest of what is set": _digest(group, checked)})
        if group is not None:
            self._set_parameters(group, checked)  # type: ignore[arg-type]
        else:
            self._set_whole(checked)
        vars(self).pop("_signature", None)

    @exclusive
    def reset(self) -> None:
        """Go back to t = 0, with the values as they are now.

        The state is that of a new simulation: voltages `v_init`, states as they then are, no event
        under way, weights as given or `set`. Records stay. The first call takes longer.
        """
        check_begins(self.network, "reset()")
        self._broken, self._fresh = "a reset failed", True
        self._settle_values()
        self._to_start()
        self._step, self._broken, self._under_way = 0, "", UnderWay()

    @exclusive
    def branch(self: _Self, count: int) -> _Self:
        """Return a simulation of copies of the network, each in the state that this one has now.

        Parameters
        ----------
        count : int
            Node i of copy k is node ``k * n + i``, and cell c of it cell ``k * num_cells + c``.

        Returns
        -------
        Simulation
            With no records yet. `set` takes the groups of this network; those of the copies have
            their instances copy after copy. Noise of `inoise` differs in all copies.
        """
        count = as_whole_number("count", count, 1)
        if self.ranks is not None:
            raise InputError("branch() is for one process; expected a simulation without comm")
        if self._broken:
            raise InputError(f"{self._broken}; there is no state to branch from")
        self._settle()
        model, request = self.model, self._request
        net = network_of_copies(self.network, self._changes, model, count)
        settings = dict(self._settings, v_init=np.tile(model.v_init, count))
        names = "dtype", "queue", "method", "engine", "chunk", "max_spikes"
        given = {name: getattr(request, name) for name in names} | request.options
        found = type(self)(net, **settings, **given)  # type: ignore[call-arg]
        if not self._fresh:
            of_all = copies_of(self.network, model, net, found.model)
            saved = of_all.state(self.runner.save())
            spikes = self._under_way.copies(of_all.sources)
            found.take_state(self._step, saved, self._unit, spikes)
        return found

    def take_state(
        self,
        step: int,
        saved: dict[str, np.ndarray],
        unit: float,
        spikes: UnderWay | None = None,
    ) -> None:
        """Go on at a step from what `Run.save` gave, its events in a unit, and these spikes."""
        self.runner.load(in_unit(saved, unit, self._unit))
        self._leave_start()
        self._step = step
        self._under_way.forget(step)
        self._under_way = self._under_way if spikes is None else spikes

    def _leave_start(self) -> int:
        """Note that the run is to have another state than that at the start; the steps so far."""
        self._was_fresh, self._fresh, self._used = self._fresh, False, True
        return self._step

    # -- checks --------------------------------------------------------------------------------

    def _checked(self, group: Group, name: str, value: object) -> Value:
        checked = as_value(group, name, value)
        model, k = self._model, self._model.instances[group.number][0]
        if not model.exact and name in group.mechanism.begins:
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
                nodes = np.arange(self._model.forest.num_nodes)
                found[name] = self.network.parameter("Simulation", name, value, nodes, "mV")
            elif name == "weight":
                found[name] = as_finite(name, np.atleast_1d(as_array(name, value))).copy()
            else:
                found[name] = as_events(value)
                check_not_past(found[name], self._model.dt, self._step)  # type: ignore[arg-type]
        return found

    # -- parameters ----------------------------------------------------------------------------

    def _set_parameters(self, group: Group, values: Mapping[str, Value]) -> None:
        known = self._changes.parameters.setdefault(group.number, {})
        mechanism, again = group.mechanism, []
        for name, value in values.items():
            known[name] = value
            self._model_is_old = True
            if mechanism.constant:
                self._constants_are_old = True
                continue
            self._start_is_old |= name in mechanism.initial_uses
            if name in mechanism.begins:
                self._begun.add((group.number, name))
            device = None if self._again else self._on_device
            if device is None or not device.set_parameter(group.number, name, value):
                self._changes.stored.add((mechanism.name, name))
                again.append(name)
            else:
                self._in_place = True
        if again:  # once for all that is set before the run is used
            self._again.append(f"{mechanism.name}: {', '.join(again)}")

    def _settle_values(self) -> None:
        """Bring the run to the parameters as they are: planned again, or constants summed again."""
        device = self._on_device
        if self._again:
            self._remake(f"no memory for other values of {'; '.join(self._again)}")
        elif self._in_place and any(is_computed(r, self._model) for r in self._records):
            assert device is not None
            device.run.take_parameters(self.model)
            self._in_place = False
        if not self._constants_are_old:
            return
        device, self._constants_are_old = self._on_device, False
        changes, sums = self._changes, self._sums
        if device is not None and device.set_constants(
            *sums.sums(changes), sums.conductances(changes)
        ):
            return
        changed = self._changes.parameters
        for group in self.network.groups:
            if group.mechanism.constant and group.number in changed:
                self._changes.stored |= {(group.mechanism.name, n) for n in changed[group.number]}
        self._remake("conductances that were constant")

    # -- weights, events, start ----------------------------------------------------------------

    def _set_whole(self, values: Mapping[str, object]) -> None:
        changes = self._changes
        if "weight" in values:
            self._check_spikes_known()
        before = self._settings["v_init"], self._start_is_old, changes.weight, changes.events
        if "v_init" in values:
            self._settings["v_init"] = values["v_init"]
            self._start_is_old = self._model_is_old = True
        device, weight = self._on_device, values.get("weight")
        again = [name for name in ("weight", "events") if name in values]
        if isinstance(weight, np.ndarray):
            if weight.shape == (1,):
                weight = np.repeat(weight, len(self._model.given_weights) or 1)
            changes.weight, self._model_is_old, self._wiring_is_old = weight, True, True
            good = weight.shape == self._model.connections.weight.shape  # none of trains
            good &= "events" not in values  # which may be wrong, and then nothing changes
            if device is not None and good and device.set_weights(weight):
                again.remove("weight")
                if len(self._under_way) and not self._fresh:
                    self.runner.load(self._with_weights(self.runner.save(), weight))
        if "events" in values:
            changes.events, self._wiring_is_old = values["events"], True  # type: ignore[assignment]
        if not again:
            return
        try:
            self._remake(f"other {' and '.join(again)}", weight)  # type: ignore[arg-type]
        except InputError:
            self._settings["v_init"], self._start_is_old, changes.weight, changes.events = before
            raise

    def _check_spikes_known(self) -> None:
        """Raise InputError where other weights could not act on all events under way."""
        model, spikes = self._model, self._under_way
        if self._fresh or self._broken or not model.has_sums or spikes.since < 0:
            return
        saved = self.runner.save()
        with agreed(self.ranks):
            spikes.check_known(saved.get("incoming", np.zeros(0)), model, self._step)

    def _with_weights(
        self, saved: dict[str, np.ndarray], weight: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Return a state whose events under way have other weights."""
        if "incoming" not in saved:  # of other ranks, and networks with exact times
            return saved
        sums = self._under_way.sums(weight, self._model, self._unit, self._step)
        return saved | {"incoming": sums.reshape(saved["incoming"].shape)}

    # -- runs ----------------------------------------------------------------------------------

    def _remake(self, why: str, weight: np.ndarray | None = None) -> None:
        """Make another run of the network as it is now, which goes on from the same state."""
        keep = not (self._fresh or self._broken)
        saved = self.runner.save() if keep else {}
        unit, begun = self._unit, self._begun
        with agreed(self.ranks):
            model = self._compiled()
        start_is_old = self._start_is_old
        restart, same = getattr(self.runner, "restart", None), model.sources is self._model.sources
        if same and restart is not None and restart(model):
            made = Made(self.runner, self.engine, self.chunk)
        else:
            made = make_run(self.ranks, model, self._request, self._overlap)
            _log.info("the simulation is planned again (%s)", why)
        self._take(made, model)
        self._start_is_old = keep and start_is_old
        if not keep:
            return
        with agreed(self.ranks):
            if weight is None:
                saved = in_unit(saved, unit, self._unit)
            else:
                saved = self._with_weights(saved, weight)
            for number, name in begun:
                _put_state(saved, model, number, name)
            if weight is not None:
                both = {"weight": model.netcons.weight, "plastic_weight": model.connections.weight}
                saved |= {key: values for key, values in both.items() if key in saved}
        self.runner.load(saved)
        self._used = True

    def _settle(self) -> None:
        """Bring the run to all that was set, before it is used."""
        self._settle_values()
        if self._fresh and self._start_is_old:
            self._to_start()

    def _to_start(self) -> None:
        """Put the run into its state at the start."""
        device = self._on_device
        if device is None:
            if self._used or self._start_is_old:
                self._remake("back to the start")
            return
        if not self._start_is_old and self._kept and device.reset():
            return
        model = self.model if self._start_is_old or device.run.grid.plasticity else self._model
        device.run.load(from_start(model, device.run.dtype))
        device.keep_start()
        self._kept, self._start_is_old = True, False


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
            numbers = value.numbers if isinstance(value, Value) else np.asarray(value)
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


def _put_state(saved: dict[str, np.ndarray], model: Model, group: int, name: str) -> None:
    """Give a state of a group the values that its kind has before INITIAL."""
    if not saved:  # of another rank than the first
        return
    k, place = model.instances[group]
    kind, states = model.kinds[k], model.schema.named(saved, "state", k)
    states[name][place] = np.broadcast_to(kind.parameters[name], kind.count)[place]


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


def _protect(model: Model) -> None:
    """Make the arrays of a model read-only: what is written there would act nowhere."""
    owners: list[object] = [model, *model.kinds, model.connections, model.events]
    arrays = [a for owner in owners for a in vars(owner).values()]
    arrays += [a for kind in model.kinds for a in vars(kind).get("parameters", {}).values()]
    for array in arrays:
        if isinstance(array, np.ndarray):
            array.setflags(write=False)
