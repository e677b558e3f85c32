"""A population's batches: sets simulated at once, and their joined results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from clhines.core.arrays import stretch_of
from clhines.core.checks import as_real, to_array
from clhines.core.errors import InputError, SimulationError
from clhines.simulator.analysis.features import Features
from clhines.simulator.analysis.spikes import RaggedArray, lists_of
from clhines.simulator.common.checks import spread
from clhines.simulator.gradients.gradient import call_loss
from clhines.simulator.model.model import Model
from clhines.simulator.network.copies import changed_copies
from clhines.simulator.network.groups import inside
from clhines.simulator.network.network import Network
from clhines.simulator.population.parameters import ParameterGroups
from clhines.simulator.population.protocols import STIMULUS
from clhines.simulator.simulation import Simulation

# maps voltages (sets, protocols, T) to each set's loss, and its derivatives, like the voltages
PopulationLoss: TypeAlias = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Recipe:
    """A population's model, protocols and recorded variables, which all batches share."""

    model: Network  # one cell
    compiled: Model
    pieces: ParameterGroups
    names: tuple[str, ...]  # for the parameters, as in `Simulation.set`
    protocols: tuple[str, ...]
    stops: np.ndarray  # (P,), in steps
    stimuli: list[dict[str, np.ndarray]]  # for each clamp: values by name, (P,)
    node: int  # whose voltage is recorded
    features: tuple[str, ...]  # to record instead of voltages
    windows: dict[str, np.ndarray]  # the stimulus to which features refer: values by name, (P,)
    dt: float


@dataclass(frozen=True, eq=False)
class BatchResults:
    """A batch's results: parameter sets from number `first`, under the protocols `columns`."""

    first: int
    columns: np.ndarray
    t: np.ndarray
    v: np.ndarray  # (sets, protocols, T), mV
    spike_set: np.ndarray  # relative to `first`
    spike_protocol: np.ndarray
    spike_time: np.ndarray
    features: Mapping[str, np.ndarray | RaggedArray]  # by set and protocol


class Batch:
    def __init__(
        self, recipe: Recipe, columns: np.ndarray, size: int, options: Mapping[str, Any]
    ) -> None:
        self.recipe, self.columns, self.size = recipe, columns, size
        several, model = len(columns), recipe.model
        self.steps, copies = int(recipe.stops[columns].max()), size * several
        wiring, streams = inside(model).wiring, [*recipe.compiled.streams()]
        pieces = recipe.pieces
        net = changed_copies(model, copies, pieces.groups, wiring, streams, pieces.instances)
        protocol = columns[np.arange(copies) % several]
        for of_protocol in recipe.stimuli:
            if (of_protocol["dur"][columns] > 0).any():
                at = net.forest.cell_offsets[:-1] + of_protocol["at"][protocol].astype(np.int64)
                net.add("iclamp", at, **{name: of_protocol[name][protocol] for name in STIMULUS})
        simulation_options = dict(options)
        if to_array("v_init", simulation_options.get("v_init", 0.0)).ndim:
            nodes = model.forest.num_nodes
            simulation_options["v_init"] = np.tile(
                spread("v_init", simulation_options["v_init"], nodes), copies
            )
        sim = Simulation(net, recipe.dt, **simulation_options)
        groups = net.groups
        self._groups = [[groups[k] for k in numbers] for numbers in pieces.of_parameter]
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

    def _set(self, values: np.ndarray) -> None:
        sim, recipe, several = self.simulation, self.recipe, len(self.columns)
        for k, groups in enumerate(self._groups):
            each = np.repeat(values[:, k], several)
            for group in groups:
                if group.mechanism.kind == "artificial":  # its instances are in no cell
                    value: object = np.repeat(each, len(group) // len(each))
                else:
                    value = sim.network.per_cell(each)
                sim.set(group, **{recipe.names[k]: value})

    def gradient(
        self, values: np.ndarray, kept: int, loss: PopulationLoss
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the losses for the first `kept` sets, and their derivatives by each parameter."""
        sim, recipe, several = self.simulation, self.recipe, len(self.columns)
        self._set(values)
        sim.reset()
        of = [(g, recipe.names[k]) for k, groups in enumerate(self._groups) for g in groups]
        run = sim.vjp(self.steps * recipe.dt, of)
        [rows] = run.forward()
        v = rows.T.reshape(self.size, several, -1)[:kept].copy()
        after_stop = np.arange(v.shape[2]) > recipe.stops[self.columns][:, None]
        v[:, after_stop] = np.nan
        losses, by_v = (to_array("what loss returned", each) for each in call_loss(loss, [v]))
        if losses.shape != (kept,) or by_v.shape != v.shape:
            raise InputError(
                f"loss returned values of shape {losses.shape} and derivatives of {by_v.shape}; "
                f"expected ({kept},) and {v.shape}"
            )
        by_rows = np.zeros((self.size, several, v.shape[2]))
        by_rows[:kept] = as_real("derivatives of a loss", np.where(after_stop, 0.0, by_v))
        slopes = iter(run.backward([by_rows.reshape(self.size * several, -1).T]))
        by_parameter = np.zeros((self.size, len(self._groups)))
        for k, groups in enumerate(self._groups):
            for group in groups:
                cell = stretch_of(sim.network.forest.cell_offsets, group.nodes)
                np.add.at(by_parameter[:, k], cell // several, next(slopes))
        return as_real("loss", losses), by_parameter[:kept]

    def run(self, values: np.ndarray, first: int, kept: int) -> BatchResults:
        """Simulate the sets with the parameters `values`, (size, parameters).

        Return results for the first `kept` sets. The first set has the number `first` in the
        population.
        """
        sim, recipe, several = self.simulation, self.recipe, len(self.columns)
        self._set(values)
        sim.reset()
        try:
            result = sim.run(self.steps * recipe.dt)
        except SimulationError as error:
            number, protocol_here = divmod(error.cell, several)
            where = f"set {first + number} under {recipe.protocols[self.columns[protocol_here]]}"
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
        cells = result.spike_cell < kept * several  # other cells only fill up the batch
        of_set, column = np.divmod(result.spike_cell[cells], several)
        time = result.spike_time[cells]
        before_stop = np.ceil(time / recipe.dt - 0.5) <= stops[column]
        of_set, time, column = (
            of_set[before_stop],
            time[before_stop],
            self.columns[column[before_stop]],
        )
        return BatchResults(first, self.columns, result.t, v, of_set, column, time, features)


def _first(values: np.ndarray | RaggedArray, count: int) -> np.ndarray | RaggedArray:
    if not isinstance(values, RaggedArray):
        return values[:count]
    return RaggedArray(values.offsets[: count + 1], values.values[: values.offsets[count]])


def joined_features(
    results: Sequence[BatchResults], number: int, several: int
) -> dict[str, np.ndarray | RaggedArray]:
    """Join the batches' features by name.

    A feature is an array (number, several), or a `RaggedArray` with an entry for each pair of a set
    and a protocol. There are `number` sets and `several` protocols.
    """
    names = results[0].features if results else {}
    joined: dict[str, np.ndarray | RaggedArray] = {}
    for name in names:
        rows, values = list[np.ndarray](), list[np.ndarray]()
        for one in results:
            feature, p = one.features[name], len(one.columns)
            traces = np.arange(len(feature))
            row = (one.first + traces // p) * several + one.columns[traces % p]
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
