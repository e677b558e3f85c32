"""Population: many parameter sets of one model under several protocols, in batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyopencl as cl
from numpy.typing import ArrayLike

from clhines.core.checks import (
    as_array,
    as_indices,
    as_number,
    as_real,
    as_switch,
    as_whole_number,
    check_room,
    shown,
    spread,
    unchangeable,
)
from clhines.core.errors import InputError, SimulationError, meant
from clhines.core.progress import bar
from clhines.core.quantities import as_numbers
from clhines.core.summary import as_html, counted
from clhines.simulator.analysis.extract import FEATURES, known_features
from clhines.simulator.analysis.features import Features
from clhines.simulator.analysis.results import check_names
from clhines.simulator.analysis.spikes import RaggedArray, lists_of
from clhines.simulator.model.compiling import compile
from clhines.simulator.model.model import Model
from clhines.simulator.network.copies import fill, structure_of_copies
from clhines.simulator.network.groups import Group, check_begins, inside
from clhines.simulator.network.network import Network
from clhines.simulator.network.times import whole_steps
from clhines.simulator.population import shares
from clhines.simulator.ranks.mpi import agreed, own_queue
from clhines.simulator.ranks.partition import ranks_of
from clhines.simulator.simulation import Simulation
from clhines.solver.device import devices as device_list

STIMULUS = {"amp": 0.0, "delay": 0.0, "dur": 1e9}
CLAMPS = ("iclamp", "IClamp")  # built in, and NEURON's
_UNITS = {"amp": "nA", "delay": "ms", "dur": "ms"}

ParameterPath = tuple[str, str] | tuple[str, str, ArrayLike]
Stimulus = Mapping[str, float]
Protocol = Mapping[str, float | Sequence[Stimulus]]


@dataclass(frozen=True, eq=False)
class ParameterGroups:
    """The groups of a model, divided so that each parameter has pieces of its own."""

    groups: list[Group]
    instances: list[np.ndarray]  # of each piece, by their numbers in its group
    of_parameter: list[list[int]]  # pieces of each


def divided(model: Network, parameters: Mapping[str, ParameterPath]) -> ParameterGroups:
    masks: dict[int, list[np.ndarray]] = {g.number: [] for g in model.groups}
    used: dict[int, list[tuple[int, str]]] = {g.number: [] for g in model.groups}
    for k, (name, spec) in enumerate(parameters.items()):
        for group, mask in _instances(model, name, spec):
            for (before, other), known in zip(used[group.number], masks[group.number], strict=True):
                if other == spec[1] and (known & mask).any():
                    both = f"{shown([*parameters][before])} and {shown(name)}"
                    conflict = f"{group.mechanism.name}.{other} of the same instances"
                    raise InputError(f"parameters {both} both set {conflict}; expected one of them")
            masks[group.number].append(mask)
            used[group.number].append((k, spec[1]))
    pieces, instances = list[Group](), list[np.ndarray]()
    parts: list[list[int]] = [[] for _ in parameters]
    for group in model.groups:
        of_group = np.array(masks[group.number], bool).reshape(-1, len(group))
        sorts, piece = np.unique(of_group, axis=1, return_inverse=True)
        for p in range(sorts.shape[1] if len(of_group) else 1):
            mine = np.flatnonzero(piece.reshape(-1) == p) if len(of_group) else np.arange(
                len(group))  # fmt: skip
            here = [u for u, is_set in zip(used[group.number], sorts[:, p], strict=True) if is_set]
            values = {
                n: np.broadcast_to(v, len(group))[mine].copy()
                if np.ndim(v) or any(n == other for _, other in here)
                else v
                for n, v in group.parameters.items()
            }
            for k, _ in here:
                parts[k].append(len(pieces))
            instances.append(mine)
            fields = group.network, group.number, group.mechanism, group.nodes[mine], values
            pieces.append(Group(*fields))
    return ParameterGroups(pieces, instances, parts)


def _instances(model: Network, name: str, spec: ParameterPath) -> list[tuple[Group, np.ndarray]]:
    """Return the groups that a parameter is of, and which of their instances."""
    if not isinstance(spec, tuple) or len(spec) not in (2, 3):
        raise InputError(
            f"{name} is {shown(spec)}; expected (mechanism, parameter) or (mechanism, parameter, "
            "at)"
        )
    mechanism, parameter = spec[:2]
    known = {g.mechanism.name for g in model.groups}
    groups = [g for g in model.groups if g.mechanism.name == mechanism]
    if not groups:
        raise InputError(
            f"{name}: the model has no {shown(mechanism)}; expected one of "
            f"{', '.join(sorted(known)) or 'none'}{meant(mechanism, known)}"
        )
    of_mechanism = groups[0].mechanism.settable
    if parameter not in of_mechanism:
        raise InputError(
            f"{name}: {mechanism} has no parameter {shown(parameter)}; expected one of "
            f"{', '.join(of_mechanism)}{meant(parameter, of_mechanism)}"
        )
    if len(spec) == 2:
        return [(g, np.ones(len(g), bool)) for g in groups]
    if groups[0].mechanism.kind != "density":
        raise InputError(f"{name}: at is for mechanisms of the membrane; expected none")
    nodes = model.nodes(at=spec[2])
    found = [(g, np.isin(g.nodes, nodes)) for g in groups]
    found = [(g, mask) for g, mask in found if mask.any()]
    if not found:
        raise InputError(f"{name}: no {mechanism} at={shown(spec[2])}; expected nodes with it")
    return found


def by_step(
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
    none = dict(STIMULUS, dur=0.0, at=float(model.soma[0]))
    columns = []
    for k in range(max(len(each) for each in lists)):
        rows = [each[k] if k < len(each) else none for each in lists]
        columns.append({key: np.array([row[key] for row in rows]) for key in none})
    return np.array(stops), columns


def _stimulus(model: Network, protocol: str, given: Stimulus) -> dict[str, float]:
    if not isinstance(given, Mapping) or not {*given} <= {*STIMULUS, "at"}:
        raise InputError(
            f"protocol {protocol}: stimulus is {shown(given)}; expected amp, delay, dur and at"
        )
    if "amp" not in given:
        raise InputError(f"protocol {protocol}: stimulus is {shown(given)}; expected amp, nA")
    stimulus = {
        name: as_number(f"protocol {protocol}: {name}", given.get(name, default), _UNITS[name])
        for name, default in STIMULUS.items()
    }
    if stimulus["dur"] < 0:
        raise InputError(f"protocol {protocol}: dur is {stimulus['dur']:g} ms; expected 0 or more")
    node = np.asarray([as_numbers("at", given.get("at", model.soma[0]))])
    at = as_indices(f"protocol {protocol}: at", node, model.forest.num_nodes, "node")
    return {**stimulus, "at": float(at[0])}


@dataclass(frozen=True, eq=False)
class Recipe:
    """Shared by all batches of a population: one cell, `model`, and how it is simulated."""

    model: Network
    compiled: Model
    pieces: ParameterGroups
    names: tuple[str, ...]  # of the parameters' mechanisms: `Simulation.set` takes them
    protocols: tuple[str, ...]
    stops: np.ndarray  # (P,), in steps
    stimuli: list[dict[str, np.ndarray]]  # of each clamp its values by name, (P,)
    node: int  # whose voltage is recorded
    features: tuple[str, ...]  # to record instead
    windows: dict[str, np.ndarray]  # (P,): the stimulus that they refer to
    dt: float


@dataclass(frozen=True, eq=False)
class BatchResults:
    """Results of a batch for sets from `first` on, under the protocols of `columns`."""

    first: int
    columns: np.ndarray
    t: np.ndarray
    v: np.ndarray  # (sets, protocols, T), mV
    spike_set: np.ndarray  # from 0 on
    spike_protocol: np.ndarray
    spike_time: np.ndarray
    features: Mapping[str, np.ndarray | RaggedArray]  # by set and protocol


class Batch:
    """A simulation of `size` sets under some protocols: cell ``set * protocols + protocol``."""

    def __init__(
        self, recipe: Recipe, columns: np.ndarray, size: int, options: Mapping[str, object]
    ) -> None:
        self.recipe, self.columns, self.size = recipe, columns, size
        several, model = len(columns), recipe.model
        self.steps, copies = int(recipe.stops[columns].max()), size * several
        net = Network(structure_of_copies(inside(model).structure, copies))
        wiring, rule = inside(model).wiring, recipe.compiled.connections.rule
        pieces = recipe.pieces
        groups = fill(
            net, model, pieces.groups, wiring, rule, [*recipe.compiled.streams()], pieces.instances
        )
        protocol = columns[np.arange(copies) % several]
        for of_protocol in recipe.stimuli:
            if (of_protocol["dur"][columns] > 0).any():
                at = net.forest.cell_offsets[:-1] + of_protocol["at"][protocol].astype(np.int64)
                net.add("iclamp", at, **{name: of_protocol[name][protocol] for name in STIMULUS})
        given = dict(options)
        if np.ndim(given.get("v_init", 0.0)):  # type: ignore[arg-type]
            nodes = model.forest.num_nodes
            given["v_init"] = np.tile(spread("v_init", given["v_init"], nodes), copies)
        sim = Simulation(net, recipe.dt, **given)  # type: ignore[arg-type]
        self._groups = [[groups[k] for k in parts] for parts in pieces.of_parameter]
        reduce = None
        if recipe.features:
            window = {name: values[protocol] for name, values in recipe.windows.items()}
            reduce = Features(
                recipe.features,
                stim_start=window["delay"],
                stim_end=np.minimum(window["delay"] + window["dur"], self.steps * recipe.dt),
                stimulus_current=window["amp"],
            )
        self._record = sim.record("v", net.forest.cell_offsets[:-1] + recipe.node, reduce=reduce)
        self.simulation = sim

    def run(self, values: np.ndarray, first: int, kept: int) -> BatchResults:
        """Simulate (size, parameters) values; of the sets from `first` on `kept` are wanted."""
        sim, recipe, several = self.simulation, self.recipe, len(self.columns)
        for k, groups in enumerate(self._groups):
            each = np.repeat(values[:, k], several)
            for group in groups:
                if group.mechanism.kind == "artificial":  # in no cell, so many in each copy
                    value: object = np.repeat(each, len(group) // len(each))
                else:
                    value = sim.network.per_cell(each)
                sim.set(group, **{recipe.names[k]: value})
        sim.reset()
        try:
            result = sim.run(self.steps * recipe.dt)
        except SimulationError as error:
            number, own = divmod(error.cell, several)
            where = f"set {first + number} under {recipe.protocols[self.columns[own]]}"
            raise SimulationError(
                f"{where}: {error}", error.cell, error.node, error.time, error.result
            ) from error
        stops = recipe.stops[self.columns]
        features: dict[str, np.ndarray | RaggedArray] = {}
        v = np.zeros((kept, several, 0), sim.dtype)
        if recipe.features:
            for name, values_of in result.features[self._record].items():
                features[name] = _first(values_of, kept * several)
        else:
            v = result[self._record].T.reshape(self.size, several, -1)[:kept].copy()
            step = np.rint(result.t / recipe.dt)
            for k, stop in enumerate(stops.tolist()):
                v[:, k, step > stop] = np.nan
        cells = result.spike_cell < kept * several  # the others are of no cell that is wanted
        of_set, column = np.divmod(result.spike_cell[cells], several)
        time = result.spike_time[cells]
        good = np.ceil(time / recipe.dt - 0.5) <= stops[column]
        of_set, time, column = of_set[good], time[good], self.columns[column[good]]
        return BatchResults(first, self.columns, result.t, v, of_set, column, time, features)


def _first(values: np.ndarray | RaggedArray, count: int) -> np.ndarray | RaggedArray:
    if not isinstance(values, RaggedArray):
        return values[:count]
    return RaggedArray(values.offsets[: count + 1], values.values[: values.offsets[count]])


def joined_features(
    found: Sequence[BatchResults], begin: int, number: int, several: int
) -> dict[str, np.ndarray | RaggedArray]:
    """(N, P) arrays, and `RaggedArray` of N * P, of what batches of sets from `begin` on gave."""
    names = found[0].features if found else {}
    joined: dict[str, np.ndarray | RaggedArray] = {}
    for name in names:
        rows, values = list[np.ndarray](), list[np.ndarray]()
        for one in found:
            feature, p = one.features[name], len(one.columns)
            traces = np.arange(len(feature))
            row = (one.first - begin + traces // p) * several + one.columns[traces % p]
            if isinstance(feature, RaggedArray):
                row, feature = row[feature.rows], feature.values
            rows.append(row)
            values.append(feature)
        row, value = np.concatenate(rows), np.concatenate(values)
        order = np.argsort(row, kind="stable")
        if isinstance(names[name], RaggedArray):
            joined[name] = lists_of(row[order], value[order], number * several)
        else:
            joined[name] = value[order].reshape(number, several)
    return joined


if TYPE_CHECKING:
    from mpi4py import MPI

_log = logging.getLogger(__name__)
_NODE_BYTES = 24 * 8  # of a node in a simulation, about: matrix, voltages and what they are made of
_HOST_BYTES = 1 << 30  # that a batch takes at most where there is no device
_SHARE = 0.4  # of the memory of a device that a batch takes at most


@unchangeable("an array or attribute of yours: results stay as they are")
@dataclass(frozen=True, eq=False)
class PopulationResult:
    """Results of a population.

    Attributes
    ----------
    t : (T,) float64, ms
    v : (N, P, T) real, mV
        At the node that is recorded; NaN after a protocol's stop. (N, P, 0) where features were
        asked for.
    spike_set, spike_protocol : (k,) int64
        By set, protocol and time.
    spike_time : (k,) float64, ms
        Until the stop of the protocol. A spike is a crossing of the model's threshold
        (`Network.threshold`, or that of a text with ``spike:``); features have eFEL's, -20 mV.
    features : dict of str to (N, P) array or RaggedArray
        A RaggedArray has an array for each set and protocol: ``features[name][n * P + p]``.
    """

    t: np.ndarray
    v: np.ndarray
    spike_set: np.ndarray
    spike_protocol: np.ndarray
    spike_time: np.ndarray
    features: Mapping[str, np.ndarray | RaggedArray] = field(default_factory=dict)

    def __repr__(self) -> str:
        names = f"; features {', '.join(self.features)}" if self.features else ""
        shape = self.v.shape[:2]
        return (
            f"PopulationResult({shape[0]} sets, {shape[1]} protocols, {len(self.t)} times{names})"
        )

    @property
    def num_spikes(self) -> np.ndarray:
        """(N, P) int64: crossings of the model's threshold, which `spike_time` lists.

        The feature ``spike_count`` counts eFEL's peaks above -20 mV instead.
        """
        shape = self.v.shape[:2]
        both = self.spike_set * shape[1] + self.spike_protocol
        return np.bincount(both, minlength=shape[0] * shape[1]).reshape(shape)

    def __getattr__(self, name: str) -> object:
        if name == "spike_count":
            raise AttributeError(
                "spike_count is the name of eFEL's feature, of peaks above -20 mV: "
                "features['spike_count']; expected num_spikes, of crossings of the threshold"
            )
        raise AttributeError(
            f"PopulationResult has no {shown(name)}{meant(name, (*vars(self), 'num_spikes'))}"
        )

    def spikes(self, number: int, protocol: int) -> np.ndarray:
        """(j,) float64, ms: times of the spikes of one set under one protocol."""
        mine = (self.spike_set == number) & (self.spike_protocol == protocol)
        return self.spike_time[mine]


class Population:
    """N parameter sets x P protocols of one model.

    The first `evaluate` makes the simulations of a batch; the later ones set values and go back to
    t = 0, without planning and without compilation.

    Parameters
    ----------
    model : Network
        One cell with everything that is the same in all sets; it stays as it is. Sources of events,
        ions, pointers, played values and streams of random numbers are those of each copy; noise
        of texts differs between them.
    parameters : mapping of str to tuple
        Name to ``(mechanism, parameter)``, or ``(mechanism, parameter, at)`` for those nodes of
        a mechanism of the membrane, as of `Network.insert`.
    protocols : mapping of str to mapping
        Name to ``{"stop": ms, "stimuli": [{"amp": nA, "delay": ms, "dur": ms, "at": node}, ...]}``:
        clamps of currents. Without `at` into the soma; without `dur` until the end.
    dt : float, optional, ms
        Default: 0.025, or that of NEURON where the model was read from it; likewise `v_init` and
        `secondorder`.
    record : int, optional
        Node of the model whose voltage is recorded. Default: the middle of the soma.
    batch : int, optional
        Sets that are simulated at once. Default: those of the first `evaluate`, or fewer, so that
        they fit into memory.
    features : iterable of str, optional
        Compute these of `simulator.analysis.FEATURES` on the device and keep no voltages. The first
        stimulus of a protocol is the one that they refer to; without one it is the only IClamp that
        the model has. Their spikes are peaks above -20 mV,
        whatever the threshold of the model.
    stop_early : bool
        Simulate no protocol beyond its own stop: those of each stop in a simulation of their own.
        Default: all together until the last stop. Features do so in any case. Cells at rest go on.
    devices : sequence of device, optional
        Devices, as of `Simulation`, that simulate batches side by side.
    comm : mpi4py.MPI.Comm, optional
        Ranks simulate equal shares of the sets; all call `evaluate` with the same sets and get the
        same results.
    executor : concurrent.futures.Executor, optional
        Its workers simulate shares of the sets, each on a device of its own machine: those of a
        `ProcessPoolExecutor` that spawns, dask.distributed's ``client.get_executor()``,
        mpi4py.futures' `MPIPoolExecutor`. `batch` is then the sets of a share; by default there is
        one for each worker. A share whose worker is lost is simulated by another one, or here.
    **options
        Of `Simulation`; `v_init` may have a value for each node of the model.

    Attributes
    ----------
    names, protocols : tuple of str
    batch : int or None
    simulation : Simulation or None
        The first one that was made: cell ``set * P + protocol``.

    Raises
    ------
    InputError
        The model is not one cell; there is no such parameter, node or feature; or options do not go
        together.
    """

    def __init__(
        self,
        model: Network,
        parameters: Mapping[str, ParameterPath],
        protocols: Mapping[str, Protocol],
        *,
        dt: float | None = None,
        record: int | None = None,
        batch: int | None = None,
        features: Iterable[str] | None = None,
        stop_early: bool = False,
        devices: Sequence[cl.Device | str] | None = None,
        comm: MPI.Comm | None = None,
        executor: Executor | None = None,
        **options: object,
    ) -> None:
        self._ranks = ranks_of(comm, "Population()")
        places = devices is not None or comm is not None
        self._executor = shares.as_executor(executor, places, options)
        if not isinstance(model, Network) or model.num_cells != 1:
            got = f"{model!r}" if isinstance(model, Network) else type(model).__name__
            raise InputError(f"model is {got}; expected a Network of one cell")
        for name, given in (("parameters", parameters), ("protocols", protocols)):
            if not isinstance(given, Mapping) or not given:
                raise InputError(f"{name} is {shown(given)}; expected names with their values")
        check_begins(model.settings, "Population")
        known = {k: v for k, v in model.settings.items() if k not in ("dt", "t")}
        options = {**known, **options}
        compiled = compile(model, model.settings.get("dt", 0.025) if dt is None else dt)
        self.names, self.protocols = tuple(parameters), tuple(protocols)
        if np.ndim(record or 0):
            raise InputError(f"record is {shown(record)}; expected one node")
        nodes = [model.soma[0] if record is None else record]
        node = as_indices("record", np.asarray(nodes), model.forest.num_nodes, "node")[0]
        stops, stimuli = by_step(model, protocols, compiled.dt)
        pieces = divided(model, parameters)
        mechanisms = tuple(parameters[name][1] for name in self.names)
        wanted = _features(features)
        windows = _windows(model, protocols, stimuli, wanted, parameters.values())
        self._recipe = Recipe(
            model, compiled, pieces, mechanisms, self.protocols, stops, stimuli, int(node), wanted,
            windows, compiled.dt,
        )  # fmt: skip
        early = as_switch("stop_early", stop_early) or bool(wanted)
        every = np.arange(len(stops))
        self._columns = [every[stops == s] for s in np.unique(stops)] if early else [every]
        self.batch = None if batch is None else as_whole_number("batch", batch, 1)
        self._given = parameters, protocols, options
        self._where = _places(devices, options, self._ranks is not None)
        self._batches: list[list[Batch]] = []
        self._share = 0  # sets that each worker of an executor simulates at once

    def __repr__(self) -> str:
        parameters = counted(len(self.names), "parameter")
        sets = f"{parameters} x {counted(len(self.protocols), 'protocol')}"
        return f"Population({sets} of {self._recipe.model!r})"

    def _repr_html_(self) -> str:
        rows = {
            "model": self._recipe.model,
            "parameters": ", ".join(self.names),
            "protocols": ", ".join(self.protocols),
            "features": ", ".join(self._recipe.features) or "none: voltages are kept",
            "sets at once": self.batch or "known after the first evaluate()",
        }
        return as_html("Population", rows)

    @property
    def simulation(self) -> Simulation | None:
        """The first simulation that was made, None before `evaluate`."""
        return self._batches[0][0].simulation if self._batches else None

    def evaluate(
        self, sets: ArrayLike | Mapping[str, ArrayLike], progress: bool = False
    ) -> PopulationResult:
        """Simulate parameter sets under all protocols.

        Parameters
        ----------
        sets : (N, parameters) float, or mapping of str to (N,) float
            In the order of `names`, or by name, as in a DataFrame of pandas.
        progress : bool
            Show a bar of the sets.

        Returns
        -------
        PopulationResult

        Raises
        ------
        InputError
            Not such an array.
        SimulationError
            A voltage was not finite; the message names set and protocol.
        HostMemoryError
            There is no memory for the voltages; raised before any is taken.
        """
        ranks, found = self._ranks, list[BatchResults]()
        if ranks is not None:
            ranks.meet("Population.run()")
        with agreed(ranks):
            values, progress = self._sets(sets), as_switch("progress", progress)
            number, stops = len(values), self._recipe.stops
            steps = 0 if self._recipe.features else int(stops.max()) + 1
            size = number * len(stops) * steps * 8
            check_room(size, f"voltages of {number} sets under {len(stops)} protocols")
        if ranks is not None:
            ranks.same({"digest of the sets": values.tobytes()})
        with agreed(ranks):
            rank, processes = (0, 1) if ranks is None else (ranks.rank, ranks.size)
            begin, end = (number * r // processes for r in (rank, rank + 1))
            if begin < end:
                parts = self._parts(values, begin, end, progress and not rank)
                found = [one for part in parts for one in part]
        if ranks is not None:
            found = [one for part in ranks.comm.allgather(found) for one in part]
        return self._joined(found, 0, number)

    def stream(
        self, sets: ArrayLike | Mapping[str, ArrayLike], progress: bool = False
    ) -> Iterator[tuple[np.ndarray, PopulationResult]]:
        """Simulate as `evaluate` does, and yield parts of the sets as soon as they are done.

        So the voltages of all of them need not fit into memory.

        Yields
        ------
        (n,) int64, PopulationResult
            Numbers of the sets of a part, ascending, and what these did, in that order. Parts come
            in any order.

        Raises
        ------
        InputError
            Not such an array; or a population of several ranks.
        SimulationError
            As of `evaluate`.
        """
        if self._ranks is not None:
            raise InputError("stream() is of one process; expected evaluate(), as comm was given")
        values, progress = self._sets(sets), as_switch("progress", progress)
        return self._stream(values, progress)

    def _stream(
        self, values: np.ndarray, progress: bool
    ) -> Iterator[tuple[np.ndarray, PopulationResult]]:
        for part in self._parts(values, 0, len(values), progress):
            begin, number = part[0].first, self._number(part)
            yield np.arange(begin, begin + number), self._joined(part, begin, number)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle what it was made from; the simulations are made again, where they are needed."""
        parameters, protocols, options = self._given
        if options.get("queue") is not None or self._ranks is not None:
            raise TypeError("a Population with queue or comm cannot be pickled; expected device")
        recipe = self._recipe
        more: dict[str, Any] = {
            "dt": recipe.dt, "record": recipe.node, "features": recipe.features or None,
            "stop_early": len(self._columns) > 1, **options,
        }  # fmt: skip
        return partial(Population, **more), (recipe.model, dict(parameters), dict(protocols))

    def _joined(self, found: list[BatchResults], begin: int, number: int) -> PopulationResult:
        several, t = len(self.protocols), max((one.t for one in found), key=len)
        length = 0 if self._recipe.features else len(t)
        v = np.full((number, several, length), np.nan, found[0].v.dtype)
        for one in found:
            of_sets = v[one.first - begin :][: len(one.v)]
            of_sets[:, one.columns, : one.v.shape[2]] = one.v
        of_set = np.concatenate([one.first - begin + one.spike_set for one in found])
        protocol = np.concatenate([one.spike_protocol for one in found])
        time = np.concatenate([one.spike_time for one in found])
        order = np.lexsort((time, protocol, of_set))
        of_set, protocol, time = of_set[order], protocol[order], time[order]
        return PopulationResult(
            t, v, of_set, protocol, time, joined_features(found, begin, number, several)
        )

    def _sets(self, sets: ArrayLike | Mapping[str, ArrayLike]) -> np.ndarray:
        if not isinstance(sets, Mapping) and hasattr(sets, "keys"):  # as a DataFrame of pandas
            table = cast("Mapping[str, ArrayLike]", sets)
            sets = {name: table[name] for name in table}
        if isinstance(sets, Mapping):
            check_names("sets", sets, self.names)
            columns = [np.atleast_1d(as_array(name, sets[name])) for name in self.names]
            if len({c.shape for c in columns}) > 1 or columns[0].ndim > 1:
                raise InputError("sets has arrays of several lengths; expected (N,) each")
            values = np.stack(columns, axis=1)
        else:
            values = as_real("sets", sets)
        if values.ndim != 2 or values.shape[1] != len(self.names) or not len(values):
            raise InputError(
                f"sets has shape {values.shape}; expected (N, {len(self.names)}), a column for "
                "each of the names"
            )
        columns = [as_real(n, as_array(n, values[:, k])) for k, n in enumerate(self.names)]
        return np.stack(columns, axis=1)

    def _make(self, number: int) -> None:
        """Make the simulations of a batch: on each device one for each group of protocols."""
        options = [dict(where) for where in self._where]
        for one in options if self._ranks is not None else ():
            if one.get("engine") != "reference" and one.get("queue") is None:
                device, dtype = one.pop("device", None), one.get("dtype", "float64")
                one["queue"] = own_queue(self._ranks, device, dtype)  # type: ignore[arg-type]
        each = -(-number // len(options))
        most = self.batch or min(self._most(one) for one in options)
        self.batch = min(each, most)
        self._batches = [
            [Batch(self._recipe, columns, self.batch, one) for columns in self._columns]
            for one in options
        ]
        message = "a population of %d sets x %d protocols at once on each of %d devices"
        _log.info(message, self.batch, len(self.protocols), len(options))

    def _most(self, options: Mapping[str, object]) -> int:
        """Return how many sets fit into the memory of the device, or the host, by an estimate."""
        compiled, stops = self._recipe.compiled, self._recipe.stops
        cell = compiled.forest.num_nodes * _NODE_BYTES + 8 * sum(
            k.count * (len(k.mechanism.parameters) + 3 * len(k.mechanism.states) + 3)
            for k in compiled.kinds
        )
        cell += 16 * min(int(stops.max()), 1024)
        if options.get("engine") == "reference":
            return max(1, _HOST_BYTES // (cell * len(stops)))
        dtype = options.get("dtype", "float64")
        queue = device_list.given_queue(options.get("queue"), options.get("device"), dtype)  # type: ignore[arg-type]
        room = _SHARE * queue.device.global_mem_size
        return max(1, int(room // (cell * len(stops))))

    def _parts(
        self, values: np.ndarray, begin: int, end: int, progress: bool
    ) -> Iterator[list[BatchResults]]:
        """Yield the responses of sets `begin` to `end`, a few at a time, under all protocols."""
        found = (
            self.here(values, begin, end) if self._executor is None
            else self._by_workers(self._executor, values)
        )  # fmt: skip
        shown = bar(end - begin, "sets", progress)
        with shown or nullcontext():
            for part in found:
                if shown is not None:
                    shown.update(self._number(part))
                yield part

    def _by_workers(self, executor: Executor, values: np.ndarray) -> Iterator[list[BatchResults]]:
        size = self.batch or shares.size_of(len(values), executor)
        self._share = self._share or size
        return shares.by_workers(executor, self, values, size, self._share)

    def _number(self, part: list[BatchResults]) -> int:
        """Choose the number of sets of a part, each in all groups of protocols."""
        return sum(len(one.v) for one in part) // len(self._columns)

    def place(self, choose: Callable[[Any, Any], cl.Device], batch: int) -> None:
        """Make the simulation of `batch` sets, on the device that `choose` gives.

        It gets the device asked for, if any, and the dtype.
        """
        [options] = self._where
        if options.get("engine") != "reference":
            dtype = options.get("dtype", "float64")
            options["device"] = choose(options.get("device"), dtype)
        self._make(batch)

    def here(
        self, values: np.ndarray, begin: int, end: int, first_set: int = 0
    ) -> Iterator[list[BatchResults]]:
        """Simulate sets, `values` from `first_set` on, in batches on each device of the process."""
        if not self._batches:
            self._make(end - begin)
        assert self.batch is not None
        size, free = self.batch, SimpleQueue[list[Batch]]()
        for batches in self._batches:
            free.put(batches)

        def work(first: int) -> list[BatchResults]:
            rows = np.minimum(first + np.arange(size), end - 1)  # the last one fills up
            own, kept, batches = values[rows - first_set], min(size, end - first), free.get()
            try:
                return [batch.run(own, first, kept) for batch in batches]
            finally:
                free.put(batches)

        firsts = range(begin, end, size)
        if len(self._batches) == 1:
            yield from map(work, firsts)
            return
        threads = ThreadPoolExecutor(len(self._batches))
        try:
            for done in as_completed([threads.submit(work, first) for first in firsts]):
                yield done.result()
        finally:
            threads.shutdown(cancel_futures=True)


def _features(names: Iterable[str] | None) -> tuple[str, ...]:
    """Check the names of features."""
    if names is None:
        return ()
    wanted = tuple(known_features(names))
    if not wanted:
        raise InputError(f"features is empty; expected some of {', '.join(FEATURES)}")
    return wanted


def _windows(
    model: Network,
    protocols: Mapping[str, Protocol],
    stimuli: Sequence[dict[str, np.ndarray]],
    wanted: Sequence[str],
    paths: Iterable[ParameterPath],
) -> dict[str, np.ndarray]:
    """Return the stimulus by protocol that features refer to: its first, else the model's clamp."""
    if not wanted:
        return {}
    windows = {name: np.zeros(len(protocols)) for name in STIMULUS}
    for k, (protocol, given) in enumerate(protocols.items()):
        own: Mapping[str, float]
        if given.get("stimuli"):
            own = {name: float(stimuli[0][name][k]) for name in STIMULUS}
        else:
            own = _own_clamp(model, protocol, wanted, paths)
        for name in STIMULUS:
            windows[name][k] = own[name]
    return windows


def _own_clamp(
    model: Network, protocol: str, wanted: Sequence[str], paths: Iterable[ParameterPath]
) -> dict[str, float]:
    """Return amplitude, delay and duration of the one clamp of a current that a model has."""
    clamps = list[dict[str, float]]()
    for group in (g for g in model.groups if g.mechanism.name in CLAMPS):
        delay = "del" if "del" in group.parameters else "delay"  # NEURON's file has the former
        columns = [np.broadcast_to(group.parameters[n], len(group)) for n in ("amp", delay, "dur")]
        rows = zip(*(column.tolist() for column in columns), strict=True)
        clamps += [dict(zip(STIMULUS, row, strict=True)) for row in rows if row[2] > 0]
    expected = "'stimuli': [{'amp': 0.0, 'delay': ..., 'dur': ...}], ms, to which features refer"
    if len(clamps) != 1:
        had = "no clamp of a current" if not clamps else f"{len(clamps)} clamps of currents"
        raise InputError(
            f"protocol {protocol} has no stimulus, and the model has {had}; expected {expected}"
        )
    changed = {path[1] for path in paths if path[0] in CLAMPS}
    if changed - {"amp"} or (changed and any("resistance" in name for name in wanted)):
        raise InputError(
            f"protocol {protocol} has no stimulus, and the clamp of the model changes from set to "
            f"set; expected {expected}"
        )
    return clamps[0]


def _places(
    chosen: Sequence[cl.Device | str] | None, options: Mapping[str, object], ranks: bool
) -> list[dict[str, object]]:
    if "comm" in options:
        raise InputError("comm is given twice; expected it once")
    if chosen is None:
        return [dict(options)]
    if isinstance(chosen, str) or not isinstance(chosen, Sequence) or not len(chosen):
        raise InputError(f"devices is {shown(chosen)}; expected a list of devices")
    if options.get("queue") is not None or options.get("device") is not None or ranks:
        raise InputError("devices comes with queue, device or comm; expected one of them")
    return [dict(options, device=device) for device in chosen]
