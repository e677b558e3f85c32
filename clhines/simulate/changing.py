"""Changing: gives the network of a simulation other values, and goes back to its start."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping

import numpy as np

from clhines.checks import as_array, as_real, shown
from clhines.errors import InputError, meant
from clhines.network.changes import Value, as_events, as_value, check_not_past
from clhines.network.groups import Group
from clhines.network.inside import inside
from clhines.network.network import Network, check_begins
from clhines.simulate.events.grid_run import settled
from clhines.simulate.kinds.spec import check_constants
from clhines.simulate.ranks.mpi import agreed
from clhines.simulate.records.recording import Recordings
from clhines.simulate.runner import Outdated, Progress, Runner, in_unit
from clhines.simulate.state.changes import from_start

_log = logging.getLogger(__name__)
_WHOLE = ("v_init", "weight", "events")


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
        check_begins(self._model.network, "reset()")
        self._progress.broken, self._progress.at_start = "a reset failed", True
        self._settle_values()
        self._to_start()
        self._progress.begin()

    # -- checks --------------------------------------------------------------------------------

    def _checked(self, group: Group, name: str, value: object) -> Value:
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

    def _set_parameters(self, group: Group, values: Mapping[str, Value]) -> None:
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
            if device is None or not device.set_parameter(group.number, name, value):
                changes.stored.add((mechanism.name, name))
                again.append(name)
            else:
                unsettled.on_device = True
        if again:  # once for all that is set before the run is used
            unsettled.no_memory.append(f"{mechanism.name}: {', '.join(again)}")

    def _settle_values(self) -> None:
        """Bring the run to the parameters as they are: planned again, or constants summed again."""
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
            self._remake(f"other {' and '.join(again)}", weight)  # type: ignore[arg-type]
        except InputError:
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

    def _remake(self, why: str, weight: np.ndarray | None = None) -> None:
        """Make another run of the network as it is now, which goes on from the same state."""
        runner = self._runner
        keep = not (self._progress.at_start or self._progress.broken)
        saved = runner.run.save() if keep else {}
        unit, unsettled = runner.unit, runner.unsettled
        with agreed(runner.ranks):
            model = self._model.compiled()
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
