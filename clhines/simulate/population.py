"""Population: many parameter sets of one model under several protocols, in one batch."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from clhines.checks import (
    as_array,
    as_finite,
    as_indices,
    as_number,
    as_whole_number,
    check_room,
    shown,
)
from clhines.device import devices
from clhines.errors import InputError, SimulationError, meant
from clhines.network.changes import Changes
from clhines.network.copies import fill, structure_of_copies
from clhines.network.groups import Group
from clhines.network.network import Network
from clhines.network.times import whole_steps
from clhines.simulate.simulation import Simulation

_log = logging.getLogger(__name__)
_STIMULUS = {"amp": 0.0, "delay": 0.0, "dur": 1e9}  # nA, ms, ms
_NODE_BYTES = 24 * 8  # of a node in a simulation, about: matrix, voltages and what they are made of
_HOST_BYTES = 1 << 30  # that a slice takes at most where there is no device
_SHARE = 0.4  # of the memory of a device that a slice takes at most

Parameter = tuple[str, str] | tuple[str, str, ArrayLike]
Stimulus = Mapping[str, float]
Protocol = Mapping[str, float | Sequence[Stimulus]]


@dataclass(frozen=True, eq=False)
class Responses:
    """What a population did.

    Attributes
    ----------
    t : (T,) float64, ms
    v : (N, P, T) real, mV
        At the node that is recorded; NaN after a protocol's stop.
    spike_set, spike_protocol : (k,) int64
        By set, protocol and time.
    spike_time : (k,) float64, ms
        Until the stop of the protocol.
    """

    t: np.ndarray
    v: np.ndarray
    spike_set: np.ndarray
    spike_protocol: np.ndarray
    spike_time: np.ndarray

    @property
    def spike_count(self) -> np.ndarray:
        """(N, P) int64."""
        shape = self.v.shape[:2]
        both = self.spike_set * shape[1] + self.spike_protocol
        return np.bincount(both, minlength=shape[0] * shape[1]).reshape(shape)

    def spikes(self, number: int, protocol: int) -> np.ndarray:
        """(j,) float64, ms: times of the spikes of one set under one protocol."""
        mine = (self.spike_set == number) & (self.spike_protocol == protocol)
        return self.spike_time[mine]


class Population:
    """N parameter sets x P protocols of one model.

    The first `evaluate` makes the simulation of a slice; the later ones set values and go back to
    t = 0, without planning and without compilation.

    Parameters
    ----------
    model : Network
        One cell with everything that is the same in all sets; it stays as it is.
    parameters : mapping of str to tuple
        Name to ``(mechanism, parameter)``, or ``(mechanism, parameter, where)`` for those nodes of
        a mechanism of the membrane, as of `Network.insert`.
    protocols : mapping of str to mapping
        Name to ``{"stop": ms, "stimuli": [{"amp": nA, "delay": ms, "dur": ms, "at": node}, ...]}``:
        clamps of currents. Without `at` into the soma; without `dur` until the end.
    dt : float, ms
    record : int, optional
        Node of the model whose voltage is recorded. Default: the middle of the soma.
    batch : int, optional
        Sets that are simulated at once. Default: those of the first `evaluate`, or fewer, so that
        they fit into memory.
    **options
        Of `Simulation`.

    Attributes
    ----------
    names, protocols : tuple of str
    batch : int or None
    simulation : Simulation or None
        Of one slice: cell ``set * P + protocol``.

    Raises
    ------
    InputError
        The model is not one cell, is an extended network; or no such parameter or node.
    """

    def __init__(
        self,
        model: Network,
        parameters: Mapping[str, Parameter],
        protocols: Mapping[str, Protocol],
        *,
        dt: float = 0.025,
        record: int | None = None,
        batch: int | None = None,
        **options: object,
    ) -> None:
        if not isinstance(model, Network) or model.num_cells != 1:
            got = f"{model!r}" if isinstance(model, Network) else type(model).__name__
            raise InputError(f"model is {got}; expected a Network of one cell")
        for name, given in (("parameters", parameters), ("protocols", protocols)):
            if not isinstance(given, Mapping) or not given:
                raise InputError(f"{name} is {shown(given)}; expected names with their values")
        self._compiled = model.compile(dt)
        if self._compiled.extended is not None:
            raise InputError("model is an extended network; expected one without, see the docs")
        self._model, self._dt, self._options = model, self._compiled.dt, options
        self.names, self.protocols = tuple(parameters), tuple(protocols)
        nodes = [model.soma[0] if record is None else record]
        self._node = int(as_indices("record", np.asarray(nodes), model.forest.num_nodes, "node")[0])
        self._pieces, self._parts = _pieces(model, parameters)
        self._parameter = [parameters[name][1] for name in self.names]
        self._stops, self._stimuli = _protocols(model, protocols, self._dt)
        self.batch = None if batch is None else as_whole_number("batch", batch, 1)
        self.simulation: Simulation | None = None

    def evaluate(self, sets: ArrayLike | Mapping[str, ArrayLike]) -> Responses:
        """Simulate parameter sets under all protocols.

        Parameters
        ----------
        sets : (N, parameters) float, or mapping of str to (N,) float
            In the order of `names`, or by name.

        Returns
        -------
        Responses

        Raises
        ------
        SimulationError
            A voltage was not finite; the message names set and protocol.
        """
        values = self._sets(sets)
        number, several = len(values), len(self.protocols)
        steps = int(self._stops.max())
        size = number * several * (steps + 1) * 8
        check_room(size, f"voltages of {number} sets under {several} protocols")
        if self.simulation is None:
            self._make(number)
        assert self.batch is not None
        found = []
        for first in range(0, number, self.batch):
            rows = np.minimum(first + np.arange(self.batch), number - 1)  # the last one fills up
            found.append(self._slice(values[rows], first, min(self.batch, number - first)))
        t, v, *spikes = zip(*found, strict=True)
        return Responses(t[0], np.concatenate(v), *(np.concatenate(s) for s in spikes))

    def _sets(self, sets: ArrayLike | Mapping[str, ArrayLike]) -> np.ndarray:
        if isinstance(sets, Mapping):
            for name in sets:
                if name not in self.names:
                    raise InputError(
                        f"sets has {shown(name)}; expected {', '.join(self.names)}"
                        f"{meant(name, self.names)}"
                    )
            missing = [name for name in self.names if name not in sets]
            if missing:
                raise InputError(f"sets lacks {missing[0]}; expected {', '.join(self.names)}")
            columns = [np.atleast_1d(as_array(name, sets[name])) for name in self.names]
            if len({c.shape for c in columns}) > 1 or columns[0].ndim > 1:
                raise InputError("sets has arrays of several lengths; expected (N,) each")
            values = np.stack(columns, axis=1)
        else:
            values = np.asarray(sets)
        if values.ndim != 2 or values.shape[1] != len(self.names) or not len(values):
            raise InputError(
                f"sets has shape {values.shape}; expected (N, {len(self.names)}), a column for "
                "each of the names"
            )
        columns = [as_finite(n, as_array(n, values[:, k])) for k, n in enumerate(self.names)]
        return np.stack(columns, axis=1)

    def _make(self, number: int) -> None:
        """Make the simulation of a slice."""
        several = len(self.protocols)
        self.batch = min(number, self.batch or self._most())
        copies = self.batch * several
        net = Network(structure_of_copies(self._model.structure, copies))
        wiring, rule = self._model.wiring(Changes()), self._compiled.connections.rule
        groups = fill(net, self._model, self._pieces, wiring, rule)
        protocol = np.arange(copies) % several
        for of_protocol in self._stimuli:
            at = net.forest.cell_offsets[:-1] + of_protocol["at"][protocol].astype(np.int64)
            net.add("iclamp", at, **{name: of_protocol[name][protocol] for name in _STIMULUS})
        sim = Simulation(net, self._dt, **self._options)  # type: ignore[arg-type]
        self._groups = [[groups[k] for k in parts] for parts in self._parts]
        sim.record("v", net.forest.cell_offsets[:-1] + self._node)
        self.simulation = sim
        _log.info("a population of %d sets x %d protocols at once", self.batch, several)

    def _most(self) -> int:
        """Return how many sets fit into the memory of the device, or the host, by an estimate."""
        kinds = self._compiled.kinds
        numbers = sum(
            k.count * (len(k.mechanism.parameters) + 3 * len(k.mechanism.states) + 3) for k in kinds
        )
        cell = self._compiled.forest.num_nodes * _NODE_BYTES + 8 * numbers
        cell += 16 * min(int(self._stops.max()), 1024)
        options = {k: self._options.get(k) for k in ("queue", "device")}
        if self._options.get("engine") == "reference":
            return max(1, _HOST_BYTES // (cell * len(self.protocols)))
        dtype = self._options.get("dtype", "float64")
        queue = devices.given_queue(options["queue"], options["device"], dtype)  # type: ignore[arg-type]
        room = _SHARE * queue.device.global_mem_size
        return max(1, int(room // (cell * len(self.protocols))))

    def _slice(
        self, values: np.ndarray, first: int, kept: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Simulate a slice; times, voltages and spikes of the sets that are kept."""
        sim, several = self.simulation, len(self.protocols)
        assert sim is not None
        for k, groups in enumerate(self._groups):
            each = sim.network.per_cell(np.repeat(values[:, k], several))
            for group in groups:
                sim.set(group, **{self._parameter[k]: each})
        sim.reset()
        try:
            result = sim.run(int(self._stops.max()) * self._dt)
        except SimulationError as error:
            number, protocol = divmod(error.cell, several)
            where = f"set {first + number} under {self.protocols[protocol]}"
            raise SimulationError(
                f"{where}: {error}", error.cell, error.node, error.time, error.result
            ) from error
        v = result[0].T.reshape(len(values), several, -1)[:kept].copy()
        step = np.rint(result.t / self._dt)
        for protocol, stop in enumerate(self._stops):
            v[:, protocol, step > stop] = np.nan
        of_set, of_protocol = np.divmod(result.spike_cell, several)
        good = of_set < kept
        good &= np.rint(result.spike_time / self._dt) <= self._stops[of_protocol]
        of_set, of_protocol, time = of_set[good], of_protocol[good], result.spike_time[good]
        order = np.lexsort((time, of_protocol, of_set))
        return result.t, v, first + of_set[order], of_protocol[order], time[order]


