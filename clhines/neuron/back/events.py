"""Write a run's pending events into NEURON's queue."""

from __future__ import annotations

import numpy as np

from clhines.core.arrays import half_steps, ranges
from clhines.neuron.back.states import Arrays, check_numbers
from clhines.neuron.calls import clock
from clhines.neuron.importer import NeuronNetwork
from clhines.neuron.memory.objects import POINTER
from clhines.neuron.memory.raw import put_numbers
from clhines.simulator.importing import SPIKE_LATE, check_rings, rings_of
from clhines.simulator.simulation import Simulation


def last_delivery(t: float, dt: float, steps: int) -> float:
    """Return the time, ms, up to which NEURON delivers events in `steps` steps from `t`."""
    if not steps:
        return t - 0.5 * dt
    return float(half_steps(t, dt, 2 * steps - 1)[-1])


def check_values(sim: Simulation, imported: NeuronNetwork, arrays: Arrays) -> None:
    """Refuse values that NEURON's memory cannot hold, before anything is written there."""
    netcons = sim.model.netcons
    counts = arrays["count"][netcons.source] - arrays["cursor"]
    check_rings(counts, rings_of(sim.model)[1][netcons.source])  # ranks agree on the result later
    check_numbers(sim.model, imported, arrays)


def put_events(sim: Simulation, imported: NeuronNetwork, arrays: Arrays, last: float) -> None:
    """Replace NEURON's pending events by the simulation's pending events.

    `last` is the time, ms, up to which NEURON has delivered events.
    """
    model = imported.model
    queue, t = model.queue, float(model.h.t)
    unseen = _unseen(sim, arrays, t)
    movable = _movable(imported)
    events, senders = queue.columns(), model.wires.senders
    selves = events.what == "SelfEvent"
    number = np.where(selves, senders.of_points(events.target), -1)
    of_trains = np.array([name in model.trains.names for name in (*senders.names, "")], bool)
    of_trains = of_trains[np.append(senders.name, -1)[number]]
    gone = (number >= 0) & ~of_trains | np.isin(events.what, ("NetCon", "PreSyn"))
    # in the order of NEURON's bins, because removing a bin's first entry is fast
    order = np.argsort(events.bin_order, kind="stable")
    queue.remove(*events.item[order][gone[order]].tolist())
    of_stims = zip(number[of_trains].tolist(), events.item[of_trains].tolist(), strict=True)
    stims = {senders[k]: item for k, item in of_stims}
    model.h.t = min(last, t)  # NEURON refuses past events, and has delivered events up to `last`
    _put_netcons(sim, imported, arrays, last, unseen)
    _put_selves(sim, imported, arrays, movable)
    model.h.t = t
    _move_trains(imported, stims, last)
    delivers = model.bins is not None or model.watched
    if delivers or model.plays.players:  # perhaps on this rank alone: exchange in the next step
        queue.put_exchange_off(float(clock(t, sim.model.dt, 1)[-1]))
    if model.plays.players:
        queue.play(last, t)
    _put_watches(sim, imported, arrays)
    above = dict(zip(sim.model.sources.detector_source.tolist(), arrays["held"], strict=True))
    for address, sources in imported.detectors.items():
        one = int(sources[0])
        model.sources.above(address).value = bool(above[one]) and one not in unseen
    if delivers:  # self events precede the next bin and the check of WATCH conditions
        queue.deliver_until(t)


def _unseen(sim: Simulation, arrays: Arrays, t: float) -> set[int]:
    """Return the sources that fired in the last step; NEURON only detects them in its next step."""
    first, size = rings_of(sim.model)
    sources = sim.model.sources.detector_source
    sources = sources[arrays["count"][sources] > 0]
    last = arrays["ring"][first[sources] + (arrays["count"][sources] - 1) % size[sources]]
    return set(sources[last > t - 0.5 * sim.model.dt].tolist())


