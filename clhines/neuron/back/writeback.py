"""Events on their way, written back into NEURON's queue."""

from __future__ import annotations

import numpy as np

from clhines.neuron.back.states import Arrays, rings_of
from clhines.neuron.importer import Imported
from clhines.simulate.events.bins import connection_ranks
from clhines.simulate.events.sources import SPIKE_LATE
from clhines.simulate.simulation import Simulation


def put_events(sim: Simulation, imported: Imported, arrays: Arrays, last: float) -> None:
    """Replace the events on their way by those of a simulation; NEURON's t is that of its end.

    `arrays` are those of the simulation. Events of given times have been sent up to `last`, ms, as
    `records.last_delivery` has it.
    """
    model = imported.model
    queue, t = model.queue, float(model.h.t)
    unseen = _unseen(sim, arrays, t)
    movable = _movable(imported)
    # in the order of NEURON's bins, in which the first is found at once
    events = sorted(queue.events(), key=lambda event: event.bin_order)
    senders = model.wires.senders
    points = senders.of_points(np.array([event.target for event in events], np.uint64))
    stims = {}
    for event, number in zip(events, points.tolist(), strict=True):
        if event.what == "SelfEvent" and number >= 0:
            if senders[number][0] in model.trains.names:
                stims[senders[number]] = event.item
                continue
            queue.remove(event.item)
        elif event.what in ("NetCon", "PreSyn"):
            queue.remove(event.item)
    model.h.t = min(last, t)  # NEURON takes no event of the past, and has delivered up to here
    _put_netcons(sim, imported, arrays, last, unseen)
    _put_selves(sim, imported, arrays, movable)
    model.h.t = t
    _move_trains(imported, stims, last)
    _put_watches(sim, imported, arrays)
    above = dict(zip(sim.model.sources.detector_source.tolist(), arrays["above"], strict=True))
    for address, sources in imported.detectors().items():
        number = int(sources[0])
        model.sources.set_above(address, bool(above[number]) and number not in unseen)
    if model.bins is not None:  # NEURON delivers self events before the next bin, at a step's end
        queue.deliver_until(t)


def _unseen(sim: Simulation, arrays: Arrays, t: float) -> set[int]:
    """Return sources that crossed their threshold in the last step, which NEURON sees later."""
    first, size = rings_of(sim)
    sources = sim.model.sources.detector_source
    sources = sources[arrays["count"][sources] > 0]
    last = arrays["ring"][first[sources] + (arrays["count"][sources] - 1) % size[sources]]
    return set(sources[last > t - 0.5 * sim.model.dt].tolist())


def _movable(imported: Imported) -> dict[str, np.ndarray]:
    """Where instances keep their event for net_move, by mechanism; 0 for none; emptied."""
    model, found = imported.model, dict[str, np.ndarray]()
    for name, group in imported.groups.items():
        net = group.mechanism.program.net
        if net is not None and any(s.kind != "event" for s in net.sends):
            found[name] = model.slots.movable(model.every[name])
    return found


def _put_watches(sim: Simulation, imported: Imported, arrays: Arrays) -> None:
    """Arm the WATCH conditions that a simulation has armed, and no others."""
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
    sim: Simulation, imported: Imported, arrays: Arrays, last: float, unseen: set[int]
) -> None:
    """Send again what sources have sent and no target has taken."""
    model, netcons, t = imported.model, sim.model.netcons, imported.model.h.t
    first, size = rings_of(sim)
    trains = _train_numbers(imported)
    rank = connection_ranks(sim.model) if model.bins is not None else None
    crossed = {*sim.model.sources.detector_source.tolist()}
    binned: list[tuple[float, int, int, float, int]] = []
    waiting = np.flatnonzero(arrays["cursor"] < arrays["count"][netcons.source])
    for c in waiting.tolist():
        source, number = int(netcons.source[c]), int(imported.connections[c])
        for event in range(int(arrays["cursor"][c]), int(arrays["count"][source])):
            sent = float(arrays["ring"][first[source] + event % size[source]])
            if sent > last and source in trains:
                break  # still to come
            if source in unseen and event + 1 == int(arrays["count"][source]):
                break
            number = number if number >= 0 else -1 - number
            time = sent + float(netcons.delay[c])
            if rank is None:
                model.queue.send(int(model.wires.read.address[number]), max(time, t))
                continue
            key = sent if source in crossed else sent + SPIKE_LATE
            binned.append((key, int(rank[c]), event, time, int(model.wires.read.address[number])))
    if model.bins is not None:
        model.bins.begin_at(last)
        for *_, time, address in sorted(binned):
            model.bins.put(address, time)


def _train_numbers(imported: Imported) -> set[int]:
    """Return the sources of given times."""
    network, origins, names = imported.network, imported.model.wires.origins, imported.model.trains
    return {
        int(network.source_numbers(source, [k])[0])
        for (source, k), origin in zip(imported.sources, origins, strict=True)
        if origin.sender is not None and origin.sender[0] in names.names
    }


def _put_selves(
    sim: Simulation, imported: Imported, arrays: Arrays, movable: dict[str, np.ndarray]
) -> None:
    model, t = imported.model, imported.model.h.t
    for name, group in imported.groups.items():
        k, place = sim.model.instances[group.number]
        queue = sim.model.schema.named(arrays, "queue", k)
        if not queue:
            continue
        points, size = model.wires.senders.points_of(name), queue["size"][place]
        places = movable.get(name, np.zeros(len(points), np.int64))
        for instance in np.flatnonzero(size).tolist():
            point = int(points[instance])
            for slot in range(int(size[instance])):
                at = slot, int(place[instance])
                connection = int(queue["connection"][at])
                number = int(imported.connections[connection]) if connection >= 0 else -1
                weight = 0
                if number >= 0:
                    weight = int(model.wires.read.weight[number])
                time = max(float(queue["time"][at]), t)
                flag = float(queue["flag"][at])
                model.queue.send_self(point, time, flag, weight, int(places[instance]))


def _move_trains(imported: Imported, stims: dict[tuple[str, int], int], last: float) -> None:
    """Let each VecStim go on with its first event after now."""
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