def _pieces(
    model: Network, parameters: Mapping[str, Parameter]
) -> tuple[list[Group], list[list[int]]]:
    """Split the groups of a model so that each parameter has pieces of its own.

    Returns
    -------
    list of Group
    list of list of int
        Pieces of each parameter.
    """
    masks: dict[int, list[np.ndarray]] = {g.number: [] for g in model.groups}
    used: dict[int, list[tuple[int, str]]] = {g.number: [] for g in model.groups}
    for k, (name, spec) in enumerate(parameters.items()):
        for group, mask in _instances(model, name, spec):
            for (_, other), known in zip(used[group.number], masks[group.number], strict=True):
                if other == spec[1] and (known & mask).any():
                    raise InputError(f"{name}: {spec[0]} {spec[1]} is of another name, too")
            masks[group.number].append(mask)
            used[group.number].append((k, spec[1]))
    pieces: list[Group] = []
    parts: list[list[int]] = [[] for _ in parameters]
    for group in model.groups:
        of_group = np.array(masks[group.number], bool).reshape(-1, len(group))
        sorts, piece = np.unique(of_group, axis=1, return_inverse=True)
        for p in range(sorts.shape[1] if len(of_group) else 1):
            mine = np.flatnonzero(piece.reshape(-1) == p) if len(of_group) else np.arange(
                len(group))  # fmt: skip
            here = [u for u, taken in zip(used[group.number], sorts[:, p], strict=True) if taken]
            values = {
                n: np.broadcast_to(v, len(group))[mine].copy()
                if np.ndim(v) or any(n == other for _, other in here)
                else v
                for n, v in group.parameters.items()
            }
            for k, _ in here:
                parts[k].append(len(pieces))
            pieces.append(replace(group, nodes=group.nodes[mine], parameters=values))
    return pieces, parts


