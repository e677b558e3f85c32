"""Sources, connections and targets in a network with exact event times.

A source writes its events' times into a ring buffer and counts them. A connection has a cursor: how
many of its source's events its target has received. Nothing is pushed; a target reads its
connections' ring buffers and takes the events that are due.

    source 0             ring [ 1.2 | 3.7 |  .  ], count 2
    connection 0 -> 5    delay 1, cursor 1: the event at 3.7 ms is due at 4.7 ms
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clhines.core.arrays import offsets, ranges, starts
from clhines.core.errors import InputError
from clhines.simulator.model.model import Model
from clhines.simulator.model.needs import artificial_sources, within_cells
from clhines.simulator.network.times import LAST_STEP
from clhines.solver.plan.kernel_spec import Word

WATCH_MARGIN = 1e-11  # an armed WATCH condition counts as true from -WATCH_MARGIN up
NEAR = 1e-6  # steps
EMITTED_PER_STEP = 4  # ring entries for one instance's events, per step of delay
MOST_STEPS = 2**13  # delay for which a ring has space; a longer one may overflow: an error


@dataclass(frozen=True, eq=False)
class Wires:
    """Tables of sources, connections and targets for events at exact times.

    A target is an instance with NET_RECEIVE. A source's ring buffer has the times of its last
    spikes.
    """

    kinds: tuple[int, ...]  # indices of mechanisms with NET_RECEIVE
    first_target: dict[int, int]  # these mechanisms' first targets
    num_targets: int
    target: np.ndarray  # (m,): each connection's target
    order: np.ndarray  # connections sorted by target, stably
    first: np.ndarray  # connections to target i: ``order[first[i]:first[i + 1]]``
    ring_first: np.ndarray  # where each source's ring begins in `ring`
    ring_size: np.ndarray  # entries in each source's ring
    ring: np.ndarray  # all rings; at the start they hold spike trains' times, ms
    count: np.ndarray  # how many of these times each source has
    layers: list[np.ndarray]  # targets: in a step they depend only on earlier layers
    apart: bool  # all of a step's events precede all nodes' currents
    tight: bool  # a ring is shorter than its longest delay needs

    def sizes_ahead(self, model: Model, steps: int) -> np.ndarray:
        """Return the sizes of all sources' ring buffers, (num_sources,) int64, in events.

        Those of artificial cells have space for `steps` more steps, as a launch advances these
        cells that many steps before the others.
        """
        return self.ring_size + artificial_sources(model) * (EMITTED_PER_STEP * steps)


def steps_between(model: Model, chosen: np.ndarray) -> int | None:
    """Return the most steps in a launch such that no event is due in the launch that sends it.

    Only the connections `chosen`, (m,) bool, count. None: no limit. 0: an event may be due in the
    step that sends it. By rounding, an event that an instance sends just after the middle of a step
    may be due exactly at the middle of a later one.
    """
    if not chosen.any():
        return None
    steps = _in_steps(model.netcons.delay[chosen], model.dt)
    whole = np.floor(steps + 1e-9)
    rounded = ~detected(model)[chosen] & (np.abs(steps - whole) < NEAR) & (whole > 1)
    return int((whole - rounded).min())


def _in_steps(delay: np.ndarray, dt: float) -> np.ndarray:
    """Convert delays from ms to steps; limit them to the longest possible run, `LAST_STEP`."""
    return np.minimum(delay, LAST_STEP * dt) / dt


def steps_of_cells(model: Model) -> int | None:
    """Return the most steps in a launch such that no event between cells is due in it.

    See `steps_between`; events from artificial cells do not count.
    """
    sends = model.sources.is_emitted | model.sources.is_detected
    sent = (sends & ~artificial_sources(model))[model.netcons.source]
    return steps_between(model, sent & ~within_cells(model))


def moved_rings(
    ring: np.ndarray, count: np.ndarray, sizes: np.ndarray, others: np.ndarray
) -> np.ndarray:
    """Copy the latest event times in all sources' ring buffers into buffers of other sizes.

    `ring` has all buffers one after another, `count` how many events each source has sent, `sizes`
    the old sizes and `others` the new ones, in entries.
    """
    if np.array_equal(sizes, others):
        return ring
    kept = np.minimum(np.minimum(sizes, others), count)
    source, number = np.repeat(np.arange(len(kept)), kept), ranges(count - kept, kept)
    times = np.zeros(int(others.sum()))
    there, here = (starts(s)[source] + number % s[source] for s in (others, sizes))
    times[there] = ring[here]
    return times


def wires_of(model: Model) -> Wires:
    """Return a model's tables; InputError if instances send each other events in a circle.

    Only connections with delays below a step count for circles.
    """
    kinds = tuple(k for k, kind in enumerate(model.kinds) if kind.mechanism.program.net is not None)
    counts = np.array([model.kinds[k].count for k in kinds], np.int64)
    first_target = dict(zip(kinds, starts(counts).tolist(), strict=True))
    total, netcons = int(counts.sum()), model.netcons
    begin = np.array([first_target.get(k, -1) for k in range(len(model.kinds))], np.int64)
    target = begin[netcons.kind] + netcons.instance if netcons.count else np.zeros(0, np.int64)
    order = np.argsort(target, kind="stable")
    first = offsets(np.bincount(target, minlength=total)).astype(np.int64)
    size, count = ring_sizes(model), np.zeros(model.sources.count, np.int64)
    ring, begins = np.zeros(int(size.sum())), starts(size)
    for source, t in zip(model.sources.train_source, model.sources.train_time, strict=True):
        ring[begins[source] : begins[source] + len(t)], count[source] = t, len(t)
    layers = _layers(model, first_target, target, total)
    return Wires(
        kinds=kinds,
        first_target=first_target,
        num_targets=total,
        target=target,
        order=order,
        first=first,
        ring_first=begins,
        ring_size=size,
        ring=ring,
        count=count,
        layers=layers,
        apart=len(layers) > 1 or "set_voltages" in model.needs,
        tight=bool((netcons.delay > MOST_STEPS * model.dt).any()),
    )


def ring_sizes(model: Model) -> np.ndarray:
    """Return the capacity of each source's event ring buffer: (num_sources,) int64."""
    if model.sources.ring_size is not None:
        return model.sources.ring_size
    longest = np.zeros(model.sources.count)
    np.maximum.at(longest, model.netcons.source, model.netcons.delay)
    steps = np.minimum(np.ceil(_in_steps(longest, model.dt)), MOST_STEPS).astype(np.int64) + 2
    size = np.ones(model.sources.count, np.int64)
    size[model.sources.detector_source] = steps[model.sources.detector_source] + 2
    for sources in model.sources.emitted.values():
        senders = sources[sources >= 0]
        size[senders] = EMITTED_PER_STEP * steps[senders]
    for source, t in zip(model.sources.train_source, model.sources.train_time, strict=True):
        size[source] = len(t) or steps[source] + 2  # if empty, another process may fill it
    return size


