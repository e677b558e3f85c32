"""Connections and events of a `Wiring`, in steps and numbers of targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from clhines.arrays import each, joined, once, starts
from clhines.errors import InputError
from clhines.mechanisms.mechanism import Mechanism
from clhines.model.connections import Connections
from clhines.model.model import Events
from clhines.network.additions import Added
from clhines.network.groups import Group
from clhines.network.plasticity import Rule
from clhines.network.times import LAST_STEP, ROUNDING, delay_steps, event_steps
from clhines.network.wiring import Wiring

_COLUMNS: tuple[np.ndarray, ...] = tuple(
    np.zeros(0, t) for t in (int, int, int, float, float, bool)
)


def given_weights(wiring: Wiring) -> np.ndarray:
    """(w,) float64: weights of all connections, in the order given."""
    rows = (columns[3] for columns in wiring.given)
    return joined([r[:, 0] if r.shape[1] == 1 else r.ravel() for r in rows], float)


def has_short(wiring: Wiring, added: Added, dt: float) -> bool:
    """Whether a connection of a cell or a detector has a delay shorter than a step."""
    train, least = _trains(added), dt * (1 - ROUNDING)
    short = ((c[0], once(c[4]) < least) for c in wiring.columns)
    return any(is_short.any() and (is_short & ~train[source]).any() for source, is_short in short)


def divided(
    wiring: Wiring, added: Added, groups: Sequence[Group], dt: float
) -> tuple[Wiring, Wiring, np.ndarray]:
    """Return connections on the grid, those at exact times, and places of weights of the former.

    By the grid, as sums of whole steps, go events of cells, detectors and trains to mechanisms
    whose events add up, unless the network asks for exact times.
    """
    parts: list[tuple[list[tuple[np.ndarray, ...]], list[np.ndarray]]] = [([], []), ([], [])]
    train, sends = _trains(added), np.zeros(added.num_sources, bool)
    for group, begin in added.emitters:
        sends[begin : begin + len(group)] = True
    masks, exactly = [np.zeros(0, bool)], added.exact or added.bins
    for columns in wiring.given:
        source, of_group, _, rows, delay, plastic = columns
        mechanism = groups[int(of_group[0])].mechanism if len(of_group) else None
        sums = mechanism is not None and _sums(mechanism) and rows.shape[1] == 1
        short = ~train[source] & (delay < dt * (1 - ROUNDING))
        able = ~sends[source] & ~short if sums else np.zeros(len(source), bool)
        if (plastic & ~able).any() and mechanism is not None:
            why = f"a delay is shorter than a step of {dt:g} ms" if (plastic & short).any() else (
                "its source is an instance that sends events" if sums else
                "the mechanism takes events one by one")  # fmt: skip
            raise InputError(
                f"rule: a connection to {mechanism.name} is not plastic, as {why}; expected no rule"
            )
        on_grid = plastic if exactly else able
        masks.append(np.repeat(on_grid, rows.shape[1]))
        for (own, weights), some in zip(parts, (on_grid, ~on_grid), strict=True):
            if some.any():
                first = rows[some, 0] if rows.shape[1] else np.zeros(np.count_nonzero(some))
                own.append((*(a[some] for a in columns[:3]), first, delay[some], plastic[some]))
                weights.append(rows[some])
    grid, exact = (Wiring(wiring.network, *part) for part in parts)
    sums_of = [not exactly and _sums(groups[int(e[0][0])].mechanism) for e in wiring.outside]
    events = [
        [e for e, s in zip(wiring.outside, sums_of, strict=True) if s is w] for w in (True, False)
    ]
    grid.keep(events[0], wiring.rule)
    exact.keep(events[1])
    return grid, exact, np.flatnonzero(np.concatenate(masks))


def _sums(mechanism: Mechanism) -> bool:
    """Whether events of a step may act once, with the sum of their weights."""
    net = mechanism.program.net
    return net is not None and net.summed and mechanism.kind != "artificial"


def _trains(added: Added) -> np.ndarray:
    """Return which sources are trains, (sources,) bool."""
    found = np.zeros(added.num_sources, bool)
    for sources in added.sources:
        found[sources.first : sources.first + len(sources)] = bool(sources.times)
    return found


def compiled_connections(
    wiring: Wiring,
    added: Added,
    dt: float,
    num_targets: int,
    first: np.ndarray,
    instances: Sequence[tuple[int, np.ndarray]],
) -> tuple[Connections, np.ndarray]:
    """Return the connections of cells and detectors, and their places among those given."""
    train, begin = _trains(added), 0
    every = np.arange(sum(len(columns[0]) for columns in wiring.columns), dtype=np.int32)
    parts = list[tuple[np.ndarray, ...]]()
    for source, group, index, weight, delay, plastic in wiring.columns:
        numbers = every[begin : begin + len(source)]
        begin += len(source)
        if not len(source):
            continue
        of_train = train[source] if train.any() else once(np.broadcast_to(False, len(source)))
        if of_train.any():
            if plastic[0]:
                raise InputError(
                    f"rule: connection {numbers[np.argmax(of_train)]} comes from a train of given "
                    "times, and is not plastic; expected a cell or a detector"
                )
            given = source, index, weight, delay, plastic, numbers
            source, index, weight, delay, plastic, numbers = (a[~of_train] for a in given)
        _check_delays(delay, dt, source, numbers)
        number = (instances[int(group[0])][1] + first[group[0]]).astype(np.int32)
        target = index if (number == np.arange(len(number))).all() else number[index]
        steps = each(lambda values: np.maximum(delay_steps(values, dt), 1), delay)
        parts.append((source, target, weight, steps, plastic, numbers))
    dtypes = np.int32, np.int32, float, np.int32, bool
    *columns, places = zip(*parts, strict=True) if parts else [()] * (len(dtypes) + 1)
    source, target, weight, steps, plastic = (
        joined(some, dtype) for some, dtype in zip(columns, dtypes, strict=True)
    )
    numbers = every if len(source) == len(every) else joined(places, np.int32)
    _check_bounds(wiring.rule, source, weight, plastic)
    sizes = added.num_sources, max(num_targets, 1)
    found = Connections(source, target, weight, steps, *sizes, plastic, wiring.rule)
    return found, numbers


def _check_delays(delay: np.ndarray, dt: float, source: np.ndarray, numbers: np.ndarray) -> None:
    """Raise InputError for a delay, ms, that is shorter than a step or too long."""
    steps = once(delay) / dt
    bad = np.flatnonzero((steps < 1 - ROUNDING) | (steps >= LAST_STEP))
    if len(bad):
        k = int(bad[0])
        short = steps[k] < 1
        expected = "at least one step, dt =" if short else f"less than {LAST_STEP} steps of"
        raise InputError(
            f"delay of connection {numbers[k]}, from cell {source[k]}, is {delay[k]:g} ms; "
            f"expected {expected} {dt:g} ms"
        )


def _check_bounds(
    rule: Rule | None, source: np.ndarray, weight: np.ndarray, plastic: np.ndarray
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
    wiring: Wiring,
    added: Added,
    dt: float,
    first: np.ndarray,
    instances: Sequence[tuple[int, np.ndarray]],
) -> Events:
    """Return the events in steps and numbers of targets; as `compiled_connections`."""
    empty: tuple[np.ndarray, ...] = tuple(np.zeros(0, t) for t in (int, int, float, float))
    outside = [*wiring.outside, *_of_trains(wiring, added)]
    group, index, time, weight = joined_columns(outside, empty)
    soon = time / dt < LAST_STEP
    group, index, time, weight = (a[soon] for a in (group, index, time, weight))
    step = event_steps(time, dt)
    order = np.argsort(step, kind="stable")
    target = targets_of(group, index, first, instances)
    return Events(target[order], step[order], weight[order])


def _of_trains(wiring: Wiring, added: Added) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield group, instance, time and weight of all events of trains, by connection."""
    trains = {s.first + k: t for s in added.sources for k, t in enumerate(s.times)}
    if not trains:
        return
    source, group, index, weight, delay, _ = joined_columns(wiring.columns, _COLUMNS)
    for k in np.flatnonzero(_trains(added)[source]).tolist():
        times = trains[int(source[k])] + delay[k]
        of_group, instance, of_weight = (np.full(len(times), a[k]) for a in (group, index, weight))
        yield of_group, instance, times, of_weight


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
