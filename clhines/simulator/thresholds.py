"""Thresholds: the smallest amplitude at which each cell of a network fires.

Each run simulates all cells, each with its own amplitude. A cell doubles its amplitude from the
lower bound until it fires, then bisects the ratio of the bounds. Starting low avoids the conduction
block far above the threshold, where a cell does not fire either.

Once no cell doubles any more, runs are short: twice the longest time to a spike. A last run has the
whole duration and the amplitudes at which cells did not fire. A cell that fires there, later than
all before, is bisected again in runs of the whole duration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.arrays import stretch_of
from clhines.core.checks import as_choice, as_indices, as_number, as_real
from clhines.core.errors import InputError, SimulationError
from clhines.core.summary import counted
from clhines.simulator.common.checks import check_parameter
from clhines.simulator.model.model import Model
from clhines.simulator.network.groups import Group
from clhines.simulator.network.network import Network
from clhines.simulator.simulation import Simulation

_STEP = 2.0  # factor for amplitudes until a cell fires
_LONGER = 2.0  # a run's time, by the longest time to a spike in the runs before


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Amplitudes at which cells fire, the result of `find_thresholds`.

    Attributes
    ----------
    amplitude : (num_cells,) float64
        Smallest amplitude at which each cell fired; NaN if it never did.
    below : (num_cells,) float64
        Largest amplitude below that, at which the cell did not fire.
    runs : int
        Number of runs of all cells.
    """

    amplitude: np.ndarray
    below: np.ndarray
    runs: int

    def __repr__(self) -> str:
        shown = np.array2string(self.amplitude, precision=4, threshold=6)
        return f"Thresholds({shown} of {counted(self.runs, 'run')})"


def find_thresholds(
    network: Network,
    group: Group,
    at: ArrayLike,
    *,
    low: ArrayLike,
    high: ArrayLike,
    duration: float,
    level: float = 0.0,
    tolerance: float = 1e-3,
    name: str = "scale",
    missing: str = "raise",
    **options: Any,
) -> Thresholds:
    """Find the amplitude at which the voltage at a node of each cell rises above a level.

    Parameters
    ----------
    network : Network
        Cells that do not interact.
    group : Group
        The stimulus, for example from `Network.field`; its parameter `name` is the amplitude.
    at : (num_cells,) integer
        A node of each cell, in order, far from the electrode: only propagated spikes reach it.
    low, high : float or (num_cells,) float
        Bounds above 0 of the parameter `name`; the waveform has the sign.
    duration : float, ms
        The end of each run.
    level : float, mV
    tolerance : float
        Largest relative difference between `Thresholds.amplitude` and `Thresholds.below`.
    name : str
        Parameter of `group`; ``amp`` for an ``iclamp``.
    missing : "raise" or "nan"
        If a cell does not fire up to `high`: raise InputError, or let its amplitude be NaN.
    **options
        For `Simulation`.

    Returns
    -------
    Thresholds

    Raises
    ------
    InputError
        A cell fires at `low`, does not fire (see `missing`), or has no finite voltage.
    """
    _check_arguments(network, group, name, missing)
    nodes = _node_of_each_cell(network, at)
    below, most = _bounds(low, high, network.num_cells, group.mechanism.units.get(name))
    tolerance = _relative(tolerance)
    with Simulation(network, **options) as simulation:
        _check_apart(simulation.model)
        trial = _Trial(simulation, group, name, nodes, level, duration)
        above, below = trial.bracket(below, most, tolerance)
    _check_missing(above, most, missing)
    return Thresholds(above, below, trial.runs)


