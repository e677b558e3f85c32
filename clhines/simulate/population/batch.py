"""Batches of a population: one simulation of some sets under some protocols, and what it gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clhines.analysis.features import Features
from clhines.analysis.spikes import Lists, lists_of
from clhines.checks import spread
from clhines.errors import SimulationError
from clhines.model.model import Model
from clhines.network.changes import Changes
from clhines.network.copies import fill, structure_of_copies
from clhines.network.network import Network
from clhines.simulate.population.protocols import STIMULUS, Pieces
from clhines.simulate.simulation import Simulation


@dataclass(frozen=True, eq=False)
class Recipe:
    """All that batches of a population have in common.

    Attributes
    ----------
    model : Network
        One cell.
    names : tuple of str
        Of the parameters' mechanisms: `Simulation.set` takes them.
    stops : (P,) int64
        In steps.
    stimuli : list of dict of str to (P,) float64
        Each clamp of a cell.
    node : int
        That is recorded.
    features : tuple of str
        Instead of voltages; or empty.
    dt : float, ms
    """

    model: Network
    compiled: Model
    pieces: Pieces
    names: tuple[str, ...]
    protocols: tuple[str, ...]
    stops: np.ndarray
    stimuli: list[dict[str, np.ndarray]]
    node: int
    features: tuple[str, ...]
    dt: float


@dataclass(frozen=True, eq=False)
class Found:
    """What a batch gives for sets from `first` on, under the protocols of `columns`.

    Attributes
    ----------
    v : (sets, protocols, T) real, mV
    spike_set, spike_protocol, spike_time : (k,)
    features : dict of str to (sets * protocols,) array or Lists
    """

    first: int
    columns: np.ndarray
    t: np.ndarray
    v: np.ndarray
    spike_set: np.ndarray
    spike_protocol: np.ndarray
    spike_time: np.ndarray
    features: Mapping[str, np.ndarray | Lists]


class Batch:
    """A simulation of `size` sets under some protocols: cell ``set * protocols + protocol``.

    Parameters
    ----------
    columns : (p,) int64
        The protocols.
    options : mapping
        Of `Simulation`.
    """

    def __init__(
        self, recipe: Recipe, columns: np.ndarray, size: int, options: Mapping[str, object]
    ) -> None:
        self.recipe, self.columns, self.size = recipe, columns, size
        several, model = len(columns), recipe.model
        self.steps, copies = int(recipe.stops[columns].max()), size * several
        net = Network(structure_of_copies(model.structure, copies))
        wiring, rule = model.wiring(Changes()), recipe.compiled.connections.rule
        pieces = recipe.pieces
        groups = fill(
            net, model, pieces.groups, wiring, rule, [*recipe.compiled.streams()], pieces.instances
        )
        protocol = columns[np.arange(copies) % several]
        for of_protocol in recipe.stimuli:
            if (of_protocol["dur"][columns] > 0).any():
                at = net.forest.cell_offsets[:-1] + of_protocol["at"][protocol].astype(np.int64)
                values = {name: of_protocol[name][protocol] for name in STIMULUS}
                net.add("iclamp", at, **values)
        given = dict(options)
        if np.ndim(given.get("v_init", 0.0)):  # type: ignore[arg-type]
            nodes = model.forest.num_nodes
            given["v_init"] = np.tile(spread("v_init", given["v_init"], nodes), copies)
        sim = Simulation(net, recipe.dt, **given)  # type: ignore[arg-type]
        self._groups = [[groups[k] for k in parts] for parts in pieces.of_parameter]
        reduce = None
        if recipe.features:
            window = {name: recipe.stimuli[0][name][protocol] for name in STIMULUS}
            reduce = Features(
                recipe.features,
                stim_start=window["delay"],
                stim_end=np.minimum(window["delay"] + window["dur"], self.steps * recipe.dt),
                stimulus_current=window["amp"],
            )
        self._record = sim.record("v", net.forest.cell_offsets[:-1] + recipe.node, reduce=reduce)
        self.simulation = sim

    def run(self, values: np.ndarray, first: int, kept: int) -> Found:
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
        features: dict[str, np.ndarray | Lists] = {}
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
        of_set, time, column = first + of_set[good], time[good], self.columns[column[good]]
        return Found(first, self.columns, result.t, v, of_set, column, time, features)


def _first(values: np.ndarray | Lists, count: int) -> np.ndarray | Lists:
    """Those of the first traces."""
    if not isinstance(values, Lists):
        return values[:count]
    return Lists(values.offsets[: count + 1], values.values[: values.offsets[count]])


def joined_features(
    found: Sequence[Found], number: int, several: int
) -> dict[str, np.ndarray | Lists]:
    """(N, P) arrays, and `Lists` of N * P, of what batches of some sets and protocols gave."""
    names = found[0].features if found else {}
    joined: dict[str, np.ndarray | Lists] = {}
    for name in names:
        rows, values = list[np.ndarray](), list[np.ndarray]()
        single = False
        for one in found:
            own, p = one.features[name], len(one.columns)
            traces = np.arange(len(own))
            row = (one.first + traces // p) * several + one.columns[traces % p]
            if isinstance(own, Lists):
                rows.append(row[own.rows])
                values.append(own.values)
            else:
                rows.append(row)
                values.append(own)
                single = True
        row, value = np.concatenate(rows), np.concatenate(values)
        order = np.argsort(row, kind="stable")
        if single:
            joined[name] = value[order].reshape(number, several)
        else:
            joined[name] = lists_of(row[order], value[order], number * several)
    return joined
