"""Select the events that act in whole steps (on the grid), and make their connections.

Other events act at their exact times: events whose delay is shorter than a step or longer than the
ring buffer of sums, and, in networks that need exact times, events that cannot be summed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from clhines.core.arrays import starts
from clhines.core.errors import InputError
from clhines.simulator.common.arrays import each, joined, once
from clhines.simulator.mechanisms.mechanism import Mechanism
from clhines.simulator.model.connections import GridConnections
from clhines.simulator.model.model import Events
from clhines.simulator.network.additions import Additions
from clhines.simulator.network.groups import Group, inside
from clhines.simulator.network.network import Network
from clhines.simulator.network.plasticity import Rule
from clhines.simulator.network.times import LAST_STEP, MAX_SLOTS, ROUNDING, delay_steps, event_steps
from clhines.simulator.network.wiring import CallColumns, Wiring, first_weights

RING_STEPS = 2**13  # steps for which a ring buffer of sums always has space
MOST_RING = 2**26  # most sums in a ring buffer with more than RING_STEPS steps


def by_delivery(
    network: Network,
    wiring: Wiring,
    groups: Sequence[Group],
    dt: float,
    targets: int,
    has_needs: bool,
    needs_times: bool,
) -> tuple[Wiring, Wiring, np.ndarray | None]:
    """Divide a wiring into connections in whole steps and connections at exact times.

    Parameters
    ----------
    targets : int
        Targets in the ring buffer of sums.
    has_needs, needs_times : bool
        Whether the network has any needs, and whether one of them forbids to sum some events.

    Returns
    -------
    on_steps, at_times : Wiring
    on_grid : (k,) int64 or None
        Numbers of the connections in whole steps; None if all are.
    """
    added = inside(network).added
    # the longest delay, in steps, for which the ring buffer has space
    most_steps = max(RING_STEPS, min(MOST_RING // max(targets, 1), MAX_SLOTS)) - 2
    least = dt * (1 - ROUNDING) if has_needs else -np.inf
    if not (needs_times or has_delay_outside(wiring, added, least, dt * most_steps)):
        return wiring, Wiring(network), None
    return divide_wiring(wiring, added, groups, dt, most_steps)


def number_connections(
    connections: GridConnections, numbers: np.ndarray, wiring: Wiring, on_grid: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where `Simulation.weights`, which lists all connections' weights, has which.

    The results are the indices there of `connections`, all weights, and the indices of connections
    at exact times. `numbers` has the `connections`' indices among all connections in whole steps;
    `on_grid` has these connections' indices among all, None if all are in whole steps.
    """
    if on_grid is None:
        all_here = len(numbers) == sum(len(c[0]) for c in wiring.calls)
        weights = connections.weight if all_here else all_weights(wiring)
        return numbers, weights, np.zeros(0, np.int64)
    weights = all_weights(wiring)
    at_times = np.delete(np.arange(len(weights)), on_grid)
    return on_grid[numbers], weights, at_times  # without train numbers


def all_weights(wiring: Wiring) -> np.ndarray:
    rows = (columns[3] for columns in wiring.calls)
    return joined([r[:, 0] if r.shape[1] == 1 else r.ravel() for r in rows], float)


def has_delay_outside(wiring: Wiring, added: Additions, least: float, most: float) -> bool:
    """Return whether a connection has a delay below `least` or, if not plastic, above `most`, ms.

    Connections from event trains do not count.
    """
    train = _trains(added)
    for source, _, _, _, delay, plastic in wiring.calls:
        short, long = once(delay) < least, once(delay) > most
        outside = short | (long & ~plastic) if long.any() else short
        if outside.any() and (outside & ~train[source]).any():
            return True
    return False