def _instances(model: Network, name: str, spec: Parameter) -> list[tuple[Group, np.ndarray]]:
    """Return the groups that a parameter is of, and which of their instances."""
    if not isinstance(spec, tuple) or len(spec) not in (2, 3):
        raise InputError(
            f"{name} is {shown(spec)}; expected (mechanism, parameter) or (mechanism, parameter, "
            "where)"
        )
    mechanism, parameter = spec[:2]
    known = {g.mechanism.name for g in model.groups}
    groups = [g for g in model.groups if g.mechanism.name == mechanism]
    if not groups:
        raise InputError(
            f"{name}: the model has no {shown(mechanism)}; expected one of "
            f"{', '.join(sorted(known)) or 'none'}{meant(mechanism, known)}"
        )
    if parameter not in groups[0].mechanism.parameters:
        of_mechanism = groups[0].mechanism.parameters
        raise InputError(
            f"{name}: {mechanism} has no parameter {shown(parameter)}; expected one of "
            f"{', '.join(of_mechanism)}{meant(parameter, of_mechanism)}"
        )
    if len(spec) == 2:
        return [(g, np.ones(len(g), bool)) for g in groups]
    if groups[0].mechanism.kind != "density":
        raise InputError(f"{name}: where is for mechanisms of the membrane; expected none")
    nodes = model.nodes(where=spec[2])
    found = [(g, np.isin(g.nodes, nodes)) for g in groups]
    found = [(g, mask) for g, mask in found if mask.any()]
    if not found:
        raise InputError(f"{name}: no {mechanism} where={shown(spec[2])}; expected nodes with it")
    return found


