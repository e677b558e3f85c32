"""Updates: new values for a simulation's network; see `Simulation.set`."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from clhines.core.checks import as_array, as_real
from clhines.core.errors import DeviceMemoryError, InputError, meant, shown
from clhines.simulator.interrupt import InterruptDelay
from clhines.simulator.kinds.spec import check_constants
from clhines.simulator.mechanisms.ir.program import HELD_STEPS
from clhines.simulator.network.changes import (
    ParameterValue,
    as_value,
    is_plain,
)
from clhines.simulator.network.groups import Group, check_begins, inside
from clhines.simulator.network.network import Network
from clhines.simulator.network.times import refractory_steps
from clhines.simulator.recordings import Recordings
from clhines.simulator.runner import Progress, Runner, Staleness, in_unit
from clhines.simulator.state.changes import DeviceChanges, affects_start
from clhines.simulator.state.host_grid import settled

_log = logging.getLogger(__name__)
_NAMES = "v_init", "weight"  # for values that are not a group's


class Updates:
    """Set new values in a simulation; see `Simulation.set` and `reset`."""

    def __init__(self, runner: Runner, progress: Progress, recordings: Recordings) -> None:
        self._runner, self._model = runner, runner.model
        self._progress, self._recordings = progress, recordings
        # by group and name of parameters that any number may replace: `affects_start`
        self._checked = dict[tuple[int, str], bool]()

    def set(self, group: Group | None, values: Mapping[str, object]) -> None:
        ranks = self._runner.ranks
        if group is None:
            with ranks.agreed():
                checked = self._network_values(values)
            ranks.same(lambda: {"digest of what is set": _digest(-1, checked)})
            self._set_network(checked)
            return
        with ranks.agreed():
            group = _group_here(self._model.network, group)
            parameters = {}
            for name, value in values.items():
                parameters[name] = self._parameter_value(group, name, value)
        if ranks.size > 1:
            ranks.same(lambda: {"digest of what is set": _digest(group.number, parameters)})
        self._set_parameters(group, parameters)

    def reset(self) -> None:
        check_begins(self._model.network.settings, "reset()")
        self._progress.broken, self._progress.at_start = "a reset failed", True
        self._settle_values()
        self._to_start()
        self._progress.begin()

    def _parameter_value(self, group: Group, name: str, value: object) -> ParameterValue:
        if (group.number, name) in self._checked and is_plain(value):
            return ParameterValue(np.array([value]), "all")  # in a tenth of the time
        checked = as_value(group, name, value)
        spike = group.mechanism.program.spike
        if spike is not None and name == spike.refractory and checked.numbers.min() < 0:
            raise InputError(f"{group.mechanism.name}: {name} is below 0 ms; expected 0 or more")
        model = self._model.compiled
        if not model.exact and name in group.mechanism.program.begins:
            raise InputError(
                f"{group.mechanism.name}: {name} is set by its blocks; expected a new Network"
            )
        k = model.instances[group.number][0] if model.played else -1
        if model.played and any(p.kind == k and p.parameter == name for p in model.played):
            raise InputError(
                f"{group.mechanism.name}: {name} is set by play(); expected another parameter"
            )
        if spike is None or name != spike.refractory:
            self._checked[group.number, name] = affects_start(model, group.mechanism, name)
        return checked

    def _network_values(self, values: Mapping[str, object]) -> dict[str, Any]:
        checked = dict[str, Any]()
        for name, value in values.items():
            if name == "v_init":
                network = inside(self._model.network)
                nodes = np.arange(self._model.compiled.forest.num_nodes)
                checked[name] = network.parameter("Simulation", name, value, nodes, "mV")
            elif name == "weight":
                checked[name] = as_real(name, np.atleast_1d(as_array(name, value))).copy()
            else:
                raise InputError(
                    f"{shown(name)} cannot be set; expected a group, or {', '.join(_NAMES)}"
                    f"{meant(name, _NAMES)}"
                )
        return checked

    def _set_parameters(self, group: Group, values: Mapping[str, ParameterValue]) -> None:
        model, pending, number = self._model, self._runner.pending, group.number
        mechanism, without_memory = group.mechanism, []
        device = None if pending.without_memory else self._runner.on_device
        new_values = model.changes.parameters.setdefault(number, {})
        for name, value in values.items():
            new_values[name] = value
            model.mark_stale(Staleness.VALUES)
            if mechanism.constant:
                pending.constants = True
                continue
            starts = self._checked.get((number, name))
            if starts is None:
                starts = affects_start(model.compiled, mechanism, name)
            if starts:
                pending.start_values = True
            if name in mechanism.program.begins:
                pending.initial_states.add((number, name))
            if device is not None and self._put(device, group, name, value):
                pending.only_on_device = True
                if device.run.keeps_currents:
                    pending.first_currents = True
            else:
                model.changes.stored.add((mechanism.name, name))
                without_memory.append(name)
        if without_memory:  # made again at the next use
            pending.without_memory.append(f"{mechanism.name}: {', '.join(without_memory)}")

    def _put(self, device: DeviceChanges, group: Group, name: str, value: ParameterValue) -> bool:
        """Change a parameter in the run on its device; return False if that is not possible.

        A changed refractory time also changes the parameter that holds it in steps.
        """
        program, number = group.mechanism.program, group.number
        if program.spike is not None and name == program.spike.refractory:
            steps = refractory_steps(value.numbers, self._model.compiled.dt)
            if not device.set_parameter(number, HELD_STEPS, ParameterValue(steps, value.by)):
                return False
        return device.set_parameter(number, name, value)

    def _settle_values(self) -> None:
        """Bring changed parameters to the run; make a new run if it cannot change them."""
        runner, model, pending = self._runner, self._model, self._runner.pending
        device = runner.on_device
        if pending.without_memory:
            self._remake(f"no memory for other values of {'; '.join(pending.without_memory)}")
        elif device is not None and pending.only_on_device and self._recordings.any_computed:
            device.run.take_parameters(model.current)
            pending.only_on_device = False
        if not runner.pending.constants:
            return
        sums, device = model.sums(), runner.on_device
        d, b, g = sums["constant_d"], sums["constant_b"], sums["constant_g"]
        check_constants(runner.request.dtype, constant_conductance=d, constant_current=b)
        runner.pending.constants = False
        if device is not None and device.set_constants(d, b, g):
            return
        changed = model.changes.parameters
        for group in model.network.groups:
            if group.mechanism.constant and group.number in changed:
                model.changes.stored |= {(group.mechanism.name, n) for n in changed[group.number]}
                model.mark_stale(Staleness.VALUES)
        self._remake("conductances that were constant")

    def _set_network(self, values: dict[str, Any]) -> None:
        runner, model, weight = self._runner, self._model, values.get("weight")
        changes, settings = model.changes, model.settings
        if weight is not None:
            self._check_spikes_known()
        before = settings["v_init"], runner.pending.start_values, changes.weight
        if "v_init" in values:
            settings["v_init"], runner.pending.start_values = values["v_init"], True
            model.mark_stale(Staleness.VALUES)
        if weight is None:
            return
        if weight.shape == (1,):
            weight = np.repeat(weight, len(model.compiled.given_weights) or 1)
        changes.weight = weight
        model.mark_stale(Staleness.WIRING)
        if self._put_weights(weight):
            # spikes at the start have weights
            runner.pending.start_values |= bool(model.compiled.begins_above.any())
            return
        try:
            self._remake("other weights", weight)
        except (InputError, DeviceMemoryError):
            settings["v_init"], runner.pending.start_values, changes.weight = before
            raise

    def _put_weights(self, weight: np.ndarray) -> bool:
        """Change weights and pending events on the device; return False if that is not possible."""
        run, device = self._runner.run, self._runner.on_device
        if device is None or weight.shape != self._model.compiled.connections.weight.shape:
            return False
        if not device.set_weights(weight):
            return False
        if len(self._progress.under_way) and not self._progress.at_start:
            run.load(self._with_weights(run.save(), weight))
        return True

    def _check_spikes_known(self) -> None:
        model, progress, spikes = self._model.compiled, self._progress, self._progress.under_way
        if progress.at_start or progress.broken or not model.has_sums or spikes.since < 0:
            return
        saved = self._runner.run.save()
        with self._runner.ranks.agreed():
            spikes.check_known(saved.get("incoming", np.zeros(0)), model, progress.step)

    def _with_weights(
        self, saved: dict[str, np.ndarray], weight: np.ndarray
    ) -> dict[str, np.ndarray]:
        if "incoming" not in saved:  # on other ranks, and in networks with exact times
            return saved
        model, unit, progress = self._model.compiled, self._runner.unit, self._progress
        sums = progress.under_way.sums(weight, model, unit, progress.step)
        return saved | {"incoming": sums.reshape(saved["incoming"].shape)}

    def _remake(self, why: str, weight: np.ndarray | None = None) -> None:
        """Make a run with all changes, which continues from the state of the run in use.

        `why` is for the log. `weight` has new weights of all connections; None: as they are.
        """
        runner = self._runner
        keep = not (self._progress.at_start or self._progress.broken)
        saved = runner.run.save() if keep else {}
        unit, pending = runner.unit, runner.pending
        with runner.ranks.agreed():
            model = self._model.compile_changes()
        try:
            with InterruptDelay(runner.is_first) as interrupt:  # until the run has its state
                if model.sources is not self._model.compiled.sources or not runner.restart(model):
                    engine_run = runner.make(model)
                    _log.info("the simulation is planned again (%s)", why)
                    runner.replace(engine_run, model)
                if keep:
                    runner.pending.start_values = pending.start_values
                    self._load(saved, unit, pending.initial_states, weight)
        except KeyboardInterrupt:
            if keep:
                self._progress.broken = "new values were interrupted by Ctrl-C"
            raise
        if interrupt.pending:
            raise KeyboardInterrupt

    def _load(
        self,
        saved: dict[str, np.ndarray],
        unit: float,
        initial_states: Iterable[tuple[int, str]],
        weight: np.ndarray | None,
    ) -> None:
        """Load a state that was saved before new values, with these states at their new starts.

        `unit` is the state's unit of pending events; for `weight` see `_remake`.
        """
        runner, model = self._runner, self._model.compiled
        with runner.ranks.agreed():
            if weight is None:
                saved = in_unit(saved, unit, runner.unit)
            else:
                saved = self._with_weights(saved, weight)
            for number, name in initial_states if saved else ():  # on the first rank
                k, place = model.instances[number]
                kind, states = model.kinds[k], model.schema.named(saved, "state", k)
                states[name][place] = np.broadcast_to(kind.parameters[name], kind.count)[place]
            if weight is not None:
                saved = settled(model, saved, self._progress.step - 1)
                both = {"weight": model.netcons.weight, "plastic_weight": model.connections.weight}
                saved |= {key: values for key, values in both.items() if key in saved}
        runner.load(saved, runner.unit)

    def settle(self, first_currents: bool = True) -> None:
        """Bring all changes to the run, before it is used.

        With `first_currents`, compute also initial values again that the first step sets, such as
        currents.
        """
        pending = self._runner.pending
        if pending.without_memory or pending.constants or self._recordings.any_computed:
            self._settle_values()
            pending = self._runner.pending
        if self._progress.at_start:
            if pending.start_values or (first_currents and pending.first_currents):
                pending.start_values = True
                self._to_start()

    def _to_start(self) -> None:
        runner, new_values = self._runner, self._runner.pending.start_values
        if not new_values and runner.reset():
            return
        if runner.on_device is None or not runner.restart(self._model.current, in_place=True):
            self._remake("back to the start")


def _digest(group: int, values: Mapping[str, object]) -> str:
    names = sorted(values)
    digest = hashlib.sha256(repr((group, names)).encode())
    for value in map(values.__getitem__, names):
        numbers = value.numbers if isinstance(value, ParameterValue) else np.asarray(value)
        digest.update(np.ascontiguousarray(numbers).tobytes())
    return digest.hexdigest()[:8]


def _group_here(network: Network, group: object) -> Group:
    """Return the group in `network` that stands for a group of it or of the network it is from."""
    if not isinstance(group, Group):
        raise InputError(
            f"group is {type(group).__name__}; expected a Group, from insert() or add()"
        )
    if group.network is network:
        return group
    ancestor = network
    while group.network is not ancestor:
        if ancestor.branched_from is None:
            raise InputError(f"group {group.mechanism.name} belongs to another network")
        ancestor = ancestor.branched_from
    return network.groups[group.number]
