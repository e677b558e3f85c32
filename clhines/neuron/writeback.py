"""Events on their way, written back into NEURON's queue."""

from __future__ import annotations

import numpy as np

from clhines.neuron.importer import Imported
from clhines.neuron.states import Arrays, extended_of
from clhines.simulate.simulation import Simulation


def put_events(sim: Simulation, imported: Imported) -> None:
    """Replace the events on their way by those of a simulation; NEURON's t is that of its end."""
    model = imported.model
    memory, arrays = model.memory, sim.arrays()
    movable: dict[int, int] = {}
    points = {memory.inside(thing): (name, k) for name, instances in model.contents.points.items()
              for k, thing in enumerate(instances.things)}  # fmt: skip
    stims = {}
    for event in memory.events():
        if event.what == "SelfEvent" and event.target in points:
            movable[event.target] = event.movable
            if points[event.target][0] in model.trains.names:
                stims[points[event.target]] = event.item
                continue
            memory.remove_event(event.item)
        elif event.what in ("NetCon", "PreSyn"):
            memory.remove_event(event.item)
    _put_netcons(sim, imported, arrays)
    _put_selves(sim, imported, arrays, movable)
    _move_trains(imported, stims)
    above = arrays["above"]
    detectors = {int(s): k for k, s in enumerate(extended_of(sim).detector_source)}
    network = imported.network
    for origin, (source, k) in zip(model.wires.origins, imported.sources, strict=True):
        if origin.sender is None:
            number = int(network.source_numbers(source, [k])[0])
            memory.set_above(origin.address, bool(above[detectors[number]]))


def _put_netcons(sim: Simulation, imported: Imported, arrays: Arrays) -> None:
    """Send again what sources have sent and no target has taken."""
    model, netcons, t = imported.model, extended_of(sim).netcons, imported.model.h.t
    first, size = sim.rings()
    waiting = np.flatnonzero(arrays["cursor"] < arrays["count"][netcons.source])
    for c in waiting.tolist():
        source, number = int(netcons.source[c]), int(imported.connections[c])
        for event in range(int(arrays["cursor"][c]), int(arrays["count"][source])):
            sent = float(arrays["ring"][first[source] + event % size[source]])
            if sent > t + 1e-9 and number >= 0:
                break  # of a train, and still to come
            netcon = model.wires.netcons[number if number >= 0 else -1 - number]
            netcon.event(max(sent + float(netcons.delay[c]), t))


def _put_selves(
    sim: Simulation, imported: Imported, arrays: Arrays, movable: dict[int, int]
) -> None:
    model, t = imported.model, imported.model.h.t
    for name, group in imported.groups.items():
        k, place = sim.model.instances[group.number]
        if f"queue{k}_size" not in arrays:
            continue
        things = model.every[name].things
        size = arrays[f"queue{k}_size"][place]
        for instance in np.flatnonzero(size).tolist():
            point = model.memory.inside(things[instance])
            for slot in range(int(size[instance])):
                at = slot, int(place[instance])
                connection = int(arrays[f"queue{k}_connection"][at])
                number = int(imported.connections[connection]) if connection >= 0 else -1
                weight = 0
                if number >= 0:
                    weight = model.memory.weight_address(model.wires.netcons[number])
                time = max(float(arrays[f"queue{k}_time"][at]), t)
                flag = float(arrays[f"queue{k}_flag"][at])
                model.memory.send_self(point, time, flag, weight, movable.get(point, 0))


def _move_trains(imported: Imported, stims: dict[tuple[str, int], int]) -> None:
    """Let each VecStim go on with its first event after now."""
    model, t = imported.model, imported.model.h.t
    for stim, item in stims.items():
        times = model.trains.times[stim]
        past = int(np.searchsorted(times, t + 1e-9, side="right"))
        thing = model.contents.points[stim[0]].things[stim[1]]
        if past < len(times):
            model.memory.move_event(item, float(times[past]))
            if past:
                thing.index = thing.index + past
        else:
            model.memory.remove_event(item)