def _movable(imported: NeuronNetwork) -> dict[str, np.ndarray]:
    """Clear all net_move slots; return each instance's slot address by mechanism, 0 for none."""
    model, places_of = imported.model, dict[str, np.ndarray]()
    for name, group in imported.groups.items():
        net = group.mechanism.program.net
        if net is not None and any(kind != "event" for kind in net.sends):
            places_of[name] = places = model.slots.movable(model.every[name])
            places = places[places > 0] + 8 * POINTER
            put_numbers(places, np.zeros(len(places)))  # all bits 0
    return places_of


def _put_watches(sim: Simulation, imported: NeuronNetwork, arrays: Arrays) -> None:
    model = imported.model
    if model.watched:
        model.slots.disarm()
    for name in model.watched:
        k, place = sim.model.instances[imported.groups[name].number]
        queue = sim.model.schema.named(arrays, "queue", k)
        armed, above = queue["armed"][:, place], queue["above"][:, place]
        conditions = [(int(j), int(w), bool(above[w, j])) for w, j in np.argwhere(armed)]
        model.slots.watch(model.every[name], conditions)


def _put_netcons(
    sim: Simulation, imported: NeuronNetwork, arrays: Arrays, last: float, unseen: set[int]
) -> None:
    model, netcons, t = imported.model, sim.model.netcons, imported.model.h.t
    first, size = rings_of(sim.model)
    counts = arrays["count"][netcons.source] - arrays["cursor"]
    connection = np.repeat(np.arange(len(counts)), counts)
    source, event = netcons.source[connection], ranges(arrays["cursor"], counts)
    sent = arrays["ring"][first[source] + event % size[source]]
    names, numbers = model.trains.names, imported.numbers.tolist()
    senders = [(number, o.sender) for number, o in zip(numbers, model.wires.origins, strict=True)]
    trains = [number for number, sender in senders if sender is not None and sender[0] in names]
    is_future = np.isin(source, trains) & (sent > last)
    is_unseen = np.isin(source, [*unseen]) & (event + 1 == arrays["count"][source])
    chosen = ~(is_future | is_unseen)
    connection, source, event, sent = (a[chosen] for a in (connection, source, event, sent))
    address = model.wires.read.address[imported.netcons[connection]]
    time = sent + netcons.delay[connection]
    if model.bins is None:
        model.queue.send(address, np.maximum(time, t))
        return
    key = np.where(np.isin(source, sim.model.sources.detector_source), sent, sent + SPIKE_LATE)
    model.bins.begin.value = last
    order = np.lexsort((event, sim.model.connection_ranks[connection], key))
    model.bins.put(address[order], time[order])


def _put_selves(
    sim: Simulation, imported: NeuronNetwork, arrays: Arrays, movable: dict[str, np.ndarray]
) -> None:
    model, t = imported.model, imported.model.h.t
    for name, group in imported.groups.items():
        k, place = sim.model.instances[group.number]
        queue = sim.model.schema.named(arrays, "queue", k)
        if not queue:
            continue
        senders, size = model.wires.senders, queue["size"][place]
        points = senders.points[senders.name == senders.names.index(name)]
        places = movable.get(name, np.zeros(len(points), np.int64))
        instance = np.repeat(np.arange(len(size)), size)
        at = ranges(np.zeros_like(size), size), place[instance]
        number = np.append(imported.netcons, -1)[queue["connection"][at]]
        weight = np.append(model.wires.read.weight, 0)[number]
        time, flag = np.maximum(queue["time"][at], t), queue["flag"][at].astype(np.float64)
        kept = np.where(at[0] == queue["last"][place[instance]], places[instance], 0)
        model.queue.send_selves(points[instance], time, flag, weight, kept)


def _move_trains(imported: NeuronNetwork, stims: dict[tuple[str, int], int], last: float) -> None:
    model = imported.model
    for stim, item in stims.items():
        times = model.trains.times[stim]
        past = int(np.searchsorted(times, last, side="right"))
        if past:
            model.trains.go_on(stim, past)
        if past < len(times):
            model.queue.move(item, float(times[past]))
        else:
            model.queue.remove(item)
