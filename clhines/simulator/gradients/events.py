"""Events on a device: connections by target, and the steps in which spikes act.

A spike is detected at the begin of a step, when the step before has ended, and acts `delay` steps
later. So a step reads only earlier steps' spikes, and its instances sum their events without
waiting for each other. Spikes from trains are known before the run: each pair of train and delay is
a source whose spikes act at once.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from clhines.core.arrays import offsets
from clhines.core.errors import InputError
from clhines.simulator.model.model import Model
from clhines.simulator.network.times import SPIKE_LATE, begins_of
from clhines.simulator.state.variables import Variables

NEVER = 0x7FFFFFFF  # a delay beyond the end
MOST = 0x7F  # most events from a source in a step


@lru_cache(maxsize=2)
def step_times(dt: float, steps: int) -> np.ndarray:
    """Return each step's begin, middle and end after the last step's begin, (steps + 1, 4), ms."""
    begin, half = begins_of(np.arange(steps + 1), dt), 0.5 * dt
    before = np.concatenate([[0.0], begin[:-1]])
    times = np.stack([before, begin, begin + half, begin + half + half], axis=1)
    times.flags.writeable = False
    return times


class EventConnections:
    """A model's connections sorted by target, with delays in steps.

    ``number[k]`` is connection k's index in `Adjoint.weight`.
    `trained` has, for each spike train, the steps in which its events act, and its source number.
    """

    def __init__(self, model: Model, steps: int) -> None:
        self.model, self.steps = model, steps
        grid, netcons, kinds = model.connections, model.netcons, model.kinds
        counts = [k.count if k.mechanism.program.net is not None else 0 for k in kinds]
        self.first = offsets(counts)
        self._of_grid = np.zeros(model.num_targets, np.int64)
        for kind, first in zip(kinds, self.first, strict=False):
            if kind.first_target >= 0 and model.num_targets:
                here = slice(kind.first_target, kind.first_target + kind.count)
                self._of_grid[here] = first + np.arange(kind.count)
        self._here = model.events.step < steps  # external events, and their indices in `outside`
        to = self._of_grid[model.events.target[self._here]]
        self._at = model.events.step[self._here] * int(self.first[-1]) + to
        exact_source, exact_delay, self.trained = self._exact()
        self.num_sources = max([model.sources.count, *(exact_source + 1)])
        places = netcons.first_weight[:-1]
        target = np.append(
            self._of_grid[grid.target], self.first[netcons.kind] + netcons.instance
        ).astype(np.int64)
        order = np.argsort(target, kind="stable")
        self.target = target[order]
        self.source = np.append(grid.source, exact_source)[order]
        self.delay = np.append(grid.delay, exact_delay)[order]
        self.weight = np.append(grid.weight, netcons.weight[places])[order]
        self.number = np.append(len(netcons.weight) + np.arange(grid.count), places)[order]

    def _exact(self) -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, int]]]:
        """Return each exact connection's source and delay, and the trains' events.

        The delay is in steps, or -1 if it differs between a source's spikes.
        """
        model, (_, begin, middle, _) = self.model, step_times(self.model.dt, self.steps).T
        times = dict(zip(model.sources.train_source, model.sources.train_time, strict=True))
        source, delay = model.netcons.source.copy(), np.zeros(model.netcons.count, np.int64)
        trained, number = list[tuple[np.ndarray, int]](), model.sources.count
        pairs, pair_of = np.unique([source, model.netcons.delay], axis=1, return_inverse=True)
        pair_of = pair_of.reshape(-1)
        for k, (train, ms) in enumerate(pairs.T):
            if train in times:
                due = times[train] + ms
                trained.append((np.searchsorted(middle, due[due > 0]), number))
                source[pair_of == k], number = number, number + 1
        for ms in np.unique(model.netcons.delay):
            step = np.searchsorted(middle, begin + SPIKE_LATE + ms)
            later = (step - np.arange(len(begin)))[step < self.steps]
            is_even = len(later) > 0 and (later == later[0]).all()
            steps = later[0] if is_even else (-1 if len(later) else NEVER)
            delay[(model.netcons.delay == ms) & (source < model.sources.count)] = steps
        return source, delay, trained

    @property
    def are_even(self) -> bool:
        return bool((self.delay[self.source < self.model.sources.count] > 0).all())

    @cached_property
    def outside(self) -> np.ndarray:
        """Sums of external events' weights, (steps * targets,) float64; (0,) if none."""
        events, targets = self.model.events, int(self.first[-1])
        size = self.steps * targets if len(events.step) else 0
        sums: np.ndarray = np.bincount(self._at, events.weight[self._here], size)
        return sums

    def by_events(self, by_outside: np.ndarray) -> np.ndarray:
        """Return the derivatives with respect to external events' weights, from `outside`."""
        by_events = np.zeros(len(self._here))
        by_events[self._here] = by_outside[self._at]
        return by_events

    def first_of(self, k: int) -> int:
        """Return mechanism `k`'s first target; -1 if the mechanism receives no events."""
        first, end = self.first[k : k + 2]
        return int(first) if self.is_target[first:end].any() else -1

    @cached_property
    def is_target(self) -> np.ndarray:
        reached = np.bincount(self.target, minlength=self.first[-1]) > 0
        reached[self._of_grid[self.model.events.target]] = True
        return reached

    def arrays(self, variables: Variables, dtype: np.dtype) -> dict[str, Any]:
        """Return kernel arguments by name; `spikes` has all spikes that are known at the start."""
        sources = self.model.sources
        spikes = np.zeros((self.steps + 1, self.num_sources), np.uint8)
        spikes[0, sources.detector_source[variables.exact.held > 0]] = 1
        for step, source in self.trained:
            np.add.at(spikes[:, source], step[step < self.steps], 1)
        if (spikes > MOST).any():
            raise InputError(f"gradient(): more than {MOST} events of a train in a step")
        count = len(sources.detector_node)
        first, after = np.full(len(variables.v), -1), np.full(count, -1)
        for d in reversed(range(count)):
            node = sources.detector_node[d]
            after[d], first[node] = first[node], d
        by_source = np.argsort(self.source, kind="stable")
        return {
            "num_sources": np.int32(self.num_sources),
            "num_targets": np.int32(self.first[-1]),
            "incoming": offsets(np.bincount(self.target, minlength=self.first[-1])),
            "source": self.source,
            "delay": self.delay,
            "weight": self.weight.astype(dtype),
            "spikes": spikes.reshape(-1),
            "detector": first,
            "next_detector": after,
            "detected": sources.detector_source,
            "level": sources.detector_threshold.astype(dtype),
            "hold": self.model.detector_hold,
            "held": variables.exact.held,
            "outside": self.outside.astype(dtype),
            "outgoing": offsets(np.bincount(self.source, minlength=self.num_sources)),
            "sent": by_source,
            "target": self.target[by_source],
            "num_slots": np.int32(self.model.connections.max_delay + 1),
        }