def _layers(
    model: Model, first_target: dict[int, int], target: np.ndarray, total: int
) -> list[np.ndarray]:
    """Group targets by the longest path to them along connections with delays below a step.

    `first_target` has each mechanism's first target, `target` each connection's target; `total` is
    the target count. Return an array of targets for each length.
    """
    sender = np.full(model.sources.count, -1)
    for k, sources in model.sources.emitted.items():
        sends = sources >= 0
        sender[sources[sends]] = first_target[k] + np.flatnonzero(sends)
    short = (model.netcons.delay < model.dt) & (sender[model.netcons.source] >= 0)
    a, b = sender[model.netcons.source[short]], target[short]
    for (k, _), to in model.steered.items():  # an instance sets a weight before it is used
        a = np.append(a, first_target[k] + np.arange(len(to.connection)))
        b = np.append(b, target[to.connection])
    layer = np.zeros(total, np.int64)
    # Longest paths by relaxation: each round lengthens paths by one edge. Without a circle it ends
    # after `total` rounds at most.
    for _ in range(total + 1):
        deeper = np.zeros(total, np.int64)
        np.maximum.at(deeper, b, layer[a] + 1)
        grown = np.maximum(layer, deeper)
        if np.array_equal(grown, layer):
            break
        layer = grown
    else:
        k = int(np.argmax(layer))
        kind = max(n for n, begin in first_target.items() if begin <= k)
        raise InputError(
            f"{model.kinds[kind].mechanism.name}: instances send events to each other in a circle "
            f"with delays shorter than a step of {model.dt:g} ms; expected longer delays"
        )
    last = int(layer.max(initial=0))
    return [np.flatnonzero(layer == k) for k in range(last + 1)] if total else []


# Bins of a step, as in NEURON with ``CVode.queue_mode(1, 0)`` (docs/neuron.md): events that
# connections deliver in ``[t - dt/2, t + dt/2)`` arrive as the step begins, at t, last sent first.
#
#     due       a    b  c          d      at t: WATCH conditions; then c, b, a; then self events up
#          -----[-------t-------)----     to t + dt/2, at their own times; then events that these
#           t - dt/2       t + dt/2       send with a delay below dt/2. d is in the next bin.
#
# Invariant: a connection delivers in order, so it stops at its first event outside the bin.

# Flags of a connection. short: its target sees events of the step that sends them. crossed: its
# source is a threshold crossing. apart: it comes from another block of cells, see `cpu.blocks`.
SENDING = Word(short=1, crossed=1, apart=1)
TOLERANCE = 1e-10  # steps before the end of a bin from which NEURON moves events to the next bin


def detected(model: Model) -> np.ndarray:
    """Return which connections come from a detector of threshold crossings, (m,) bool."""
    return model.sources.is_detected[model.netcons.source]


def has_second_round(model: Model) -> bool:
    """Whether events may be due in the bin in which they are sent; see `Model.bins`."""
    return bool((~detected(model) & (model.netcons.delay < 0.5 * model.dt)).any())


def bin_end(then: np.ndarray, begin: float, dt: float) -> np.ndarray:
    """Return the end of a step's bin, ms, for events sent at times `then`, ms, (k,) float64.

    `begin`, ms, is the beginning of the step; the end is rounded as NEURON's clock.
    """
    middle = begin + 0.5 * dt
    drift = ((middle + 0.5 * dt) - begin) - dt
    return (middle - TOLERANCE * dt) - drift * np.rint((middle - then) / dt)
