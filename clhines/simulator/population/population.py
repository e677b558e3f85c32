"""Population: many parameter sets for one model under several protocols, in batches."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from hashlib import sha256
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyopencl as cl
from numpy.typing import ArrayLike

from clhines.core.checks import (
    as_array,
    as_indices,
    as_real,
    as_switch,
    as_whole_number,
    check_room,
    shown,
    to_array,
)
from clhines.core.errors import InputError, meant
from clhines.core.progress import bar
from clhines.core.summary import counted
from clhines.simulator.analysis.definitions import FEATURES, known_features
from clhines.simulator.model.compiling import compile
from clhines.simulator.network.groups import check_begins
from clhines.simulator.network.network import Network
from clhines.simulator.population.batches import (
    Batch,
    BatchResults,
    PopulationLoss,
    Recipe,
    joined_features,
)
from clhines.simulator.population.parameters import ParameterPath, divide_groups
from clhines.simulator.population.protocols import Protocol, by_step, stimulus_windows
from clhines.simulator.population.result import PopulationResult
from clhines.simulator.ranks.mpi import own_queue
from clhines.simulator.ranks.partition import ranks_of
from clhines.simulator.simulation import Simulation
from clhines.simulator.state.saved import signature
from clhines.solver.device import devices as device_list

if TYPE_CHECKING:
    from mpi4py import MPI

_log = logging.getLogger(__name__)
_NODE_BYTES = 24 * 8  # approximate, per simulated node: matrix, voltages, their sources
_HOST_BYTES = 1 << 30  # a batch's most memory without a device
_SHARE = 0.4  # the most of a device's memory that a batch may use


class Population:
    """Simulates one model with N sets of parameters, each under P protocols.

    The first `evaluate` makes the simulations of a batch of sets. Later calls set values in them
    and return to t = 0, without planning or compiling.

    Parameters
    ----------
    model : Network
        One cell with everything that all sets share; it is not changed. Its sources of events,
        ions, pointers, played values and random streams are copied for each set and protocol; noise
        differs between copies.
    parameters : mapping of str to tuple
        Name to ``(mechanism, parameter)``, or ``(mechanism, parameter, at)`` for some nodes of a
        membrane mechanism, as in `Network.insert`.
    protocols : mapping of str to mapping
        Name to ``{"stop": ms, "stimuli": [{"amp": nA, "delay": ms, "dur": ms, "at": node}, ...]}``:
        current clamps. Default of `at`: the soma; of `dur`: until the end.
    dt : float, optional, ms
        Default: 0.025, or NEURON's value for an imported model. Likewise for `v_init` and
        `secondorder`, which are options.
    record : int, optional
        Node whose voltage is recorded. Default: the middle of the soma.
    batch : int, optional
        Sets simulated at once. Default: the sets of the first `evaluate`, or as many as fit into
        memory.
    features : iterable of str, optional
        Names in `simulator.analysis.FEATURES`, to be computed on the device instead of storing
        voltages. They refer to the first stimulus of each protocol. Their spikes are peaks above
        -20 mV, whatever the model's threshold. Protocols with different stops are then simulated
        separately, otherwise together until the last stop.
    devices : sequence of device, optional
        Devices, as in `Simulation`, that simulate batches in parallel.
    comm : mpi4py.MPI.Comm, optional
        Ranks simulate equal shares of the sets; all call `evaluate` with the same sets and get the
        same results.
    **options
        For `Simulation`; `v_init` may have a value for each node of the model.

    Attributes
    ----------
    names, protocols : tuple of str
    batch : int or None
    simulation : Simulation or None
        The simulation of a batch, the first one of several; with all protocols in it, a set under a
        protocol is cell ``set * P + protocol``.

    Raises
    ------
    InputError
        The model is not one cell; there is no such parameter, node or feature; or options exclude
        each other.
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
        devices: Sequence[cl.Device | str] | None = None,
        comm: MPI.Comm | None = None,
        **options: object,
    ) -> None:
        self._ranks = ranks_of(comm, "Population()")
        _check_arguments(model, parameters, protocols)
        settings = {k: v for k, v in model.settings.items() if k not in ("dt", "t")}
        options = {**settings, **options}
        compiled = compile(model, model.settings.get("dt", 0.025) if dt is None else dt)
        self.names, self.protocols = tuple(parameters), tuple(protocols)
        node = _recorded_node(model, record)
        stops, stimuli = by_step(model, protocols, compiled.dt)
        pieces = divide_groups(model, parameters)
        mechanisms = tuple(parameters[name][1] for name in self.names)
        feature_names = _features(features)
        windows = stimulus_windows(protocols, stimuli) if feature_names else {}
        self._recipe = Recipe(
            model=model,
            compiled=compiled,
            pieces=pieces,
            names=mechanisms,
            protocols=self.protocols,
            stops=stops,
            stimuli=stimuli,
            node=node,
            features=feature_names,
            windows=windows,
            dt=compiled.dt,
        )
        every = np.arange(len(stops))
        self._columns = [every]
        if feature_names:
            self._columns = [every[stops == s] for s in np.unique(stops)]
        self.batch = None if batch is None else as_whole_number("batch", batch, 1)
        self._options = options
        self._where = _places(devices, options, self._ranks.size > 1)
        self._batches: list[list[Batch]] = []

    def __repr__(self) -> str:
        parameters = counted(len(self.names), "parameter")
        sets = f"{parameters} x {counted(len(self.protocols), 'protocol')}"
        return f"Population({sets} of {self._recipe.model!r})"

    @property
    def simulation(self) -> Simulation | None:
        """The first simulation; None before `evaluate`."""
        return self._batches[0][0].simulation if self._batches else None

    def evaluate(
        self, sets: ArrayLike | Mapping[str, ArrayLike], progress: bool = False
    ) -> PopulationResult:
        """Simulate parameter sets under all protocols.

        Parameters
        ----------
        sets : (N, parameters) float, or mapping of str to (N,) float
            In the order of `names`, or by name, such as a pandas DataFrame.
        progress : bool
            Show a progress bar.

        Returns
        -------
        PopulationResult

        Raises
        ------
        InputError
            `sets` is not such an array.
        SimulationError
            A voltage was not finite; the message names set and protocol.
        HostMemoryError
            The voltages do not fit into memory; raised before any is allocated.
        """
        ranks, results = self._ranks, list[BatchResults]()
        ranks.meet("Population.run()")
        with ranks.agreed():
            values, progress = self._sets(sets), as_switch("progress", progress)
            number, stops = len(values), self._recipe.stops
            steps = 0 if self._recipe.features else int(stops.max()) + 1
            size = number * len(stops) * steps * 8
            check_room(size, f"voltages of {number} sets under {len(stops)} protocols")
        ranks.same(lambda: self._digests(values))
        with ranks.agreed():
            begin, end = (number * r // ranks.size for r in (ranks.rank, ranks.rank + 1))
            if begin < end:
                parts = self._parts(values, begin, end, progress and not ranks.rank)
                results = [one for part in parts for one in part]
        results = [one for part in ranks.gather(results) for one in part]
        return self._joined(results, number)

    def _digests(self, sets: np.ndarray) -> dict[str, object]:
        """Return digests of everything that all MPI ranks must have alike."""
        recipe, options = self._recipe, self._options
        settings = [options.get(name) for name in ("v_init", "dtype", "secondorder", "seed")]
        if isinstance(settings[0], np.ndarray):  # whose repr leaves out digits and values
            settings[0] = settings[0].tolist()
        protocols = recipe.protocols, recipe.stops.tolist(), recipe.node, recipe.features
        stimuli = [{name: a.tolist() for name, a in one.items()} for one in recipe.stimuli]
        instances = [np.asarray(each).tolist() for each in recipe.pieces.instances]
        places = recipe.pieces.of_parameter, instances
        texts = {
            "network": signature(recipe.compiled),
            "parameters and protocols": repr((recipe.names, protocols, stimuli, places, settings)),
            "sets": repr(sets.tolist()),
        }
        return {f"digest of the {k}": sha256(t.encode()).hexdigest()[:8] for k, t in texts.items()}

    def gradient(
        self, sets: ArrayLike | Mapping[str, ArrayLike], loss: PopulationLoss
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the loss of each parameter set, and its derivatives with respect to parameters.

        Parameters
        ----------
        sets : as in `evaluate`
        loss : callable
            Maps the recorded voltages of a batch, (n, protocols, T), NaN beyond a protocol's stop,
            to the loss of each set, (n,), and its derivatives with respect to the voltages.

        Returns
        -------
        (N,) float64, (N, parameters) float64
            See `Simulation.gradient`.

        Raises
        ------
        InputError
            Something has no derivative; or the population has features, several devices or `comm`.
        """
        elsewhere = self._ranks.size > 1 or len(self._where) > 1
        if elsewhere or self._recipe.features:
            raise InputError(
                "gradient() is for voltages on one device; expected a population without features, "
                "devices and comm"
            )
        values = self._sets(sets)
        if not self._batches:
            self._make_batches(len(values))
        [batch], parts = self._batches[0], list[tuple[np.ndarray, np.ndarray]]()
        for first in range(0, len(values), batch.size):
            rows = np.minimum(first + np.arange(batch.size), len(values) - 1)
            parts.append(batch.gradient(values[rows], min(batch.size, len(values) - first), loss))
        losses, slopes = zip(*parts, strict=True)
        return np.concatenate(losses), np.concatenate(slopes)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Population cannot be pickled; expected its arguments")

    def _joined(self, results: list[BatchResults], number: int) -> PopulationResult:
        several, t = len(self.protocols), max((one.t for one in results), key=len)
        length = 0 if self._recipe.features else len(t)
        v = np.full((number, several, length), np.nan, results[0].v.dtype)
        for one in results:
            of_sets = v[one.first :][: len(one.v)]
            of_sets[:, one.columns, : one.v.shape[2]] = one.v
        of_set = np.concatenate([one.first + one.spike_set for one in results])
        protocol = np.concatenate([one.spike_protocol for one in results])
        time = np.concatenate([one.spike_time for one in results])
        order = np.lexsort((time, protocol, of_set))
        of_set, protocol, time = of_set[order], protocol[order], time[order]
        return PopulationResult(
            t, v, of_set, protocol, time, joined_features(results, number, several), self.protocols
        )

    def _sets(self, sets: ArrayLike | Mapping[str, ArrayLike]) -> np.ndarray:
        if not isinstance(sets, Mapping) and hasattr(sets, "keys"):  # as a pandas DataFrame
            table = cast("Mapping[str, ArrayLike]", sets)
            sets = {name: table[name] for name in table}
        if isinstance(sets, Mapping):
            _check_columns(sets, self.names)
            columns = [np.atleast_1d(as_array(name, sets[name])) for name in self.names]
            if len({c.shape for c in columns}) > 1 or columns[0].ndim > 1:
                raise InputError("sets has arrays of several lengths; expected (N,) each")
            values = np.stack(columns, axis=1)
        else:
            values = as_real("sets", sets)
        if values.ndim != 2 or values.shape[1] != len(self.names) or not len(values):
            raise InputError(
                f"sets has shape {values.shape}; expected (N, {len(self.names)}), a column for "
                f"each of {', '.join(self.names)}"
            )
        columns = [as_real(n, as_array(n, values[:, k])) for k, n in enumerate(self.names)]
        return np.stack(columns, axis=1)

    def _make_batches(self, number: int) -> None:
        """Set `batch`, parameter sets per device, for up to `number` sets; make the simulations.

        Each device has one simulation for all protocols with the same stop.
        """
        options = [dict(where) for where in self._where]
        if self._ranks.size > 1:
            for one in options:
                if one.get("engine") != "reference" and one.get("queue") is None:
                    device, dtype = one.pop("device", None), one.get("dtype", "float64")
                    one["queue"] = own_queue(self._ranks, device, dtype)
        each = -(-number // len(options))
        most = self.batch or min(self._most(one) for one in options)
        self.batch = min(each, most)
        self._batches = [
            [Batch(self._recipe, columns, self.batch, one) for columns in self._columns]
            for one in options
        ]
        message = "a population of %d sets x %d protocols at once on each of %d devices"
        _log.info(message, self.batch, len(self.protocols), len(options))

    def _most(self, options: Mapping[str, Any]) -> int:
        """Estimate how many parameter sets fit into memory; `options` are those of simulations."""
        compiled, stops = self._recipe.compiled, self._recipe.stops
        cell = compiled.forest.num_nodes * _NODE_BYTES + 8 * sum(
            k.count * (len(k.mechanism.parameters) + 3 * len(k.mechanism.states) + 3)
            for k in compiled.kinds
        )
        cell += 16 * min(int(stops.max()), 1024)
        if options.get("engine") == "reference":
            return max(1, _HOST_BYTES // (cell * len(stops)))
        dtype = options.get("dtype", "float64")
        queue = device_list.given_queue(options.get("queue"), options.get("device"), dtype)
        room = _SHARE * queue.device.global_mem_size
        return max(1, int(room // (cell * len(stops))))

    def _parts(
        self, values: np.ndarray, begin: int, end: int, progress: bool
    ) -> Iterator[list[BatchResults]]:
        shown = bar(end - begin, "sets", progress)
        with shown or nullcontext():
            for part in self._batches_of(values, begin, end):
                if shown is not None:
                    shown.update(sum(len(one.v) for one in part) // len(self._columns))
                yield part

    def _batches_of(self, values: np.ndarray, begin: int, end: int) -> Iterator[list[BatchResults]]:
        """Yield the results for sets `begin` to `end`, simulated in batches on all devices."""
        if not self._batches:
            self._make_batches(end - begin)
        size, free = self._batches[0][0].size, SimpleQueue[list[Batch]]()
        for batches in self._batches:
            free.put(batches)

        def work(first: int) -> list[BatchResults]:
            rows = np.minimum(first + np.arange(size), end - 1)  # repeat the last set to fill up
            kept, batches = min(size, end - first), free.get()
            try:
                return [batch.run(values[rows], first, kept) for batch in batches]
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


def _check_arguments(model: object, parameters: object, protocols: object) -> None:
    if not isinstance(model, Network) or model.num_cells != 1:
        got = f"{model!r}" if isinstance(model, Network) else type(model).__name__
        raise InputError(f"model is {got}; expected a Network of one cell")
    for name, mapping in (("parameters", parameters), ("protocols", protocols)):
        if not isinstance(mapping, Mapping) or not mapping:
            raise InputError(f"{name} is {shown(mapping)}; expected names with their values")
    check_begins(model.settings, "Population")


def _check_columns(sets: Mapping[str, object], names: Sequence[str]) -> None:
    for name in sets:
        if name not in names:
            raise InputError(
                f"sets has {shown(name)}; expected {', '.join(names)}{meant(name, names)}"
            )
    for name in names:
        if name not in sets:
            raise InputError(f"sets lacks {name}; expected {', '.join(names)}")


def _recorded_node(model: Network, record: int | None) -> int:
    node = to_array("record", model.soma[0] if record is None else record)
    if node.ndim:
        raise InputError(f"record is {shown(record)}; expected one node")
    return int(as_indices("record", node, model.forest.num_nodes, "node")[0])


def _features(names: Iterable[str] | None) -> tuple[str, ...]:
    if names is None:
        return ()
    feature_names = tuple(known_features(names))
    if not feature_names:
        raise InputError(f"features is empty; expected some of {', '.join(FEATURES)}")
    return feature_names


def _places(
    chosen: Sequence[cl.Device | str] | None, options: Mapping[str, object], ranks: bool
) -> list[dict[str, Any]]:
    if "comm" in options:
        raise InputError("got comm twice; expected it once")
    if chosen is None:
        return [dict(options)]
    if isinstance(chosen, str) or not isinstance(chosen, Sequence) or not len(chosen):
        raise InputError(f"devices is {shown(chosen)}; expected a list of devices")
    if options.get("queue") is not None or options.get("device") is not None or ranks:
        raise InputError("devices comes with queue, device or comm; expected one of them")
    return [dict(options, device=device) for device in chosen]