def divide_wiring(
    wiring: Wiring, added: Additions, groups: Sequence[Group], dt: float, most_steps: int
) -> tuple[Wiring, Wiring, np.ndarray]:
    """Divide connections and events into a wiring on the grid and a wiring at exact times.

    On the grid, events act as sums in whole steps. Return both wirings, and the indices of the
    grid's weights among all weights. Events from cells, detectors and trains act on the grid if the
    mechanism adds them up, the network does not require exact times, and the delay is at most
    `most_steps` steps.
    """
    parts = CallColumns(), CallColumns()
    train, sends = _trains(added), np.zeros(added.num_sources, bool)
    for group, begin in added.emitters:
        sends[begin : begin + len(group)] = True
    masks, exactly = [np.zeros(0, bool)], added.exact or added.bins or bool(added.steered)
    for columns in wiring.calls:
        source, of_group, _, rows, delay, plastic = columns
        on_grid = np.zeros(len(source), bool)
        if len(of_group):
            short = ~train[source] & (delay < dt * (1 - ROUNDING))
            mechanism = groups[int(of_group[0])].mechanism
            on_grid = _on_grid(mechanism, rows.shape[1], sends[source], short, plastic, dt)
        is_long = ~train[source] & (delay > dt * most_steps)
        on_grid = plastic if exactly else on_grid & (plastic | ~is_long)
        masks.append(np.repeat(on_grid, rows.shape[1]))
        for part, mask in zip(parts, (on_grid, ~on_grid), strict=True):
            if mask.any():
                part.append(tuple(column[mask] for column in columns))
    sums_of = [not exactly and sums_weights(groups[int(e[0][0])].mechanism) for e in wiring.outside]
    events = [
        [e for e, s in zip(wiring.outside, sums_of, strict=True) if s is w] for w in (True, False)
    ]
    grid = Wiring(wiring.network, parts[0], events[0], wiring.rule)
    exact = Wiring(wiring.network, parts[1], events[1])
    return grid, exact, np.flatnonzero(np.concatenate(masks))


def _on_grid(
    mechanism: Mechanism,
    num_weights: int,
    sent: np.ndarray,
    short: np.ndarray,
    plastic: np.ndarray,
    dt: float,
) -> np.ndarray:
    """Return which connections to a mechanism may act as sums of whole steps, (c,) bool.

    `sent` selects connections from instances that send events, `short` delays below a step.
    InputError if a `plastic` connection cannot act as a sum.
    """
    sums = sums_weights(mechanism) and num_weights == 1
    able = ~sent & ~short & sums
    if not (plastic & ~able).any():
        return able
    if (plastic & short).any():
        why = f"a delay is shorter than a step of {dt:g} ms"
    elif sums:
        why = "its source is an instance that sends events"
    else:
        why = "the mechanism takes events one by one"
    raise InputError(
        f"rule: a connection to {mechanism.name} is not plastic, as {why}; expected no rule"
    )


def sums_weights(mechanism: Mechanism) -> bool:
    """Return whether a mechanism adds up weights, so that one event may replace a step's events."""
    net = mechanism.program.net
    return net is not None and net.summed and mechanism.kind != "artificial"


def _trains(added: Additions) -> np.ndarray:
    is_train = np.zeros(added.num_sources, bool)
    for sources in added.sources:
        is_train[sources.first : sources.first + len(sources)] = bool(sources.times)
    return is_train


