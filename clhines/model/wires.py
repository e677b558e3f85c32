"""Connections and events of a `Wiring`, in steps and numbers of targets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clhines.arrays import starts
from clhines.errors import InputError
from clhines.model.connections import Connections
from clhines.model.model import Events
from clhines.network.plasticity import STDP
from clhines.network.times import LAST_STEP, ROUNDING, delay_steps, event_steps
from clhines.network.wiring import Wiring


def compiled_connections(
    wiring: Wiring,
    dt: float,
    num_targets: int,
    first: np.ndarray,
    instances: Sequence[tuple[int, np.ndarray]],
) -> Connections:
    """Return the connections in steps and numbers of targets.

    Parameters
    ----------
    wiring : Wiring
    dt : float, ms
    num_targets : int
    first : (number of groups,) int64
        First target of the kind of each group, -1 of one that takes no events.
    instances
        See `Model`.

    Raises
    ------
    InputError
        A delay shorter than a step or too long, or a weight outside the bounds of its rule.
    """
    empty: tuple[np.ndarray, ...] = tuple(
        np.zeros(0, t) for t in (int, int, int, float, float, bool)
    )
    source, group, index, weight, delay, plastic = joined_columns(wiring.columns, empty)
    short = np.flatnonzero(delay < dt * (1 - ROUNDING))
    if len(short):
        k = int(short[0])
        raise InputError(
            f"delay of connection {k}, from cell {source[k]}, is {delay[k]:g} ms; expected "
            f"at least one step, dt = {dt:g} ms"
        )
    long = np.flatnonzero(delay / dt >= LAST_STEP)
    if len(long):
        k = int(long[0])
        raise InputError(
            f"delay of connection {k}, from cell {source[k]}, is {delay[k]:g} ms; expected "
            f"less than {LAST_STEP} steps of {dt:g} ms"
        )
    steps = np.maximum(delay_steps(delay, dt), 1)
    target = targets_of(group, index, first, instances)
    _check_bounds(wiring.rule, source, weight, plastic)
    sizes = wiring.num_cells, max(num_targets, 1)
    return Connections(source, target, weight, steps, *sizes, plastic, wiring.rule)


def _check_bounds(
    rule: STDP | None, source: np.ndarray, weight: np.ndarray, plastic: np.ndarray
) -> None:
    if rule is None:
        return
    low, high = rule.w_min, rule.w_max
    outside = np.flatnonzero(plastic & ((weight < low) | (weight > high)))
    if len(outside):
        k = int(outside[0])
        raise InputError(
            f"weight of connection {k}, from cell {source[k]}, is {weight[k]:g}; expected "
            f"{low:g} to {high:g}, the bounds of its rule"
        )


def compiled_events(
    wiring: Wiring, dt: float, first: np.ndarray, instances: Sequence[tuple[int, np.ndarray]]
) -> Events:
    """Return the events in steps and numbers of targets; as `compiled_connections`."""
    empty: tuple[np.ndarray, ...] = tuple(np.zeros(0, t) for t in (int, int, float, float))
    group, index, time, weight = joined_columns(wiring.outside, empty)
    soon = time / dt < LAST_STEP
    group, index, time, weight = (a[soon] for a in (group, index, time, weight))
    step = event_steps(time, dt)
    order = np.argsort(step, kind="stable")
    target = targets_of(group, index, first, instances)
    return Events(target[order], step[order], weight[order])


def joined_columns(
    parts: list[tuple[np.ndarray, ...]], empty: tuple[np.ndarray, ...]
) -> list[np.ndarray]:
    """Concatenate the columns of several tables."""
    return [np.concatenate(columns) for columns in zip(empty, *parts, strict=True)]


def targets_of(
    group: np.ndarray,
    index: np.ndarray,
    first: np.ndarray,
    instances: Sequence[tuple[int, np.ndarray]],
) -> np.ndarray:
    """Look up the number among all targets of instances of groups."""
    if not len(group):
        return np.zeros(0, np.int64)
    used, which = np.unique(group, return_inverse=True)
    numbers = [instances[k][1] for k in used.tolist()]
    start = starts(np.array([len(number) for number in numbers]))
    return first[group] + np.concatenate(numbers)[start[which.reshape(-1)] + index]
