"""Wires: the tables by which events come from sources to instances in a network with exact times.

Each source has a ring of the times of its events and a count of all that there were. Each
connection has a cursor into the ring of its source: how many of them its target has taken. Nothing
is sent: a target looks into the rings of its connections, and takes what is due.
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

SPIKE_LATE = 1e-10  # ms, which NEURON adds to the time at which a threshold is crossed
WATCH_MARGIN = 1e-11  # below 0, down to which a WATCH condition that is armed counts as true
NEAR = 1e-6  # steps
EMITTED_PER_STEP = 4  # events of one instance that the rings have room for, each step of a delay
MOST_STEPS = 2**13  # of a delay, that a ring has room for; of longer ones it may run over: an error


@dataclass(frozen=True, eq=False)
class Wires:
    """Tables of a network with exact times; targets are all instances of kinds that take events.

    Connections, (m,), have a `target`, and are in `order` by it, those of one in the order given,
    from `first`, (num_targets + 1,), on. `ring` has the times, ms, at the start: those of trains,
    `count` of each source. Targets of a layer depend within a step on those of earlier `layers`
    alone. Where events are `apart` all of a step come before the currents of any node. Rings that
    are `tight` have room for less than their longest delay.
    """

    kinds: tuple[int, ...]
    first_target: dict[int, int]
    num_targets: int
    target: np.ndarray
    order: np.ndarray
    first: np.ndarray
    ring_first: np.ndarray
    ring_size: np.ndarray
    ring: np.ndarray
    count: np.ndarray
    layers: list[np.ndarray]
    apart: bool
    tight: bool

    def sizes_ahead(self, model: Model, steps: int) -> np.ndarray:
        """(num_sources,) int64: `ring_size`, of artificial cells with room for more steps."""
        return self.ring_size + artificial_sources(model) * (EMITTED_PER_STEP * steps)


def steps_between(model: Model, chosen: np.ndarray) -> int | None:
    """Count steps of a launch in which nothing is due that chosen connections send in it; or None.

    None where nothing limits them, 0 where something is due within the step that sends it. What an
    instance sends just after the middle of a step may be due, by rounding, at the middle of one.
    """
    if not chosen.any():
        return None
    steps = _in_steps(model.netcons.delay[chosen], model.dt)
    whole = np.floor(steps + 1e-9)
    rounded = ~detected(model)[chosen] & (np.abs(steps - whole) < NEAR) & (whole > 1)
    return int((whole - rounded).min())


def _in_steps(delay: np.ndarray, dt: float) -> np.ndarray:
    """Return delays, ms, in steps; those that no run reaches as the longest of all."""
    return np.minimum(delay, LAST_STEP * dt) / dt


def steps_of_cells(model: Model) -> int | None:
    """Return `steps_between` of what cells send each other; artificial cells are none."""
    sends = model.sources.is_emitted | model.sources.is_detected
    sent = (sends & ~artificial_sources(model))[model.netcons.source]
    return steps_between(model, sent & ~within_cells(model))


def moved_rings(
    ring: np.ndarray, count: np.ndarray, sizes: np.ndarray, others: np.ndarray
) -> np.ndarray:
    """Return the entries of rings of `sizes`, `count` events so far, in rings of `others`."""
    if np.array_equal(sizes, others):
        return ring
    kept = np.minimum(np.minimum(sizes, others), count)
    source, number = np.repeat(np.arange(len(kept)), kept), ranges(count - kept, kept)
    times = np.zeros(int(others.sum()))
    there, here = (starts(s)[source] + number % s[source] for s in (others, sizes))
    times[there] = ring[here]
    return times


def wires_of(model: Model) -> Wires:
    """Return the tables of a model; events sent in a circle without delay are an InputError."""
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
    """(num_sources,) int64: events of each source that its ring has room for."""
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
        size[source] = len(t) or steps[source] + 2  # one without may get those of another process
    return size


def _layers(
    model: Model, first_target: dict[int, int], target: np.ndarray, total: int
) -> list[np.ndarray]:
    """Targets by the longest path of connections shorter than a step that leads to each."""
    sender = np.full(model.sources.count, -1)
    for k, sources in model.sources.emitted.items():
        sends = sources >= 0
        sender[sources[sends]] = first_target[k] + np.flatnonzero(sends)
    short = (model.netcons.delay < model.dt) & (sender[model.netcons.source] >= 0)
    a, b = sender[model.netcons.source[short]], target[short]
    for (k, _), to in model.steered.items():  # who sets a weight comes before who gets events
        a = np.append(a, first_target[k] + np.arange(len(to.connection)))
        b = np.append(b, target[to.connection])
    layer = np.zeros(total, np.int64)
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


# Bins of a step, as NEURON has them with ``CVode.queue_mode(1, 0)`` (docs/neuron.md): events of
# connections due in ``[t - dt/2, t + dt/2)`` come when the step begins, at t, the last sent first.
#
#     due       a    b  c          d      at t: WATCH conditions, then c, b, a; then self events up
#          -----[-------t-------)----     to t + dt/2, at their own times; then what these have sent
#           t - dt/2       t + dt/2       with a delay below dt/2. d is in the next bin.
#
# Invariant: a connection delivers in order, so it stops at its first event that is not in the bin.

# Of a connection: its target sees events of the step that sends them; its source is the crossing of
# a threshold; it comes from another block of cells, see `cpu.blocks`.
SENDING = Word(short=1, crossed=1, apart=1)
TOLERANCE = 1e-10  # steps by which NEURON moves what is due at the end of a bin into the next one


def detected(model: Model) -> np.ndarray:
    """(m,) bool: connections whose source is the crossing of a threshold."""
    return model.sources.is_detected[model.netcons.source]


def has_second_round(model: Model) -> bool:
    """Whether events sent within a step may come to others in its bin."""
    return bool((~detected(model) & (model.netcons.delay < 0.5 * model.dt)).any())


def bin_end(then: np.ndarray, begin: float, dt: float) -> np.ndarray:
    """When a step's bin ends, ms, for events sent `then`: NEURON's clock is rounded since."""
    middle = begin + 0.5 * dt
    drift = ((middle + 0.5 * dt) - begin) - dt
    return (middle - TOLERANCE * dt) - drift * np.rint((middle - then) / dt)