def _protocols(
    model: Network, protocols: Mapping[str, Protocol], dt: float
) -> tuple[np.ndarray, list[dict[str, np.ndarray]]]:
    """Return stop of each protocol in steps, and for each clamp of a cell values by protocol."""
    stops, lists = [], []
    for name, given in protocols.items():
        if not isinstance(given, Mapping) or not {*given} <= {"stop", "stimuli"}:
            raise InputError(f"protocol {name} is {shown(given)}; expected stop and stimuli")
        steps = whole_steps(given.get("stop"), dt)
        if not steps:
            raise InputError(
                f"protocol {name}: stop is {shown(given.get('stop'))}; expected a whole number of "
                f"steps of {dt:g} ms"
            )
        stops.append(steps)
        stimuli = given.get("stimuli", ())
        if not isinstance(stimuli, Sequence):
            raise InputError(f"protocol {name}: stimuli is {shown(stimuli)}; expected a list")
        lists.append([_stimulus(model, name, one) for one in stimuli])
    none = dict(_STIMULUS, dur=0.0, at=float(model.soma[0]))
    columns = []
    for k in range(max(len(each) for each in lists)):
        rows = [each[k] if k < len(each) else none for each in lists]
        columns.append({key: np.array([row[key] for row in rows]) for key in none})
    return np.array(stops), columns


def _stimulus(model: Network, protocol: str, given: Stimulus) -> dict[str, float]:
    if not isinstance(given, Mapping) or not {*given} <= {*_STIMULUS, "at"}:
        raise InputError(
            f"protocol {protocol}: stimulus is {shown(given)}; expected amp, delay, dur and at"
        )
    found = {
        name: as_number(f"protocol {protocol}: {name}", given.get(name, default))
        for name, default in _STIMULUS.items()
    }
    node = np.asarray([given.get("at", model.soma[0])])
    at = as_indices(f"protocol {protocol}: at", node, model.forest.num_nodes, "node")
    return {**found, "at": float(at[0])}