def compile_connections(
    wiring: Wiring,
    added: Additions,
    dt: float,
    num_targets: int,
    first: np.ndarray,
    instances: Sequence[tuple[int, np.ndarray]],
) -> tuple[GridConnections, np.ndarray]:
    """Return the connections from cells and detectors, and each one's index in the wiring.

    Targets are numbered from 0 to `num_targets`; mechanism k has the numbers from ``first[k]`` on.
    `instances` has, for each group, its mechanism and its instances in the mechanism. `added` has
    the event trains, whose connections are left out.
    """
    train, begin = _trains(added), 0
    every = np.arange(sum(len(columns[0]) for columns in wiring.calls), dtype=np.int32)
    parts = list[tuple[np.ndarray, ...]]()
    for source, group, index, rows, delay, plastic in wiring.calls:
        weight = first_weights(rows)
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
            fields = source, index, weight, delay, plastic, numbers
            source, index, weight, delay, plastic, numbers = (a[~of_train] for a in fields)
        _check_delays(delay, dt, source, numbers)
        number = (instances[int(group[0])][1] + first[group[0]]).astype(np.int32)
        target = index if (number == np.arange(len(number))).all() else number[index]
        steps = each(lambda values: np.maximum(delay_steps(values, dt), 1), delay)
        parts.append((source, target, weight, steps, plastic, numbers))
    dtypes = np.int32, np.int32, float, np.int32, bool
    *columns, places = zip(*parts, strict=True) if parts else [()] * (len(dtypes) + 1)
    source, target, weight, steps, plastic = (
        joined(arrays, dtype) for arrays, dtype in zip(columns, dtypes, strict=True)
    )
    numbers = every if len(source) == len(every) else joined(places, np.int32)
    _check_bounds(wiring.rule, source, weight, plastic)
    sizes = added.num_sources, max(num_targets, 1)
    connections = GridConnections(source, target, weight, steps, *sizes, plastic, wiring.rule)
    return connections, numbers


def _check_delays(delay: np.ndarray, dt: float, source: np.ndarray, numbers: np.ndarray) -> None:
    steps = once(delay) / dt
    bad = np.flatnonzero((steps < 1 - ROUNDING) | (steps >= LAST_STEP))
    if len(bad):
        k = int(bad[0])
        is_short = steps[k] < 1
        expected = "at least one step, dt =" if is_short else f"less than {LAST_STEP} steps of"
        raise InputError(
            f"delay of connection {numbers[k]}, from cell {source[k]}, is "
            f"{delay[k]:g} ms; expected {expected} {dt:g} ms"
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
            f"weight of connection {k}, from cell {source[k]}, is {weight[k]:g}; "
            f"expected {low:g} to {high:g}, the bounds of its rule"
        )


def compile_events(
    wiring: Wiring,
    added: Additions,
    dt: float,
    first: np.ndarray,
    instances: Sequence[tuple[int, np.ndarray]],
    on_grid: np.ndarray | None = None,
) -> Events:
    """Return the events from trains and from outside; for `on_grid` see `number_connections`."""
    empty: tuple[np.ndarray, ...] = tuple(np.zeros(0, t) for t in (int, int, float, float, int))
    outside = [(*columns, np.full(len(columns[0]), -1)) for columns in wiring.outside]
    parts = empty, *outside, *_of_trains(wiring, added)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    soon = columns[2] < LAST_STEP * dt
    group, index, time, weight, number = (a[soon] for a in columns)
    step = event_steps(time, dt)
    order = np.argsort(step, kind="stable")
    target = targets_of(group, index, first, instances)
    if on_grid is not None:
        number[number >= 0] = on_grid[number[number >= 0]]
    return Events(target[order], step[order], weight[order], number[order])


def _of_trains(wiring: Wiring, added: Additions) -> Iterator[tuple[np.ndarray, ...]]:
    trains = {s.first + k: t for s in added.sources for k, t in enumerate(s.times)}
    is_train, begin = _trains(added), 0
    for source, group, index, rows, delay, _ in wiring.calls if trains else ():
        numbers = np.arange(begin, begin := begin + len(source))
        columns = group, index, first_weights(rows), numbers
        for k in np.flatnonzero(is_train[source]).tolist():
            times = trains[int(source[k])] + delay[k]
            repeated = (np.full(len(times), column[k]) for column in columns)
            of_group, instance, weight, number = repeated
            yield of_group, instance, times, weight, number


def targets_of(
    group: np.ndarray,
    index: np.ndarray,
    first: np.ndarray,
    instances: Sequence[tuple[int, np.ndarray]],
) -> np.ndarray:
    """Return the number, among all event targets, of each instance `index` of a `group`."""
    if not len(group):
        return np.zeros(0, np.int64)
    used, which = np.unique(group, return_inverse=True)
    numbers = [instances[k][1] for k in used.tolist()]
    start = starts(np.array([len(number) for number in numbers]))
    return first[group] + np.concatenate(numbers)[start[which.reshape(-1)] + index]
