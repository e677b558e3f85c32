"""Copy a model's values from NEURON's memory into a `Simulation`, and back.

`compiled` is the simulation's model, `arrays` its state, `imported` the network read from NEURON.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from clhines.core.arrays import ranges, shifted
from clhines.core.errors import InputError
from clhines.neuron.connections import rejected_on_way
from clhines.neuron.convert import file_of, rejection, split_name
from clhines.neuron.importer import NeuronNetwork, is_local, local_of, waiting
from clhines.neuron.memory.raw import Place, numbers_at, put_numbers
from clhines.neuron.memory.session import Hoc
from clhines.neuron.model import NeuronModel
from clhines.neuron.read.contents import Instances, SharedVariables
from clhines.simulator.importing import SPIKE_LATE, Model, begins_of, check_unless, rings_of
from clhines.simulator.mechanisms import UNLESS, Quantity
from clhines.simulator.network import Group
from clhines.simulator.refusals import refusal
from clhines.simulator.simulation import Simulation, take_state

Arrays = dict[str, np.ndarray]
_OFF = 1e-6  # fraction of a step by which the begin of a step may differ
_SAME = 1e-9  # ms: tolerance for equal sending times


def step_of(h: Hoc, dt: float) -> int:
    """Return the number of the step that begins at NEURON's time; negative before 0 ms.

    A run adds up the times of steps from 0 ms on, as NEURON does; a time that a script has set
    may differ from this sum, by 1.6e-7 ms at 12 s.
    """
    step = round(h.t / dt)
    begin = float(begins_of(step, dt)) if step > 0 else step * dt
    if abs(h.t - begin) > _OFF * dt * max(1.0, -step * 1e-3):
        raise InputError(refusal("neuron.time-between-steps", t=h.t, dt=dt))
    return step


def _variables(
    compiled: Model, imported: NeuronNetwork, arrays: Arrays, name: str
) -> Iterator[tuple[np.ndarray, str, int | None, np.ndarray, Instances | SharedVariables]]:
    """Yield (array, hoc's name, element, indices, owner) for each state of mechanism `name`.

    ``array[indices]`` is the state in the simulation; `owner` reads and writes the state in NEURON.
    `element` is the index in an array variable of hoc, None for a scalar. LOCALs are left out.
    """
    model = imported.model
    for values, quantity, place in _states(compiled, imported.groups[name], arrays):
        base, element = split_name(quantity)
        owner = model.owner_of(name, base)
        if owner is None and not quantity.is_global:
            raise rejection(name, "neuron.variable-unreadable", base=base)
        if owner is not None:
            yield values, base, element, place, owner


def _states(
    compiled: Model, group: Group, arrays: Arrays
) -> Iterator[tuple[np.ndarray, Quantity, np.ndarray]]:
    """Yield (array, quantity, the group's indices in the array) for each state of a group."""
    k, place = compiled.instances[group.number]
    states = compiled.schema.named(arrays, "state", k)
    for quantity in group.mechanism.program.states:
        if quantity.name in states:
            yield states[quantity.name], quantity, place


def _elements(
    compiled: Model, imported: NeuronNetwork, arrays: Arrays
) -> Iterator[tuple[np.ndarray, np.ndarray, list[Place]]]:
    """Yield (array, indices in it, NEURON's addresses) for Vector elements that POINTERs write."""
    for group, addresses in imported.elements:
        for values, _, place in _states(compiled, group, arrays):
            yield values, place, [Place(n, 0, 0) for n in addresses]


def _ions(
    compiled: Model, imported: NeuronNetwork, arrays: Arrays
) -> Iterator[tuple[np.ndarray, str, Instances]]:
    """Yield (array of all nodes, hoc's name, instances) for each variable of each ion."""
    ion_arrays = compiled.schema.named(arrays, "ion")
    for ion in imported.model.contents.ions.values():
        for variable in (f"e{ion.name}", f"{ion.name}i", f"{ion.name}o", f"i{ion.name}"):
            if variable in ion_arrays:
                yield ion_arrays[variable], variable, ion.instances


def take_values(sim: Simulation, imported: NeuronNetwork, arrays: Arrays | None = None) -> None:
    """Set a simulation to NEURON's present values.

    `arrays` are the arrays to start from, changed in place (default: the simulation's own arrays).
    """
    model, copies, compiled = imported.model, imported.copies, sim.model
    if arrays is None:
        arrays = sim.runner.save()
    arrays["v"] = np.tile(voltages(imported), copies).astype(arrays["v"].dtype)
    for name, group in imported.groups.items():
        for values, quantity, place in _states(compiled, group, arrays):
            if is_local(model, name, quantity):
                if not len(at := local_of(model, name, quantity)):
                    base = split_name(quantity)[0]
                    raise rejection(name, "neuron.local-unreadable", base=base)
                values[place] = numbers_at(at)
        for values, base, element, place, owner in _variables(compiled, imported, arrays, name):
            now = owner.values(base, element)
            values[place] = np.tile(now, len(place) // len(now))
        _take_played(compiled, imported, arrays, name)
        if group.mechanism.program.unless:
            _check(compiled, group, arrays)
        _take_streams(compiled, imported, arrays, name)
    for values, place, address in _elements(compiled, imported, arrays):
        values[place] = np.tile([model.memory.value(at) for at in address], copies)
    for values, variable, instances in _ions(compiled, imported, arrays):
        nodes = shifted(instances.nodes, model.tree.num_nodes, copies)
        values[nodes] = np.tile(instances.values(variable), copies)
    above = arrays["v"][compiled.sources.detector_node] > compiled.sources.detector_threshold
    arrays["held"] = above.astype(np.int32)
    arrays["weight"] = _weights(imported, compiled).astype(arrays["weight"].dtype)
    _take_self_events(compiled, imported, arrays)
    _take_watches(compiled, imported, arrays)
    sources, source = compiled.sources, compiled.netcons.source
    emitted = () if imported.begins else sources.emitted.values()
    senders = np.concatenate([sources.detector_source, *emitted])
    has_sent = np.isin(source, senders)
    sent = arrays["count"][source]  # by INITIAL; already in NEURON's queue
    arrays["cursor"] = np.where(has_sent, sent, arrays["cursor"])
    # NEURON has delivered no event of a source made for pending events, not even one due at 0 ms
    no_origin = model.wires.origin[imported.netcons] < 0
    arrays["cursor"][no_origin | (imported.connections < 0)] = 0
    _take_sent(compiled, imported, arrays)
    _take_crossed(compiled, imported, arrays)
    step = step_of(model.h, compiled.dt)
    if step < 0:
        raise InputError(refusal("neuron.time-below-zero", t=model.h.t))
    take_state(sim, step, arrays, 1.0)


def changed_since_start(sim: Simulation, imported: NeuronNetwork) -> str:
    """Return a state or concentration in NEURON that differs from a simulation's start, or ""."""
    start = sim.runner.save()
    pairs = {"v": (start["v"], voltages(imported))}
    for name in imported.groups:
        entry = imported.model.every[name].entry
        variables = {} if entry.channel else file_of(entry.text, entry.file).variables
        for values, base, element, place, owner in _variables(sim.model, imported, start, name):
            if entry.channel or variables[base].sort == "state":
                pairs[f"{base} of {name}"] = values[place], owner.values(base, element)
    for values, variable, ion in _ions(sim.model, imported, start):
        if variable[0] != "i":  # a current
            pairs[variable] = values[ion.nodes], ion.values(variable)
    for name, (first, now) in pairs.items():
        if not np.allclose(first[: len(now)], now, rtol=1e-5, equal_nan=True):
            return name
    return ""


def sent_at_start(sim: Simulation, imported: NeuronNetwork) -> list[tuple[int, float]]:
    """List (NetCon, arrival time in ms) of events that sources send at a simulation's start.

    Spikes of threshold detectors are left out, because NEURON detects them in its first step.
    """
    arrays, wires = sim.runner.save(), sim.model.netcons
    emitted = np.isin(wires.source, np.concatenate([*sim.model.sources.emitted.values(), []]))
    counts = np.where(emitted, arrays["count"][wires.source] - arrays["cursor"], 0)
    at, (first, size) = np.repeat(np.arange(len(counts)), counts), rings_of(sim.model)
    event, source = ranges(arrays["cursor"], counts), wires.source[at]
    time = arrays["ring"][first[source] + event % size[source]] + wires.delay[at]
    return sorted(zip(imported.netcons[at].tolist(), time.tolist(), strict=True))


def _check(compiled: Model, group: Group, arrays: Arrays) -> None:
    """Raise an InputError if a group's present values lead to unsupported statements."""
    k, place = compiled.instances[group.number]
    kind = compiled.kinds[k]
    parameters = {n: np.broadcast_to(x, kind.count)[place] for n, x in kind.parameters.items()}
    states = {n: x[place] for n, x in compiled.schema.named(arrays, "state", k).items()}
    for block in UNLESS:
        if block in group.mechanism.program.blocks:
            check_unless(group.mechanism, block, {**parameters, **states})


def _take_played(compiled: Model, imported: NeuronNetwork, arrays: Arrays, name: str) -> None:
    """Read the present values of parameters that Vectors play, because events may use them."""
    instances, group = imported.model.every[name], imported.groups[name]
    k, place = compiled.instances[group.number]
    played = compiled.schema.named(arrays, "played", k)
    for quantity in group.mechanism.program.parameters:
        base, element = split_name(quantity)
        if quantity.name in played and base in instances.entry.ranges:
            played[quantity.name][place] = np.tile(instances.values(base, element), imported.copies)


def _take_sent(compiled: Model, imported: NeuronNetwork, arrays: Arrays) -> None:
    """Add pending events to their sources' lists of sent events, if the events change weights.

    A source has one list of sent events. Each of its connections has received the first events of
    the list, up to a cursor.
    """
    wires, due = compiled.netcons, dict[int, list[float]]()
    for netcon, t in waiting(imported):
        for at in np.flatnonzero(imported.connections == netcon).tolist():
            due.setdefault(at, []).append(t - float(wires.delay[at]))
    first, size = rings_of(compiled)
    count = arrays["count"]
    for source in {int(wires.source[at]) for at in due}:
        heard = np.flatnonzero(wires.source == source)
        sent = np.sort([t for at in heard.tolist() for t in due.get(at, ())])
        sent = sent[np.append(True, np.diff(sent) > _SAME)]
        for at in heard.tolist():
            due_times = np.sort(due.get(at, []))
            last = sent[max(len(sent) - len(due_times), 0) :]
            same = len(last) == len(due_times) and np.allclose(last, due_times, rtol=0, atol=_SAME)
            same &= sent[-1] <= imported.model.h.t + _SAME  # else a `NetCon.event` in the future
            if not same or len(sent) > size[source]:
                name = imported.model.wires.target_of(int(imported.netcons[at]))[0]
                raise rejected_on_way(imported.model, name)
            arrays["cursor"][at] = count[source] + len(sent) - len(due_times)
        place = (count[source] + np.arange(len(sent))) % size[source]
        arrays["ring"][first[source] + place] = sent
        count[source] += len(sent)


def _take_crossed(compiled: Model, imported: NeuronNetwork, arrays: Arrays) -> None:
    t, (first, size) = imported.model.h.t, rings_of(compiled)
    count = arrays["count"]
    detectors = compiled.sources.detector_source.tolist()
    above = dict(zip(detectors, arrays["held"].tolist(), strict=True))
    imported.crossed.clear()
    for address, sources in imported.detectors.items():
        if above[int(sources[0])] and not imported.model.sources.above(address).value:
            arrays["ring"][first[sources] + count[sources] % size[sources]] = t + SPIKE_LATE
            count[sources] += 1
            imported.crossed += sources.tolist()


def voltages(imported: NeuronNetwork) -> np.ndarray:
    values, rows, numbers = _voltages(imported.model)
    v = np.zeros(imported.model.tree.num_nodes)
    v[numbers] = values[rows]
    if (layers := imported.model.tree.layers) is not None:
        v[layers.numbers] = numbers_at(layers.addresses)
    return v


def _voltages(model: NeuronModel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return NEURON's column of voltages, and the row and our node number of each NEURON node.

    Nodes with membrane come last.
    """
    tree = model.tree
    values, rows = model.fields.rows(tree.v, np.concatenate([tree.addresses, tree.inner]))
    return values, rows, np.concatenate([tree.numbers, tree.inner_numbers])


def _weights(imported: NeuronNetwork, compiled: Model) -> np.ndarray:
    """Return NEURON's present weights, connection after connection, (w,) float64."""
    netcons = compiled.netcons
    values, first = netcons.weight.copy(), netcons.first_weight
    wires = imported.model.wires
    number = imported.netcons
    widths = np.minimum(np.diff(first), wires.width[number])
    for place in range(wires.weights.shape[1]):
        has_weight = np.flatnonzero(place < widths)
        values[first[has_weight] + place] = wires.weights[number[has_weight], place]
    return values


def _take_streams(compiled: Model, imported: NeuronNetwork, arrays: Arrays, name: str) -> None:
    k, place = compiled.instances[imported.groups[name].number]
    for variable, values in compiled.schema.named(arrays, "drawn", k).items():
        streams = imported.model.streams(name, variable)
        streams.check()
        values[place] = np.tile(streams.drawn(), imported.copies)


def _take_self_events(compiled: Model, imported: NeuronNetwork, arrays: Arrays) -> None:
    queues = [compiled.schema.named(arrays, "queue", k) for k in range(len(compiled.kinds))]
    for queue in queues:
        if queue:
            queue["size"][:], queue["last"][:] = 0, -1
    model, none = imported.model, np.full(imported.copies, -1)
    netcons = {event.netcon for event in model.pending.selves} - {-1}
    of_netcon = {k: np.flatnonzero(imported.connections == k) for k in netcons} | {-1: none}
    names = {e.target[0] for e in model.pending.selves if e.flag == 1} & {*imported.groups}
    moved = {name: model.slots.moved(model.every[name]) for name in names}
    for event in model.pending.selves:
        name, instance = event.target
        if name not in imported.groups:
            continue
        calls = imported.groups[name].mechanism.calls("receive")
        connection = of_netcon[event.netcon]  # one per copy
        if not len(connection):
            if any(a.role == "weight" for a in calls):
                raise rejection(name, "neuron.pending-self-event")
            connection = none
        k, place = compiled.instances[imported.groups[name].number]
        at = place[instance :: len(place) // imported.copies]
        queue = queues[k]
        slot, room = queue["size"][at].astype(np.int64), len(queue["time"])
        if (slot >= room).any():
            raise InputError(refusal("neuron.too-many-self-events", name=name, room=room))
        queue["time"][slot, at], queue["flag"][slot, at] = event.time, event.flag
        queue["connection"][slot, at], queue["sent"][slot, at] = connection, model.h.t
        queue["size"][at] = slot + 1
        if event.flag == 1 and event.item in moved[name]:
            queue["last"][at] = slot


def _take_watches(compiled: Model, imported: NeuronNetwork, arrays: Arrays) -> None:
    model = imported.model
    for name, conditions in model.watched.items():
        k, place = compiled.instances[imported.groups[name].number]
        queue = compiled.schema.named(arrays, "queue", k)
        armed, above = queue["armed"], queue["above"]
        armed[:], above[:] = False, False
        count = len(place) // imported.copies
        for instance, watch, is_above in conditions:
            at = place[instance::count]
            armed[watch, at], above[watch, at] = True, is_above


def check_numbers(compiled: Model, imported: NeuronNetwork, arrays: Arrays) -> None:
    """Refuse a run in which a variable of a mechanism became NaN."""
    for name in imported.groups:
        for values, base, element, place, owner in _variables(compiled, imported, arrays, name):
            lost = np.isnan(values[place])
            if (lost & ~np.isnan(owner.values(base, element))).any():
                raise InputError(f"{base} of {name} is no number after the run")


def put_values(compiled: Model, imported: NeuronNetwork, arrays: Arrays) -> None:
    """Write a simulation's values into NEURON's memory, except events and records."""
    model = imported.model
    values, rows, numbers = _voltages(model)
    v = arrays["v"].astype(np.float64)
    values[rows] = v[numbers]
    if (layers := model.tree.layers) is not None:
        put_numbers(layers.addresses, v[layers.numbers])
    for name in imported.groups:
        for values, base, element, place, owner in _variables(compiled, imported, arrays, name):
            owner.put(base, values[place].astype(np.float64), element)
        k, place = compiled.instances[imported.groups[name].number]
        last = compiled.kinds[k].last
        for local, quantity, _ in _states(compiled, imported.groups[name], arrays):
            value = local[[-1 if last is None else last]].astype(np.float64)
            put_numbers(to := local_of(model, name, quantity), value[: len(to)])
        for variable, drawn in compiled.schema.named(arrays, "drawn", k).items():
            model.streams(name, variable).put(drawn[place])
    for values, place, address in _elements(compiled, imported, arrays):
        for at, value in zip(address, values[place].tolist(), strict=True):
            model.memory.number(at).value = value
    for values, variable, of_ion in _ions(compiled, imported, arrays):
        of_ion.put(variable, values[of_ion.nodes].astype(np.float64))
    if model.memory.transfers:  # NEURON does so when its step ends
        model.memory.transfer()
    _put_weights(compiled, imported, arrays["weight"])


def _put_weights(compiled: Model, imported: NeuronNetwork, weight: np.ndarray) -> None:
    first, wires = compiled.netcons.first_weight, imported.model.wires
    of_netcons = np.flatnonzero(imported.connections >= 0)
    number = imported.connections[of_netcons]
    width = np.minimum(np.diff(first)[of_netcons], wires.width[number])
    for place in range(wires.weights.shape[1]):
        has_weight = np.flatnonzero(place < width)
        now = weight[first[of_netcons[has_weight]] + place]
        before = wires.weights[number[has_weight], place]
        changed = np.flatnonzero(now != before.astype(now.dtype))  # do not round others to float32
        chosen = number[has_weight[changed]]
        wires.weights[chosen, place] = now[changed]
        put_numbers(wires.read.weight[chosen] + 8 * place, wires.weights[chosen, place])