class _Trial:
    """A simulation of all cells that is run repeatedly."""

    def __init__(
        self,
        simulation: Simulation,
        group: Group,
        name: str,
        nodes: np.ndarray,
        level: float,
        duration: float,
    ) -> None:
        self._duration = as_number("duration", duration, "ms")
        self._simulation, self._group, self._name = simulation, group, name
        level = as_number("level", level, "mV")
        self._rises = simulation.record("v", nodes, reduce="crossings", threshold=level)
        self._dt = simulation.model.dt  # read once: after `set` it makes a model
        self._slowest = np.zeros(len(nodes))  # ms to a first spike, by cell
        self._shortened, self.runs = False, 0

    def fires(self, amplitude: np.ndarray, enough: float = np.inf) -> np.ndarray:
        """Return which cells fire in a run from t = 0 with these amplitudes, (num_cells,) bool.

        The run may end after `enough` ms, before the whole duration.
        """
        simulation, network = self._simulation, self._simulation.network
        simulation.set(self._group, **{self._name: network.per_cell(amplitude)})
        simulation.reset()
        duration, dt = self._duration, self._dt
        if enough < duration - dt:
            duration, self._shortened = dt * np.ceil(enough / dt), True
        self.runs += 1
        try:
            rises = simulation.run(duration)[self._rises]
        except SimulationError as error:
            k = error.cell
            raise InputError(
                f"cell {k}: its voltage is not finite at {self._name} = {amplitude[k]:g}; "
                "expected a lower high, or a shorter dt"
            ) from error
        first = rises[0] if len(rises) else np.full(network.num_cells, np.nan)
        self._slowest = np.fmax(self._slowest, first)
        return ~np.isnan(first)

    def bracket(
        self, below: np.ndarray, most: np.ndarray, tolerance: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return each cell's least amplitude that was tried and fires, and largest that does not.

        They differ by at most the factor 1 + `tolerance`. The search begins at `below`, and raises
        InputError for a cell that fires there; the first result is NaN for a cell that does not
        fire up to `most`.
        """
        fired = self.fires(below)
        if fired.any():
            k = int(np.argmax(fired))
            raise InputError(
                f"cell {k} fires at low, {below[k]:g}; expected a lower one, "
                "and no spikes without the stimulus"
            )
        above, quiet = np.full(len(below), np.nan), below
        late = np.zeros(len(below), bool)
        while True:
            climbs = np.isnan(above) & (below < most)
            halves = above > below * (1 + tolerance)
            if not (climbs | halves).any():
                if not self._shortened:
                    return above, below
                late, self._shortened = self.fires(below), False
                above, below = np.where(late, below, above), np.where(late, quiet, below)
                continue
            tried = np.where(climbs, np.minimum(below * _STEP, most), below)
            tried[halves] = np.sqrt(below[halves]) * np.sqrt(above[halves])
            short = not (climbs | late).any()
            enough = _LONGER * self._slowest[halves].max() if short else np.inf
            fired = self.fires(tried, enough) & (climbs | halves)
            above = np.where(fired, tried, above)
            below = np.where(fired, below, tried)
            if not self._shortened:
                quiet = below


def _check_arguments(network: object, group: object, name: str, missing: str) -> None:
    if not isinstance(network, Network) or not isinstance(group, Group):
        got = type(network).__name__, type(group).__name__
        raise InputError(f"network and group are {got}; expected a Network and a Group of it")
    check_parameter(group.mechanism.name, name, group.parameters)
    as_choice("missing", missing, ("raise", "nan"))
    _check_amplitude(network, group, name)


def _check_amplitude(network: Network, group: Group, name: str) -> None:
    """Raise InputError if the parameter `name` differs within a cell, as a field's ``amp`` does."""
    values = np.broadcast_to(group.parameters[name], len(group))
    cell = stretch_of(network.forest.cell_offsets, group.nodes)
    order = np.lexsort((values, cell))
    differs = (np.diff(cell[order]) == 0) & (np.diff(values[order]) != 0)
    if differs.any():
        k = cell[order][int(np.argmax(differs))]
        raise InputError(
            f"{group.mechanism.name}: {name} differs within cell {k}; expected one value per cell"
        )


def _check_apart(model: Model) -> None:
    """Raise InputError if cells act on other cells, by events or pointers to voltages."""
    sources = np.concatenate([model.connections.source, model.netcons.source])
    connected = model.forest.num_cells > 1
    connected &= bool(np.isin(sources, model.sources.detector_source).any())
    for (k, _), to in model.pointers.items():
        ends = (nodes[to >= 0] for nodes in (model.kinds[k].node, to))
        reader, read = (stretch_of(model.forest.cell_offsets, nodes) for nodes in ends)
        connected |= not np.array_equal(reader, read)
    if connected:
        raise InputError("cells of the network are connected; expected cells that do not interact")


def _relative(tolerance: float) -> float:
    tolerance = as_number("tolerance", tolerance)
    if not 1e-12 <= tolerance < 1:
        raise InputError(f"tolerance is {tolerance:g}; expected 1e-12 or more, below 1")
    return tolerance


def _check_missing(above: np.ndarray, most: np.ndarray, missing: str) -> None:
    none = np.isnan(above)
    if none.any() and missing == "raise":
        k = int(np.argmax(none))
        raise InputError(
            f"cell {k} does not fire from low to high, {most[k]:g}; expected a threshold between, "
            'or missing="nan"'
        )


def _node_of_each_cell(network: Network, at: ArrayLike) -> np.ndarray:
    """Return `at` as (num_cells,) integers; raise InputError unless ``at[i]`` is in cell i."""
    nodes = as_indices("at", at, network.forest.num_nodes, "node")
    count = network.num_cells
    if not np.array_equal(stretch_of(network.forest.cell_offsets, nodes), np.arange(count)):
        raise InputError(f"at has {len(nodes)} nodes; expected one of each of {count} cells")
    return nodes


def _bounds(
    low: ArrayLike, high: ArrayLike, count: int, unit: str | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of each of `count` cells' amplitudes, (count,) float64 each."""
    both = []
    for name, values in (("low", low), ("high", high)):
        bounds = as_real(name, values, unit)
        if bounds.shape not in ((), (count,)) or (bounds <= 0).any():
            got = f"{name} has shape {bounds.shape}"
            raise InputError(f"{got}; expected ({count},) numbers above 0")
        both.append(np.broadcast_to(bounds, count).copy())
    below, most = both
    if (most < below).any():
        k = int(np.argmax(most < below))
        raise InputError(f"high of cell {k} is {most[k]:g}; expected at least low, {below[k]:g}")
    return below, most
